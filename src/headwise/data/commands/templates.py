"""The sentence templates of `home-assistant-intents` as small trees, with their expansion rules expanded.

A template such as `turn on [<the>] {name}` is a tree of literal text, choices, free orders and slots. The package's
parser, hassil, reads them; only this module uses it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headwise.data.commands.digest import fingerprint

#: Punctuation is removed: it is not spoken, and it would reveal the author of a template.
PUNCTUATION = re.compile(r"[.,;:!?¿¡。，、？！،؟…\"“”«»]+")


@dataclass(frozen=True)
class Literal:
    """Literal words or parts of words."""

    text: str


@dataclass(frozen=True)
class Slot:
    """A place for a value.

    Attributes:
        list: The list the value comes from.
        name: The name of the slot in the intent.
        domains: The kinds of devices that a name may belong to.
    """

    list: str
    name: str
    domains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """Parts in sequence."""

    items: tuple["Node", ...]


@dataclass(frozen=True)
class AnyOrder:
    """Parts in any order."""

    items: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    """One of several parts; none is possible if it is optional."""

    options: tuple["Node", ...]
    optional: bool


Node = Literal | Slot | Series | AnyOrder | Choice


@dataclass(frozen=True)
class Template:
    """A sentence template of an intent.

    Attributes:
        id: The intent and a hash of the template's text, the same in every run.
        intent: The intent of its sentences.
        tree: Its structure.
    """

    id: str
    intent: str
    tree: Node


@dataclass(frozen=True)
class Grammar:
    """The package's data for one language.

    Attributes:
        templates: The templates of the given intents.
        values: The lists for which the package has values, each value a tree.
        numbers: The lists of numbers.
    """

    templates: tuple[Template, ...]
    values: Mapping[str, tuple[Node, ...]]
    numbers: Mapping[str, range]


@dataclass(frozen=True)
class Usable:
    """The parts of the templates that can be used.

    Attributes:
        lists: The lists that a lexicon fills.
        domains: The kinds of devices in the lexicon.
        unsaid: Words of the templates that are not used, such as errors of a speech recogniser; and lists that are
            not used, such as `{timer_half}`.
        spaced: Whether the language has spaces between words; otherwise they are removed from the templates.
    """

    lists: frozenset[str]
    domains: frozenset[str]
    unsaid: frozenset[str]
    spaced: bool


def read_grammar(data: Mapping[str, Any], intents: Iterable[str], usable: Usable) -> Grammar:
    """Read the given intents of one language.

    Args:
        data: The package's JSON for that language.
        intents: The intents to read.
        usable: The parts that can be used; a template that requires anything else is left out.
    """
    lists: Mapping[str, Any] = data["lists"]
    numbers = {
        name: range(int(entry["range"]["from"]), int(entry["range"]["to"]) + 1, int(entry["range"].get("step", 1)))
        for name, entry in lists.items()
        if "range" in entry
    }
    texts = {
        name: [value if isinstance(value, str) else str(value["in"]) for value in entry["values"]]
        for name, entry in lists.items()
        if "values" in entry
    }
    given = {name for name in (*numbers, *texts) if f"{{{name}}}" not in usable.unsaid}
    reader = _Reader(data["expansion_rules"], replace(usable, lists=usable.lists | given))
    values = {
        name: tuple(tree for text in entries if (tree := reader.tree(text)) is not None)
        for name, entries in texts.items()
    }
    templates = [found for intent in intents for found in reader.templates(intent, data["intents"][intent]["data"])]
    return Grammar(tuple(templates), values, numbers)


class _Reader:
    """Turns hassil's expressions into trees, without branches that cannot be filled."""

    def __init__(self, rules: Mapping[str, str], usable: Usable) -> None:
        self._rules = rules
        self._usable = usable
        self._trees: dict[tuple[str, tuple[str, ...]], Node | None] = {}

    def templates(self, intent: str, blocks: Iterable[Mapping[str, Any]]) -> Iterator[Template]:
        """Return the templates of an intent; the same text in two blocks is one template for the devices of both."""
        domains: dict[str, set[str]] = {}
        for block in blocks:
            for sentence in block["sentences"]:
                domains.setdefault(sentence, set()).update(block.get("requires_context", {}).get("domain", []))
        for sentence, wanted in domains.items():
            tree = self.tree(sentence, tuple(sorted(wanted & self._usable.domains)))
            if tree is not None:
                yield Template(f"{intent}-{fingerprint(intent, sentence)}", intent, tree)

    def tree(self, text: str, domains: tuple[str, ...] = ()) -> Node | None:
        """Return the tree of a template, None if it cannot be used; the same text has the same tree."""
        from hassil.parse_expression import parse_sentence

        if (text, domains) not in self._trees:
            self._trees[text, domains] = self._node(parse_sentence(text).expression, domains)
        return self._trees[text, domains]

    def _node(self, expression: Any, domains: tuple[str, ...]) -> Node | None:
        from hassil import expression as hassil

        if isinstance(expression, hassil.TextChunk):
            text = PUNCTUATION.sub("", expression.text).lower()
            return Literal(text if self._usable.spaced else "".join(text.split()))
        if isinstance(expression, hassil.RuleReference):
            return self.tree(self._rules[expression.rule_name], domains)
        if isinstance(expression, hassil.ListReference):
            return self._slot(expression.list_name, expression.slot_name, domains)
        items = [self._node(item, domains) for item in expression.items]
        if isinstance(expression, hassil.Alternative):
            return self._choice(items, expression.is_optional)
        parts = tuple(item for item in items if item is not None)
        if len(parts) < len(items):
            return None
        return AnyOrder(parts) if isinstance(expression, hassil.Permutation) else _series(parts)

    def _choice(self, items: list[Node | None], optional: bool) -> Node | None:
        """Return a choice among the usable options."""
        said = [
            item
            for item in items
            if item is not None and not (isinstance(item, Literal) and item.text.strip() in self._usable.unsaid)
        ]
        options = tuple(item for item in said if item != Literal(""))
        optional = optional or len(options) < len(said)
        if not options:
            return Literal("") if optional else None
        return Choice(options, optional)

    def _slot(self, list_name: str, slot_name: str, domains: tuple[str, ...]) -> Slot | None:
        if list_name == "name":
            return Slot(list_name, slot_name, domains) if domains else None
        return Slot(list_name, slot_name) if list_name in self._usable.lists else None


def _series(parts: tuple[Node, ...]) -> Node:
    """Return parts in sequence, with neighbouring literals joined."""
    joined: list[Node] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, Literal) and isinstance(last, Literal):
            joined[-1] = Literal(last.text + part.text)
        else:
            joined.append(part)
    return joined[0] if len(joined) == 1 else Series(tuple(joined))
