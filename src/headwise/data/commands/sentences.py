"""Writes sentences: draws a path through a template and fills its slots with words."""

from dataclasses import dataclass

from headwise.data.commands.digest import NamedDraws
from headwise.data.commands.lexicon import FILLER, Entry, Lexicon
from headwise.data.commands.templates import Choice, Grammar, Literal, Node, Series, Slot

#: The slots that all languages have, with the names of the intents. Other slots are filled but not labelled.
SLOTS = (
    "area", "brightness", "color", "hours", "minutes", "name", "seconds", "start_hours", "start_minutes",
    "start_seconds", "temperature",
)  # fmt: skip

#: The package allows 100-hour timers and rooms at 0 °C; these are natural numbers for each slot.
SENSIBLE = {
    "hours": range(2, 13),
    "minutes": range(2, 60),
    "seconds": range(5, 60, 5),
    "brightness": range(5, 100, 5),
    "temperature": range(16, 28),
    "color_temperature": range(2000, 6600, 100),
}


@dataclass(frozen=True)
class Utterance:
    """A finished sentence.

    Attributes:
        text: Its text.
        spans: Start, end and name of the labelled slots in the text.
        frame: The text with the names of slots instead of their values; equal for sentences of one pattern.
    """

    text: str
    spans: tuple[tuple[int, int, str], ...]
    frame: str


class Writer:
    """Writes sentences of one language with one half of its lexicon.

    Args:
        grammar: The language's templates and lists.
        lexicon: Its words.
        half: 0 for the words at even positions of the lexicon, 1 for the others.
        spaced: Whether the language has spaces between words.
    """

    def __init__(self, grammar: Grammar, lexicon: Lexicon, half: int, spaced: bool) -> None:
        self._grammar = grammar
        self._lexicon = lexicon
        self._half = half
        self._spaced = spaced
        self._numbers: dict[Slot, list[int]] = {}
        self._entries: dict[Slot, list[Entry]] = {}

    def write(self, tree: Node, draws: NamedDraws) -> Utterance | None:
        """Return a sentence of a template; None if the draw gave an unnatural one."""
        parts = _walk(tree, draws)
        slots = [part for part in parts if isinstance(part, Slot)]
        marked = ""
        for index, part in enumerate(parts):
            marked += part.text if isinstance(part, Literal) else self._fill(part, marked, parts[index + 1 :], draws)
        accepted = self._lexicon.accept(" ".join(marked.split()))
        return None if accepted is None else self._unmarked(accepted, slots)

    def _unmarked(self, marked: str, slots: list[Slot]) -> Utterance | None:
        """Return the sentence without the marks; None if it names a room or device outside of a slot.

        Such a word comes from the template: it would occur in both halves and without a label.
        """
        text = frame = plain = ""
        spans = []
        literals = FILLER.split(marked)
        for literal, filler, slot in zip(literals[::2], [*literals[1::2], ""], [*slots, None], strict=True):
            text += literal
            frame += literal
            plain += literal
            if slot is None:
                break
            if slot.name in SLOTS:
                spans.append((len(text), len(text) + len(filler), slot.name))
            plain += "–" if slot.name in SLOTS else filler
            frame += f"{{{slot.list}}}"
            text += filler
        return None if self._lexicon.words.search(plain) else Utterance(text, tuple(spans), frame)

    def _fill(self, slot: Slot, before: str, rest: list[Literal | Slot], draws: NamedDraws) -> str:
        """Return a value for a slot, marked with its list and kind."""
        kind = ""
        if slot.list in self._grammar.numbers:
            text = str(draws.pick(self._sensible(slot)))
        elif slot.list in self._grammar.values:
            text = _literals(_walk(draws.pick(self._grammar.values[slot.list]), draws)).strip()
        else:
            entry = draws.pick(self._candidates(slot))
            text = self._lexicon.form(entry, slot.list, before, _literals(rest))
            kind = entry.kind
        return f"‹{slot.list} {kind}›{text if self._spaced else ''.join(text.split())}›"

    def _sensible(self, slot: Slot) -> list[int]:
        """Return the natural numbers for a slot, as in `SENSIBLE`."""
        if slot not in self._numbers:
            allowed = self._grammar.numbers[slot.list]
            wanted = SENSIBLE.get(slot.list) or SENSIBLE.get(slot.name.removeprefix("start_"), allowed)
            self._numbers[slot] = [number for number in wanted if number in allowed]
        return self._numbers[slot]

    def _candidates(self, slot: Slot) -> list[Entry]:
        """Return the words of this half for a slot; each kind of device is halved, so both halves have all kinds."""
        if slot not in self._entries:
            kinds = slot.domains or ("",)
            self._entries[slot] = [
                entry for kind in kinds for entry in self._lexicon.named(slot.list, (kind,))[self._half :: 2]
            ]
        return self._entries[slot]


def _walk(tree: Node, draws: NamedDraws) -> list[Literal | Slot]:
    """Return the parts of a random path through a tree."""
    parts: list[Literal | Slot] = []
    ahead: list[Node] = [tree]
    draw = draws.draw
    while ahead:
        node = ahead.pop()
        if isinstance(node, Literal):
            parts.append(node)
        elif isinstance(node, Series):
            ahead.extend(node.items[::-1])
        elif isinstance(node, Choice):
            if not node.optional or draw() < 0.5:
                ahead.append(node.options[int(draw() * len(node.options))])
        elif isinstance(node, Slot):
            parts.append(node)
        else:
            ahead.extend(draws.shuffled(node.items))
    return parts


def _literals(parts: list[Literal | Slot]) -> str:
    """Return the text of parts, with a dash for each slot."""
    return "".join(part.text if isinstance(part, Literal) else "–" for part in parts)
