"""Finds the templates that can produce a text, to exclude texts that could have two intents."""

import re
from collections.abc import Iterable
from itertools import chain

from headwise.data.commands.lexicon import Lexicon
from headwise.data.commands.templates import AnyOrder, Choice, Grammar, Literal, Node, Series, Slot

NUMBER = re.compile(r"\d+")


class Matcher:
    """Finds the possible intents of a text.

    Args:
        grammar: The language's templates and lists.
        lexicon: Its words, both halves.
    """

    def __init__(self, grammar: Grammar, lexicon: Lexicon) -> None:
        self._grammar = grammar
        self._lexicon = lexicon
        self._needs = [(template, _needs(template.tree)) for template in grammar.templates]
        # Templates share the trees of their expansion rules, so each text is matched with a rule only once.
        self._known: dict[tuple[int, int], set[int]] = {}

    def means_only(self, text: str, intent: str) -> bool:
        """Return whether only this intent can produce the text."""
        self._known.clear()
        own = False
        for template, needs in self._needs:
            is_own = template.intent == intent
            if (is_own and own) or not _has(needs, text) or len(text) not in self._ends(template.tree, text, 0):
                continue
            if not is_own:
                return False
            own = True
        return own

    def _ends(self, node: Node, text: str, start: int) -> set[int]:
        """Return the positions in the text at which a part that begins at `start` can end."""
        if isinstance(node, Literal):
            return _after(node.text, text, start)
        key = (id(node), start)
        if key not in self._known:
            self._known[key] = self._new_ends(node, text, start)
        return self._known[key]

    def _new_ends(self, node: Node, text: str, start: int) -> set[int]:
        if isinstance(node, Slot):
            return self._slot_ends(node, text, start)
        if isinstance(node, Choice):
            ends = {end for option in node.options for end in self._ends(option, text, start)}
            return ends | {start} if node.optional else ends
        if isinstance(node, Series):
            ends = {start}
            for item in node.items:
                ends = {last for end in ends for last in self._ends(item, text, end)}
                if not ends:
                    break
            return ends
        assert isinstance(node, AnyOrder)
        return self._any_order_ends(node.items, text, start)

    def _any_order_ends(self, items: tuple[Node, ...], text: str, start: int) -> set[int]:
        if not items:
            return {start}
        return {
            last
            for index, item in enumerate(items)
            for end in self._ends(item, text, start)
            for last in self._any_order_ends(items[:index] + items[index + 1 :], text, end)
        }

    def _slot_ends(self, slot: Slot, text: str, start: int) -> set[int]:
        if slot.list in self._grammar.numbers:
            number = NUMBER.match(text, start)
            return {number.end()} if number else set()
        if slot.list in self._grammar.values:
            return set(chain.from_iterable(self._ends(value, text, start) for value in self._grammar.values[slot.list]))
        forms = (form for entry in self._lexicon.named(slot.list, slot.domains) for form in entry.forms.values())
        return {start + len(form) for form in forms if text.startswith(form, start)}


def _after(literal: str, text: str, start: int) -> set[int]:
    """Return the end of a literal in a text with single spaces and none at its ends."""
    end = start
    for character in literal:
        if not character.isspace():
            if not text.startswith(character, end):
                return set()
            end += 1
        elif text.startswith(" ", end):
            end += 1
        elif 0 < end < len(text) and text[end - 1] != " ":
            return set()
    return {end}


def _needs(node: Node) -> list[frozenset[str]]:
    """Return sets of fragments; a text must contain one fragment of each. This quickly excludes most templates."""
    if isinstance(node, Literal):
        return [frozenset([word]) for word in node.text.split()]
    if isinstance(node, Series | AnyOrder):
        return list(chain.from_iterable(_needs(item) for item in node.items))
    if isinstance(node, Slot) or node.optional:
        return []
    options = [_needs(option) for option in node.options]
    if not all(options):
        return []
    shortest = [min(needs, key=len) for needs in options]
    return [frozenset(chain.from_iterable(shortest))]


def _has(needs: Iterable[frozenset[str]], text: str) -> bool:
    for fragments in needs:  # noqa: SIM110 - twice as fast as all() of any(), and most time is spent here
        if not any(fragment in text for fragment in fragments):
            return False
    return True
