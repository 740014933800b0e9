"""Splits of own data: those that the data have, and drawn ones where they have none."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwise.data.examples import (
    ChoiceExample,
    Example,
    PairExample,
    PromptExample,
    TextExample,
    TranslationExample,
    WordExample,
)
from headwise.data.ids import identifies_item
from headwise.data.rows import Item
from headwise.errors import HeadwiseError

#: Dev and test each get this share of data without splits, and at most `MAX_DRAWN` items; the rest is for training.
DRAWN_SHARE = 0.2
MAX_DRAWN = 2000
#: A drawn dev or test split with fewer examples is an error.
MIN_DRAWN = 5
#: A dev or test split with fewer examples gets a remark.
SMALL = 50

Splits = dict[tuple[str, str], tuple[Example, ...]]


@dataclass(frozen=True)
class Divided:
    """Examples by language and split.

    Attributes:
        languages: The languages, in the order of the data.
        splits: The examples of each language and split.
        note: How splits were drawn, if they were, and which are small; may be empty.
    """

    languages: tuple[str, ...]
    splits: Splits
    note: str


def divide(items: Sequence[Item], name: str, seed: int = 0) -> Divided:
    """Give every example a split.

    Splits of the data are kept. Where the data have none, or only `train`, all examples are divided at random into
    train (60%), dev and test (20% each, at most `MAX_DRAWN` items). Where a language has only one of dev and test, both
    are random halves of it, unless it has fewer than twice `MIN_DRAWN` examples. The same item, by its id, is in the
    same split in every language; examples with the same text stay together.

    Args:
        items: The examples.
        name: The name of the data, for messages.
        seed: The seed of the draw.

    Raises:
        HeadwiseError: Some examples of a language have a split and others do not, or a drawn split would have fewer
            than `MIN_DRAWN` examples.
    """
    by_language: dict[str, dict[str | None, list[Example]]] = {}
    for item in items:
        by_language.setdefault(item.language, {}).setdefault(item.split, []).append(item.example)
    mixed = next((code for code, found in by_language.items() if None in found and len(found) > 1), None)
    if mixed:
        raise HeadwiseError(f"{name}: some examples of {mixed!r} have a split and others do not: give all of them one")
    given = {split for found in by_language.values() for split in found}
    notes = []
    if given <= {None, "train"}:
        pools = {code: [each for found in splits.values() for each in found] for code, splits in by_language.items()}
        splits = _draw(pools, {"dev": DRAWN_SHARE, "test": DRAWN_SHARE}, "train", name, seed)
        why = "has no splits" if None in given else "has only the split train"
        notes.append(f"{name} {why}: its examples were divided at random (seed {seed}): {_sizes(splits)}.")
    else:
        splits = {
            (code, split or ""): tuple(each) for code, found in by_language.items() for split, each in found.items()
        }
        halves = _halves(by_language, name, seed)
        if halves:
            notes.append(
                f"Where a language has only one of dev and test, both are random halves of it (seed {seed}): "
                f"{_sizes(halves)}."
            )
        splits |= halves
    return Divided(tuple(by_language), splits, " ".join([*notes, *small_note(splits)]))


def small_note(splits: Mapping[tuple[str, str], Sequence[Example]]) -> list[str]:
    """Return a remark on dev and test splits with fewer than `SMALL` examples, if there are any."""
    small = [f"{code} {split} {len(found)}" for (code, split), found in splits.items() if _is_small(split, found)]
    shown = ", ".join(small[:6]) + (", …" if len(small) > 6 else "")
    return [f"Few examples ({shown}): results on them are uncertain."] if small else []


def _is_small(split: str, examples: Sequence[Example]) -> bool:
    return split in ("dev", "test") and len(examples) < SMALL


def _halves(by_language: Mapping[str, Mapping[str | None, list[Example]]], name: str, seed: int) -> Splits:
    """Return random halves, as dev and test, for the languages that have only one of the two and enough examples."""
    pools = {}
    for code, found in by_language.items():
        measured = [split for split in ("dev", "test") if split in found]
        if len(measured) == 1 and len(found[measured[0]]) >= 2 * MIN_DRAWN:
            pools[code] = found[measured[0]]
    return _draw(pools, {"dev": 0.5}, "test", name, seed) if pools else {}


def _draw(
    pools: Mapping[str, Sequence[Example]], shares: Mapping[str, float], rest: str, name: str, seed: int
) -> Splits:
    """Divide each language's examples at random: a share of its items for each split, and all others for `rest`."""
    keys = {code: group_keys(examples) for code, examples in pools.items()}
    shared = _share_items(keys)
    everything = [key for found in keys.values() for key in found]
    common = _assign(everything, shares, rest, seed) if shared else {}
    drawn: Splits = {}
    for code, examples in pools.items():
        split_of = common or _assign(keys[code], shares, rest, seed)
        for split in (rest, *shares):
            chosen = tuple(each for each, key in zip(examples, keys[code], strict=True) if split_of[key] == split)
            if split != "train" and len(chosen) < MIN_DRAWN:
                raise HeadwiseError(
                    f"{name}: the {len(examples)} examples of {code!r} give only {len(chosen)} for {split}: add "
                    "examples, or give splits of your own (a column split with train, dev, test)"
                )
            drawn[code, split] = chosen
    return drawn


def _share_items(keys: Mapping[str, Sequence[str]]) -> bool:
    seen: set[str] = set()
    for found in keys.values():
        identified = {key for key in found if key.startswith("id ")}
        if seen & identified:
            return True
        seen |= identified
    return False


def _assign(keys: Iterable[str], shares: Mapping[str, float], rest: str, seed: int) -> dict[str, str]:
    """Return the split of each key; which keys go where depends on the seed and the keys alone, not on their order."""
    ranked = sorted(set(keys), key=lambda key: hashlib.sha256(f"{seed}\x1f{key}".encode()).digest())
    split_of = dict.fromkeys(ranked, rest)
    start = 0
    for split, share in shares.items():
        # Halves have no maximum: a test set is not cut.
        count = round(share * len(ranked)) if rest == "test" else min(round(share * len(ranked)), MAX_DRAWN)
        split_of.update(dict.fromkeys(ranked[start : start + count], split))
        start += count
    return split_of


def group_keys(examples: Sequence[Example]) -> list[str]:
    """Return a key for each example; examples with the same key must be in the same split.

    The key is the id where it identifies the item, and otherwise the text. Pairs stay together if they share their
    first text, translations if they share a source or a target.
    """
    linked = iter(linked_pairs([each for each in examples if isinstance(each, TranslationExample)]))
    keys = []
    for example in examples:
        match example:
            case TextExample():
                text = example.text
            case PairExample():
                text = example.first
            case WordExample():
                text = " ".join(example.words)
            case TranslationExample():
                text = next(linked)
            case ChoiceExample():
                text = example.context or " / ".join((*example.contexts, *example.choices))
            case PromptExample():
                text = example.prompt or example.continuation
        keys.append(f"id {example.id}" if identifies_item(example.id) else f"text {text}")
    return keys


def linked_pairs(examples: Sequence[TranslationExample]) -> list[str]:
    """Return a group for each pair, the same for pairs that share a source or a target, directly or through others."""
    parents: dict[str, str] = {}

    def root(node: str) -> str:
        while (parent := parents.setdefault(node, node)) != node:
            node = parent
        return node

    for example in examples:
        parents[root(f"source {example.source}")] = root(f"target {example.target}")
    return [root(f"source {example.source}") for example in examples]


def _sizes(splits: Splits) -> str:
    """Return the number of examples of each language and split in words."""
    codes = tuple(dict.fromkeys(code for code, _ in splits))
    sizes = {
        code: ", ".join(f"{split} {len(found)}" for (each, split), found in splits.items() if each == code)
        for code in codes
    }
    if len(codes) > 1 and len(set(sizes.values())) == 1:
        return f"{sizes[codes[0]]} in each language"
    return "; ".join(f"{code} {sizes[code]}" for code in codes[:5]) + ("; …" if len(codes) > 5 else "")
