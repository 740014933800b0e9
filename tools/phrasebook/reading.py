"""A CoNLL-U reader for checking: it keeps line numbers, spaces and multiword tokens, and reports errors.

The reader of the library drops multiword ranges and spacing, and repairs broken spans.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ID_PREFIX = "phrasebook-"
_COLUMNS = 10
#: LEMMA, XPOS, FEATS and DEPS, which are empty in the phrasebook.
_EMPTY_COLUMNS = (2, 4, 5, 8)


@dataclass
class Word:
    """One syntactic word.

    Attributes:
        form: The written word.
        upos: Its universal part of speech.
        head: Index of its head, counted from 1; 0 for the root.
        deprel: Its relation to the head.
        entity: An IOB2 label, or the empty string outside entities.
        space: Whether a space follows the word in the text.
        line: Its line in the file, counted from 1.
    """

    form: str
    upos: str
    head: int
    deprel: str
    entity: str
    space: bool
    line: int

    @property
    def relation(self) -> str:
        """The universal part of the relation."""
        return self.deprel.split(":")[0]


@dataclass
class Range:
    """A written token that consists of several words.

    Attributes:
        start: Index of the first word covered, counted from 0.
        size: The number of words covered.
        form: The written token.
        space: Whether a space follows it.
    """

    start: int
    size: int
    form: str
    space: bool


@dataclass
class Block:
    """One sentence of the file.

    Attributes:
        line: The line on which it starts.
        comments: The `# key = value` lines.
        words: The words.
        ranges: The multiword tokens.
    """

    line: int
    comments: dict[str, str] = field(default_factory=dict)
    words: list[Word] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The identifier, or `?` when there is none."""
        return self.comments.get("sent_id", "?")

    @property
    def text(self) -> str:
        """The text in the comments."""
        return self.comments.get("text", "")

    def rebuilt(self) -> str:
        """The text rebuilt from forms, ranges and spaces."""
        parts: list[str] = []
        index = 0
        starts = {item.start: item for item in self.ranges}
        while index < len(self.words):
            item: Word | Range = starts.get(index, self.words[index])
            index += item.size if isinstance(item, Range) else 1
            parts.append(item.form + (" " if item.space else ""))
        return "".join(parts).rstrip()

    def entities(self) -> Counter[str]:
        """The number of entity spans of each type."""
        return Counter(word.entity[2:] for word in self.words if word.entity.startswith("B-"))


@dataclass
class Report:
    """The errors and warnings of one file.

    Attributes:
        path: The file.
        errors: Errors that must be fixed.
        warnings: Warnings that need a manual check.
    """

    path: str
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def error(self, line: int, sentence: str, message: str) -> None:
        """Add an error."""
        self.errors.append(f"{self.path}:{line}: [{sentence}] error: {message}")

    def warn(self, line: int, sentence: str, message: str) -> None:
        """Add a warning."""
        self.warnings.append(f"{self.path}:{line}: [{sentence}] warning: {message}")


def read(path: Path, report: Report) -> list[Block]:
    """Read the sentences of a file.

    Args:
        path: A CoNLL-U file.
        report: The report for errors of form.

    Returns:
        The sentences in order, without the lines that could not be read.
    """
    blocks: list[Block] = []
    current: Block | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            current = None
            continue
        if current is None:
            current = Block(number)
            blocks.append(current)
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            current.comments[key.strip()] = value.strip()
        else:
            _read_row(line.split("\t"), number, current, report)
    return blocks


def _read_row(columns: list[str], number: int, block: Block, report: Report) -> None:
    """Add the word or range written in `columns` to the block."""
    where = (number, block.id)
    if len(columns) != _COLUMNS or not all(columns):
        report.error(*where, f"{_COLUMNS} filled columns expected: {columns}")
        return
    misc = _read_misc(columns[9])
    if misc is None:
        report.error(*where, f"MISC may only contain NER=… and SpaceAfter=No: {columns[9]}")
        return
    filled = [columns[place] for place in _EMPTY_COLUMNS if columns[place] != "_"]
    if filled:
        report.error(*where, f"columns that must be empty are filled: {filled}")
    if "-" in columns[0]:
        _read_range(columns, misc, number, block, report)
    elif columns[0] != str(len(block.words) + 1) or not columns[6].isdecimal():
        report.error(*where, f"ID is not the next number, or HEAD is not a number: {columns}")
    else:
        space = "SpaceAfter" not in misc
        form, upos, head, deprel = columns[1], columns[3], int(columns[6]), columns[7]
        inside = any(len(block.words) < item.start + item.size for item in block.ranges)
        if inside and not space:
            report.error(*where, f"{form}: SpaceAfter belongs on the range line")
        block.words.append(Word(form, upos, head, deprel, misc.get("NER", ""), space, number))


def _read_misc(column: str) -> dict[str, str] | None:
    """The MISC column as a dictionary; None if it contains something that the phrasebook does not use."""
    pairs = [part.partition("=")[::2] for part in column.split("|")] if column != "_" else []
    misc = dict(pairs)
    known = set(misc) <= {"NER", "SpaceAfter"} and len(misc) == len(pairs)
    return misc if known and misc.get("SpaceAfter", "No") == "No" and misc.get("NER") != "" else None


def _read_range(columns: list[str], misc: dict[str, str], number: int, block: Block, report: Report) -> None:
    """Add the multiword token written in `columns` to the block."""
    first, _, last = columns[0].partition("-")
    due = len(block.words) + 1
    if first != str(due) or not last.isdecimal() or int(last) <= due or set(columns[2:9]) != {"_"} or "NER" in misc:
        report.error(number, block.id, f"not a multiword range that starts at the next word: {columns}")
        return
    block.ranges.append(Range(due - 1, int(last) - due + 1, columns[1], "SpaceAfter" not in misc))
