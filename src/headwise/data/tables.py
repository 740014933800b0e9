"""Files with a user's own data as tables: CSV, TSV, JSON lines, columns of words and tags, plain text."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.data.columns import is_iob, read_tagged
from headwise.data.conllu import read_conllu
from headwise.data.task_names import WORD_TASKS
from headwise.data.text import FilePath, read_json_object, read_lines
from headwise.errors import HeadwiseError

#: File name endings of own data, before an optional `.gz`.
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".conllu", ".conll", ".iob", ".iob2", ".bio", ".txt")

Row = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Table:
    """Rows with named columns, all of one file or one Python object.

    Attributes:
        name: The file, for messages.
        columns: The names of the columns, in order.
        rows: The place of each row (`line 3`) and its cells by column.
        language: The language of all rows, if the file name says it.
        split: The split of all rows, if the file name says it.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    language: str | None = None
    split: str | None = None


def suffix_of(path: FilePath) -> str:
    """Return the ending of a data file's name in lower case, without `.gz`.

    Example:
        >>> suffix_of("de.train.JSONL.gz")
        '.jsonl'
    """
    name = Path(path).name.lower().removesuffix(".gz")
    return Path(name).suffix


def read_file(path: FilePath, task: str | None = None, language: str | None = None, split: str | None = None) -> Table:
    r"""Read one file of own data.

    Args:
        path: The file; its ending says the format. A `.tsv` file without a header of known columns, and a `.txt` file,
            are read as columns of words and tags if the task has one label per word.
        task: The task, if it is known.
        language: The language of all rows, if it is known.
        split: The split of all rows, if it is known.

    Raises:
        HeadwiseError: The file does not exist, or is not in the format of its ending.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "en.csv")
        ...     _ = path.write_text('text,label\n"Good, cheap",pos\n')
        ...     read_file(path).rows
        (('line 2', {'text': 'Good, cheap', 'label': 'pos'}),)
    """
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise HeadwiseError(
            f"{path}: the ending {suffix or 'of a file without one'!r} is not a format of own data: "
            f"use one of {', '.join(SUFFIXES)}, plain or with .gz"
        )
    match suffix:
        case ".csv":
            columns, rows = _read_csv(path)
        case ".tsv" if not _is_tagged(path, task):
            columns, rows = _read_tsv(path)
        case ".jsonl" | ".ndjson":
            columns, rows = _with_columns(_json_lines(path))
        case ".json":
            columns, rows = _with_columns(_read_json(path))
        case ".conllu":
            columns, rows = _read_treebank(path)
        case ".txt" if not _is_tagged(path, task):
            columns = ("text",)
            rows = tuple((f"line {number}", {"text": line}) for number, line in read_lines(path) if line.strip())
        case _:
            columns, rows = _with_columns(
                (f"line {sentence.line}", {"id": sentence.id, "words": sentence.words, **sentence.tags})
                for sentence in read_tagged(path)
            )
    if not rows:
        raise HeadwiseError(f"{path}: no rows after the header: add rows or give another file")
    return Table(str(path), columns, rows, language, split)


def _is_tagged(path: FilePath, task: str | None) -> bool:
    """Return whether a TSV or text file has one word per line with its tag."""
    if task not in (None, *WORD_TASKS):
        return False
    first = next((line for _, line in read_lines(path) if line.strip() and not line.startswith("# ")), "")
    cells = first.split("\t") if "\t" in first else first.split()
    if {cell.strip().lower() for cell in cells} & {"words", "tokens", "text", "label", "labels", "language", "source"}:
        return False
    return task is not None or first.startswith("-DOCSTART-") or (1 < len(cells) < 6 and is_iob(cells[-1]))


def _read_csv(path: FilePath) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    lines = (f"{line}\n" for _, line in read_lines(path))
    header = next(lines)
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(_chain(header, lines), delimiter=delimiter, strict=True)
    return _checked_rows(path, _csv_cells(path, reader))


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _csv_cells(path: FilePath, reader: Any) -> Iterator[tuple[int, list[str]]]:
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise HeadwiseError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}): close every quotation mark and double those "
            "within a text, or save the file as JSON lines"
        ) from None


def _read_tsv(path: FilePath) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Quotation marks in TSV are part of the text, as in the published sets (GLUE, XNLI)."""
    return _checked_rows(path, ((number, line.split("\t")) for number, line in read_lines(path)))


def _checked_rows(
    path: FilePath, lines: Iterator[tuple[int, Sequence[str]]]
) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    number, cells = next(lines)
    header = tuple(cell.strip() for cell in cells)
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise HeadwiseError(f"{path}, line {number}: two columns are called {repeated[0]!r}: rename one of them")
    rows: list[Row] = []
    for number, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise HeadwiseError(
                f"{path}, line {number}: {len(cells)} columns, but the header has {len(header)} "
                f"({', '.join(header)}): quote texts that contain the separator, or save the file as JSON lines"
            )
        rows.append((f"line {number}", dict(zip(header, cells, strict=True))))
    return header, tuple(rows)


def _with_columns(rows: Iterator[Row]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Return all columns that occur in any row, and the rows."""
    found = tuple(rows)
    return tuple(dict.fromkeys(column for _, cells in found for column in cells)), found


def _json_lines(path: FilePath) -> Iterator[Row]:
    for number, line in read_lines(path):
        if line.strip():
            yield f"line {number}", read_json_object(path, number, line)


def _read_json(path: FilePath) -> Iterator[Row]:
    """A list of objects, or JSON lines in a file called `.json`."""
    text = "\n".join(line for _, line in read_lines(path))
    if not text.lstrip().startswith("["):
        yield from _json_lines(path)
        return
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise HeadwiseError(f"{path}, line {line}: not JSON ({error}): give a list of objects") from None
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise HeadwiseError(f"{path}, item {number}: not an object: write {{...}}")
        yield f"item {number}", item


def _read_treebank(path: FilePath) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    sentences = read_conllu(path)
    entities = any(label != "O" for sentence in sentences for label in sentence.entities)
    columns = ("id", "words", "upos", "ner_tags") if entities else ("id", "words", "upos")
    cells = ({"id": each.id, "words": each.words, "upos": each.upos, "ner_tags": each.entities} for each in sentences)
    rows = ({column: row[column] for column in columns} for row in cells)
    return columns, tuple((f"sentence {number}", row) for number, row in enumerate(rows, 1))
