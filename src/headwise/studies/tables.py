"""Tables of studies, which are printed and saved as CSV and Markdown."""

import csv
import dataclasses
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import FieldError
from headwise.files import write_bytes
from headwise.report import SIGNIFICANT, Section, table_section
from headwise.report.html import element, joined
from headwise.report.names import language_label
from headwise.report.numbers import with_minus

#: Columns whose cells are codes of languages, which the report names.
_OF_LANGUAGES = ("language", "target", "source", "heads of", "class", "left out")
#: Endings of files of tables.
TABLE_FORMATS = (".csv", ".tex")


@dataclass(frozen=True)
class Figure:
    """A number with its P-value or standard deviation.

    Attributes:
        value: The number.
        difference: Its difference from the reference value.
        p_value: P-value of the difference.
        spread: Standard deviation, if the number is a mean.
        signed: Whether the number is shown with its sign.

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
        """`+` or `-` if the difference is significant, else empty."""
        if self.p_value is None or not self.p_value < SIGNIFICANT or not self.difference:
            return ""
        return "+" if self.difference > 0 else "-"

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ± {self.spread:.1f}"
        return f"{self.value:{'+' if self.signed else ''}.2f}{spread} {self.mark}".rstrip()


TableCell = str | int | float | Figure | None


@dataclass(frozen=True)
class StudyTable:
    """A table of a study.

    Attributes:
        name: Name of its file, without the extension.
        title: Title of the table.
        columns: Titles of the columns.
        rows: The rows; None is an empty cell.
        note: A note below the table.
        printed: Whether the command line prints it; it is always saved.
        shaded: Whether the report shades numbers by their size, as in a map.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""
    printed: bool = True
    shaded: bool = False


def show_cell(cell: TableCell) -> str:
    """A cell as text: two decimals, two significant digits for numbers below 0.1, none for numbers above 10,000.

    Example:
        >>> [show_cell(cell) for cell in ("zh", 3, 0.123456, 0.00123456, 598235437.29, None)]
        ['zh', '3', '0.12', '0.0012', '598235437', '']
    """
    if cell is None:
        return ""
    if isinstance(cell, float):
        if abs(cell) >= 10_000:
            return f"{cell:.0f}"
        return f"{cell:.2g}" if 0 < abs(cell) < 0.1 else f"{cell:.2f}"
    return str(cell)


def section_of(table: StudyTable) -> Section:
    """A table as a section of the report, with names of languages, minus signs, and aligned marks."""
    title = f"{table.title[:1].upper()}{table.title[1:]}"
    columns = list(zip(*table.rows, strict=True))
    marked = [any(isinstance(cell, Figure) and cell.mark for cell in cells) for cells in columns]
    texts = [place for place, cells in enumerate(columns) if _is_text(cells)]
    rows = [
        [
            language_label(cell) if isinstance(cell, str) and name in _OF_LANGUAGES else _page_cell(cell, signs)
            for cell, name, signs in zip(row, table.columns, marked, strict=True)
        ]
        for row in table.rows
    ]
    shades = _shades(table) if table.shaded else None
    return table_section(title, table.columns, rows, with_minus(table.note), shades, texts)


def _is_text(cells: Sequence[TableCell]) -> bool:
    """Whether the cells are words, not numbers."""
    known = [cell for cell in cells if cell not in (None, "")]
    return bool(known) and all(isinstance(cell, str) and cell[:1].isalpha() for cell in known)


def _page_cell(cell: TableCell, signs: bool) -> str:
    """A cell of the report; in a column with marks, all numbers leave room for one."""
    if not isinstance(cell, Figure) or not signs:
        return with_minus(show_cell(cell))
    number = str(dataclasses.replace(cell, p_value=None))
    words = {"+": "significantly better", "-": "significantly worse"}
    mark = element("span", with_minus(cell.mark), class_="sign", title=words.get(cell.mark))
    return joined([with_minus(number), mark])


def _shades(table: StudyTable) -> list[list[float]]:
    """The size of every number as a share of the largest one; 0 for other cells."""
    sizes = [[abs(float(cell)) if isinstance(cell, int | float) else 0.0 for cell in row] for row in table.rows]
    largest = max((size for row in sizes for size in row), default=0.0) or 1.0
    return [[size / largest for size in row] for row in sizes]


def save_tables(tables: Sequence[StudyTable], folder: Path) -> None:
    """Write every table as CSV and as Markdown.

    CSV files have all digits, with P-values and standard deviations in separate columns.

    Args:
        tables: The tables.
        folder: The folder for `<name>.csv` and `<name>.md`.
    """
    for table in tables:
        write_bytes(folder / f"{table.name}.csv", _as_csv(table).encode())
        write_bytes(folder / f"{table.name}.md", as_markdown(table).encode())


def save_table(table: StudyTable, path: str | os.PathLike[str]) -> None:
    """Write a table as `.csv` (all digits) or `.tex` (LaTeX with `booktabs`), by the ending of the name.

    Raises:
        HeadwiseError: The ending is another one, or the file cannot be written.
    """
    match Path(path).suffix.lower():
        case ".csv":
            write_bytes(path, _as_csv(table).encode())
        case ".tex":
            write_bytes(path, as_latex(table).encode())
        case _:
            raise FieldError("out", f"{path}: the ending of a table is one of {', '.join(TABLE_FORMATS)}")


def _as_csv(table: StudyTable) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(_plain_rows(table))
    return text.getvalue()


def as_latex(table: StudyTable) -> str:
    r"""A table in LaTeX, for the package `booktabs`, with P-values in separate columns.

    Example:
        >>> gain = Figure(1.5, difference=1.5, p_value=0.012, signed=True)
        >>> print(as_latex(StudyTable("one", "", ("language", "gain_%"), (("zh", gain), ("de", None)))), end="")
        \begin{tabular}{lrr}
        \toprule
        language & gain\_\% & P \\
        \midrule
        zh & +1.50 + & 0.012 \\
        de &  &  \\
        \bottomrule
        \end{tabular}
    """
    wanted = _columns(table, ("p_value",))
    header = ["P" if part else table.columns[place] for place, part in wanted]
    rows = [[_show_part(row[place], part) for place, part in wanted] for row in table.rows]
    texts = [
        all(isinstance(row[place], str | None) and not part for row in table.rows) for place, part in wanted
    ]  # columns of text are left-aligned
    head, *lines = [f"{' & '.join(map(_latex_text, cells))} \\\\\n" for cells in (header, *rows)]
    layout = "".join("l" if text else "r" for text in texts)
    return (
        f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{head}\\midrule\n{''.join(lines)}\\bottomrule\n\\end{{tabular}}\n"
    )


#: Characters with a meaning in LaTeX.
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
        ">": r"\textgreater{}", "−": "$-$", "±": r"$\pm$", **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    }
)  # fmt: skip


def _latex_text(text: str) -> str:
    return " ".join(text.translate(_LATEX).split())


def as_markdown(table: StudyTable) -> str:
    """A table in Markdown, with P-values in separate columns.

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
    """The rows with the parts of each figure in separate columns."""
    extras = {"difference": "gain", "p_value": "P", "spread": "sd"}
    wanted = _columns(table, tuple(extras))
    header = [f"{table.columns[place]} {extras[part]}" if part else table.columns[place] for place, part in wanted]
    return [list(header), *([_part(row[place], part) for place, part in wanted] for row in table.rows)]


def _columns(table: StudyTable, parts: Sequence[str]) -> list[tuple[int, str]]:
    """The output columns as (column index, part): each column, then the given parts that its figures have."""
    wanted: list[tuple[int, str]] = []
    for place in range(len(table.columns)):
        wanted.append((place, ""))
        figures = [row[place] for row in table.rows if isinstance(row[place], Figure)]
        wanted += [(place, part) for part in parts if any(getattr(each, part) is not None for each in figures)]
    return wanted


def _part(cell: TableCell, part: str) -> str | int | float | None:
    if isinstance(cell, Figure):
        found: float | None = getattr(cell, part or "value")
        return found
    return None if part else cell


def _show_part(cell: TableCell, part: str) -> str:
    """A cell, or the P-value of its figure, as text."""
    if not part:
        return show_cell(cell)
    p_value = _part(cell, part)
    if not isinstance(p_value, float):
        return ""
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
