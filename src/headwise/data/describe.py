"""What a data set contains, before anything is computed on it."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.data.catalog import open_and_guess
from headwise.data.dataset import Dataset
from headwise.data.examples import (
    ChoiceExample,
    Example,
    PairExample,
    PromptExample,
    Sentence,
    TextExample,
    TranslationExample,
    WordExample,
)
from headwise.data.ids import identifies_item
from headwise.data.selection import ALIGNED_SHARE, language_codes
from headwise.data.splits import small_note
from headwise.errors import HeadwiseError

_SHOWN = 5

Loaded = dict[tuple[str, str], tuple[Example, ...]]


@dataclass(frozen=True)
class Description:
    """What a data set contains.

    Attributes:
        name: Its name.
        task: The task.
        reason: Why this task was guessed; empty if it was given.
        counts: The number of examples by language and split.
        labels: The number of examples with each label (for words: of words), the most frequent first.
        mean_length: The mean length of an example in words, or in characters where words are not separated by spaces.
        unit: The unit of `mean_length`: `words` or `characters`.
        alignment: Whether the languages share their items, in words; empty for a single language.
        examples: Three examples in words, with their languages.
        warnings: What may be wrong with the data.
        note: The data set's own remark.
    """

    name: str
    task: str
    reason: str
    counts: dict[str, dict[str, int]]
    labels: dict[str, int]
    mean_length: float
    unit: str
    alignment: str
    examples: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    note: str


def describe(name: str | os.PathLike[str], task: str | None = None, languages: str = "all") -> Description:
    """Open a data set and say what it contains.

    Args:
        name: The data set, as in `open_dataset`.
        task: The task; by default it is guessed.
        languages: Comma-separated codes, or `all`.

    Raises:
        HeadwiseError: The data set cannot be opened, or a task must be chosen.

    Example:
        >>> found = describe("phrasebook", "pos", "de,tr")
        >>> found.counts["tr"], found.alignment
        ({'dev': 130, 'test': 130}, 'de and tr share all their items')
    """
    dataset, task, reason = open_and_guess(name, task)
    codes = language_codes(languages, dataset)
    loaded = _load(dataset, codes)
    everything = [example for found in loaded.values() for example in found]
    length, unit = _mean_length(everything)
    labels = Counter(label for example in everything for label in _labels(example))
    return Description(
        name=dataset.name,
        task=task,
        reason=reason,
        counts={code: {split: len(each) for (one, split), each in loaded.items() if one == code} for code in codes},
        labels=dict(sorted(labels.items(), key=lambda item: (-item[1], item[0]))),
        mean_length=length,
        unit=unit,
        alignment=_alignment(loaded, codes),
        examples=tuple(_first_examples(loaded, codes)),
        warnings=tuple(_warnings(loaded, codes, dataset.note)),
        note=dataset.note,
    )


def _load(dataset: Dataset, codes: Sequence[str]) -> Loaded:
    """Return all examples by language and split; a language need not have every split."""
    loaded: Loaded = {}
    for code in codes:
        if code not in dataset.languages:
            dataset.examples(code, dataset.splits[0])  # raises an error that lists the languages
        for split in dataset.splits:
            if split == "all":
                continue
            try:
                loaded[code, split] = dataset.examples(code, split)
            except HeadwiseError as error:
                if "no split" not in str(error) and "no examples" not in str(error):
                    raise
    if not loaded:
        raise HeadwiseError(f"{dataset.name}: no examples for {', '.join(codes)}")
    return loaded


def _labels(example: Example) -> tuple[str, ...]:
    match example:
        case WordExample():
            return example.labels
        case TextExample() | PairExample() if example.label:
            return (example.label,)
    return ()


def _text(example: Example) -> str:
    match example:
        case WordExample():
            return " ".join(example.words)
        case TextExample() | Sentence():
            return example.text
        case PairExample():
            return f"{example.first} | {example.second}"
        case TranslationExample():
            return f"{example.source} → {example.target}"
        case ChoiceExample():
            return f"{example.context} [{' | '.join(example.choices)}]"
        case PromptExample():
            return f"{example.prompt} → {example.continuation}"


def _mean_length(examples: Sequence[Example]) -> tuple[float, str]:
    words = [len(each.words) if isinstance(each, WordExample) else len(_text(each).split()) for each in examples]
    characters = [len(_text(each)) for each in examples]
    if sum(characters) > 15 * sum(words):  # hardly any spaces: Chinese, Japanese, Thai
        return sum(characters) / len(examples), "characters"
    return sum(words) / len(examples), "words"


def _alignment(loaded: Loaded, codes: Sequence[str]) -> str:
    """Say in words whether the languages share their items."""
    if len(codes) < 2:
        return ""
    ids = {
        code: {
            (split, example.id)
            for (one, split), found in loaded.items()
            for example in found
            if one == code and split != "train" and identifies_item(example.id)
        }
        for code in codes
    }
    totals = [
        sum(len(found) for (one, split), found in loaded.items() if one == code and split != "train") for code in codes
    ]
    shared = len(set.intersection(*ids.values()))
    shown = f"{', '.join(codes[:_SHOWN])}{', …' if len(codes) > _SHOWN else ''}"
    shown = " and ".join(codes) if len(codes) == 2 else shown
    if shared and shared == min(totals) == max(totals):
        return f"{shown} share all their items"
    if shared >= ALIGNED_SHARE * max(totals) and shared:
        return f"{shown} share {shared} of {max(totals)} items in dev and test: they are aligned"
    return f"{shown} are not aligned: they share {shared} of {max(totals)} items in dev and test"


def _first_examples(loaded: Loaded, codes: Sequence[str]) -> list[tuple[str, str]]:
    """Return three examples, of different languages if possible, each with its label."""
    first = {
        code: next(found for (one, _), found in loaded.items() if one == code) for code in codes if _has(loaded, code)
    }
    rows = [(code, found[place]) for place in range(3) for code, found in first.items() if place < len(found)]
    return [(code, _shown(example)) for code, example in rows[:3]]


def _has(loaded: Loaded, code: str) -> bool:
    return any(one == code for one, _ in loaded)


def _shown(example: Example) -> str:
    if isinstance(example, WordExample) and example.labels:
        pairs = list(zip(example.words, example.labels, strict=True))
        return " ".join(f"{word}/{label}" for word, label in pairs[:12]) + (" …" if len(pairs) > 12 else "")
    text = _text(example)
    text = text if len(text) <= 100 else f"{text[:100]}…"
    labels = _labels(example)
    return f"{text}  [{labels[0]}]" if labels else text


def _warnings(loaded: Loaded, codes: Sequence[str], note: str) -> list[str]:
    warnings = [
        f"{len(repeated)} ids occur more than once in {code} {split}, such as {repeated[0]!r}"
        for (code, split), found in loaded.items()
        if (repeated := [id_ for id_, count in Counter(each.id for each in found).items() if count > 1])
    ]
    warnings += [
        f"{len(repeated)} texts of {code} are in train and in {split}, such as {repeated[0][:60]!r}"
        for (code, split), found in loaded.items()
        if split != "train"
        and (repeated := sorted({*map(_text, found)} & {*map(_text, loaded.get((code, "train"), ()))}))
    ]
    by_split = {
        split: {
            label for (_, each), found in loaded.items() if each == split for one in found for label in _labels(one)
        }
        for _, split in loaded
    }
    if "train" in by_split:
        for split in ("dev", "test"):
            unseen = sorted(by_split.get(split, set()) - by_split["train"])
            if unseen:
                warnings.append(f"labels that occur in {split} but not in train: {', '.join(unseen[:_SHOWN])}")
    missing = [f"{code} has no {split}" for code in codes for split in ("dev", "test") if (code, split) not in loaded]
    warnings += missing[:_SHOWN]
    return warnings if note else warnings + small_note(loaded)
