"""What every study comes to: figures as plain data, tables to print and to keep, and what the page shows of it."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headwise.errors import HeadwiseError
from headwise.files import read_json, write_bytes
from headwise.report import Curve, Gain
from headwise.scores import HeadScores

#: A difference with a smaller P-value is marked.
SIGNIFICANT = 0.05
#: What is what in the figures of a study, where they have it.
_KINDS: Mapping[str, type] = {"metric": str, "languages": dict, "seconds": dict, "notes": list}


@dataclass(frozen=True)
class Figure:
    """A number with what is known about it.

    Attributes:
        value: The number.
        difference: How far it is from what it is compared with.
        p_value: P-value of that difference.
        spread: Standard deviation, where the number is a mean.
        signed: Whether the number is a change, and is shown with its sign.

    Example:
        >>> str(Figure(71.234, difference=1.5, p_value=0.001)), str(Figure(70.0, spread=0.42)), str(Figure(3.0))
        ('71.23 +', '70.00 ± 0.4', '3.00')
        >>> str(Figure(3.0, signed=True))
        '+3.00'
    """

    value: float
    difference: float | None = None
    p_value: float | None = None
    spread: float | None = None
    signed: bool = False

    @property
    def mark(self) -> str:
        """`+` or `-` where the difference is significant, else nothing."""
        if self.p_value is None or not self.p_value < SIGNIFICANT or not self.difference:
            return ""
        return "+" if self.difference > 0 else "-"

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.1f}"
        return f"{self.value:{'+' if self.signed else ''}.2f}{spread} {self.mark}".rstrip()


Cell = str | int | float | Figure | None


@dataclass(frozen=True)
class StudyTable:
    """A table of a study.

    Attributes:
        name: Name of its file, without the ending.
        title: What it shows.
        columns: Titles of its columns.
        rows: Its rows; None is an empty cell.
        note: What has to be said under it.
        printed: Whether it is short enough to print; it is kept as a file either way.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    printed: bool = True


class Study(Protocol):
    """What a study found."""

    @property
    def folder(self) -> Path:
        """The run folder."""

    @property
    def metric(self) -> str:
        """The metric's name."""

    @property
    def scores(self) -> Mapping[str, HeadScores]:
        """The scores of each language."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """What scoring took, by language."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said with it."""

    def tables(self) -> tuple[StudyTable, ...]:
        """Its tables, the most important first."""

    def gains(self, mask: str = "targeted") -> tuple[Gain, ...]:
        """What the page shows of removing heads by one kind of mask."""

    def curves(self) -> tuple[Curve, ...]:
        """What the page shows of removing one after the other."""

    def to_dict(self) -> dict[str, Any]:
        """Its figures as plain data that JSON can hold."""


class Shown:
    """What the page shows of a study that has neither gains nor curves of its own: nothing."""

    def gains(self, mask: str = "targeted") -> tuple[Gain, ...]:  # noqa: ARG002 - there is none
        """What removing heads by one kind of mask did."""
        return ()

    def curves(self) -> tuple[Curve, ...]:
        """What removing one after the other did."""
        return ()


def show_cell(cell: Cell) -> str:
    """A cell as a person reads it: two decimals, but two digits of small numbers such as values and P-values.

    Example:
        >>> [show_cell(cell) for cell in ("zh", 3, 0.123456, 0.00123456, None)]
        ['zh', '3', '0.12', '0.0012', '']
    """
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.2g}" if 0 < abs(cell) < 0.1 else f"{cell:.2f}"
    return str(cell)


@contextmanager
def read_figures(folder: Path, name: str, form: str, version: int) -> Iterator[dict[str, Any]]:
    """The figures of a finished study, to make the study of inside.

    Raises:
        HeadwiseError: There are none, or something in them is missing or is not what it should be.
    """
    if not (folder / name).is_file():
        raise HeadwiseError(f"{folder}: no finished study there: run headwise study with --out {folder} to the end")
    data = read_json(folder / name, form, version)
    try:
        for key, kind in _KINDS.items():
            if not isinstance(data.get(key, kind()), kind):
                raise TypeError(f"{key!r} is {data[key]!r}")
        check_numbers(*data.get("seconds", {}).values())
        yield data
    except HeadwiseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HeadwiseError(f"{folder / name}: not complete: {error!r}: run the study again") from None


def check_numbers(*values: Any) -> None:
    """Make sure that what was read as figures are numbers.

    Example:
        >>> check_numbers(1, 2.5, "3")
        Traceback (most recent call last):
        TypeError: '3' is not a number
    """
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{value!r} is not a number")


def save_tables(tables: Sequence[StudyTable], folder: Path) -> None:
    """Write every table twice: as CSV, whole numbers with P-values and deviations in columns of their own, and to read.

    Args:
        tables: The tables.
        folder: Where `<name>.csv` and `<name>.md` go.
    """
    for table in tables:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(_plain_rows(table))
        write_bytes(folder / f"{table.name}.csv", text.getvalue().encode())
        write_bytes(folder / f"{table.name}.md", as_markdown(table).encode())


def as_markdown(table: StudyTable) -> str:
    """A table as text that a person can read and a page can show, with P-values in columns of their own.

    Example:
        >>> gain = Figure(1.5, difference=1.5, p_value=0.012, signed=True)
        >>> print(as_markdown(StudyTable("one", "", ("language", "gain"), (("zh", gain), ("de", None)))), end="")
        | language | gain | P |
        |---|---|---|
        | zh | +1.50 + | 0.012 |
        | de |  |  |
    """
    wanted = _columns(table, ("p_value",))
    header = ["P" if part else table.columns[place] for place, part in wanted]
    rows = [[_show_part(row[place], part) for place, part in wanted] for row in table.rows]
    rule = "|" + "---|" * len(wanted) + "\n"
    head, *lines = [f"| {' | '.join(cells)} |\n" for cells in [header, *rows]]
    return head + rule + "".join(lines)


def _plain_rows(table: StudyTable) -> list[list[str | int | float | None]]:
    """The rows with each figure in as many columns as it has parts."""
    extras = {"difference": "gain", "p_value": "P", "spread": "sd"}
    wanted = _columns(table, tuple(extras))
    header = [f"{table.columns[place]} {extras[part]}" if part else table.columns[place] for place, part in wanted]
    return [list(header), *([_part(row[place], part) for place, part in wanted] for row in table.rows)]


def _columns(table: StudyTable, parts: Sequence[str]) -> list[tuple[int, str]]:
    """The columns of a table, each followed by those parts of its figures that there are: place and part."""
    wanted: list[tuple[int, str]] = []
    for place in range(len(table.columns)):
        wanted.append((place, ""))
        figures = [row[place] for row in table.rows if isinstance(row[place], Figure)]
        wanted += [(place, part) for part in parts if any(getattr(each, part) is not None for each in figures)]
    return wanted


def _part(cell: Cell, part: str) -> str | int | float | None:
    if isinstance(cell, Figure):
        found: float | None = getattr(cell, part or "value")
        return found
    return None if part else cell


def _show_part(cell: Cell, part: str) -> str:
    """A cell, or the P-value of its figure, to read."""
    if not part:
        return show_cell(cell)
    p_value = _part(cell, part)
    if not isinstance(p_value, float):
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
