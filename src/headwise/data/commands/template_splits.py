"""Assigns every template to one split, so that every split has every intent and every slot."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from headwise.data.commands.templates import AnyOrder, Choice, Literal, Node, Series, Slot, Template

SPLITS = ("train", "dev", "test")

#: The share of the templates for these splits; the rest is for training.
SHARES = {"dev": 0.15, "test": 0.25}


#: Returns whether a template produces sentences.
Check = Callable[[Template], bool]


def deal(templates: Iterable[Template], slots: Sequence[str], check: Check) -> dict[str, list[Template]]:
    """Assign each template that produces sentences to a split.

    Templates of one intent with the same slots are divided together. If there are too few, so that a split would lack
    an intent or a slot, a template is expanded at its widest choice: `(stop|cancel|delete) the timer` becomes three
    templates.

    Args:
        templates: The templates of all intents.
        slots: The slots that every split must have.
        check: Returns whether a template produces sentences.
    """
    kept = list(filter(check, templates))
    for intent in dict.fromkeys(template.intent for template in kept):
        kept = _open(kept, partial(_has_intent, intent), check)
    for slot in slots:
        groups = [group for group in _alike(kept) if slot in _kind(group[0])[1]]
        if groups and len(max(groups, key=len)) < len(SPLITS):
            widest = max((template for group in groups for template in group), key=_width)
            kept = _open(kept, partial(_has_kind, _kind(widest)), check)
    dealt: dict[str, list[Template]] = {split: [] for split in SPLITS}
    for group in _groups(kept):
        for split, template in zip(_order(len(group)), sorted(group, key=lambda one: one.id), strict=True):
            dealt[split].append(template)
    return dealt


def _kind(template: Template) -> tuple[str, frozenset[str]]:
    """Return the intent of a template and the slots that its sentences may have."""
    return template.intent, frozenset(_slots(template.tree))


def _slots(node: Node) -> Iterator[str]:
    if isinstance(node, Slot):
        yield node.name
    elif not isinstance(node, Literal):
        for item in node.options if isinstance(node, Choice) else node.items:
            yield from _slots(item)


def _has_intent(intent: str, template: Template) -> bool:
    return template.intent == intent


def _has_kind(kind: tuple[str, frozenset[str]], template: Template) -> bool:
    return _kind(template) == kind


def _alike(templates: Iterable[Template]) -> list[list[Template]]:
    """Return the templates grouped by intent and slots."""
    groups: dict[tuple[str, frozenset[str]], list[Template]] = defaultdict(list)
    for template in templates:
        groups[_kind(template)].append(template)
    return list(groups.values())


def _groups(templates: Iterable[Template]) -> list[list[Template]]:
    """Return the groups that are divided together: templates alike, and per intent all templates of small groups."""
    groups = []
    rest: dict[str, list[Template]] = defaultdict(list)
    for group in _alike(templates):
        if len(group) >= len(SPLITS):
            groups.append(group)
        else:
            rest[group[0].intent] += group
    return groups + list(rest.values())


def _order(count: int) -> list[str]:
    """Return the splits of a group's templates; each split gets at least one if there are enough."""
    if count < len(SPLITS):
        return ["train", "test"][:count]
    given = [split for split, share in SHARES.items() for _ in range(max(1, round(share * count)))]
    return given + ["train"] * (count - len(given))


def _open(templates: list[Template], wanted: Check, check: Check) -> list[Template]:
    """Expand templates until there are as many of the wanted kind as splits, or none can be expanded."""
    while len(chosen := list(filter(wanted, templates))) < len(SPLITS):
        widest = max(chosen, key=_width, default=None)
        if widest is None or _width(widest) == 0:
            break
        templates = [one for one in templates if one is not widest] + list(filter(check, _parts(widest)))
    return templates


def _width(template: Template) -> float:
    """Return the number of parts into which a template can be expanded; below 1 if only at an optional part."""
    return max((_choice_width(choice) for choice, _ in _choices(template.tree)), default=0)


def _choice_width(choice: Choice) -> float:
    # An optional word hardly changes a sentence: such a choice is expanded only if there is no other.
    return len(choice.options) / 1000 if choice.optional else len(choice.options)


def _parts(template: Template) -> list[Template]:
    """Return the template once for each option of its widest choice."""
    choice, put = max(_choices(template.tree), key=lambda found: _choice_width(found[0]))
    options = (*choice.options, Literal("")) if choice.optional else choice.options
    return [
        Template(f"{template.id}.{index}", template.intent, put(option))
        for index, option in enumerate(options, start=1)
    ]


def _choices(node: Node) -> Iterator[tuple[Choice, Callable[[Node], Node]]]:
    """Return the choices that are on every path through a tree, each with a function that replaces it."""
    if isinstance(node, Choice):
        yield node, lambda new: new
    elif isinstance(node, Series | AnyOrder):
        for index, item in enumerate(node.items):
            for choice, put in _choices(item):
                yield choice, _putter(node, index, put)


def _putter(node: Series | AnyOrder, index: int, put: Callable[[Node], Node]) -> Callable[[Node], Node]:
    return lambda new: type(node)((*node.items[:index], put(new), *node.items[index + 1 :]))
