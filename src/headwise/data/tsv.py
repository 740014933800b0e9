"""Tables of tab-separated values: XNLI, MNLI, PAWS-X, parallel sentences. Quotation marks are part of the text."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from headwise.data.examples import PairExample, TranslationExample
from headwise.data.ids import running_id
from headwise.data.languages import check_code
from headwise.data.text import FilePath, read_lines
from headwise.errors import HeadwiseError

#: NLI labels in files and in headwise (XNLI's machine-translated training sets have `contradictory`).
NLI_LABELS = {
    "entailment": "entailment",
    "neutral": "neutral",
    "contradiction": "contradiction",
    "contradictory": "contradiction",
}


def read_table(path: FilePath, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Read some columns of a table with a header: the line number and the cells of each row; blank lines are skipped.

    Raises:
        HeadwiseError: Columns are missing, a row has another number of columns than the header, or there are no rows.
    """
    lines = read_lines(path)
    _, first_line = next(lines)
    header = first_line.split("\t")
    missing = [column for column in columns if column not in header]
    if missing:
        raise HeadwiseError(
            f"{path}, line 1: no column {', '.join(map(repr, missing))} in the header: it has {', '.join(header)}; "
            f"required are {', '.join(columns)}"
        )
    places = [header.index(column) for column in columns]
    empty = True
    for number, line in lines:
        if line.strip():
            cells = _cells(path, number, line, len(header))
            yield number, tuple(cells[place] for place in places)
            empty = False
    if empty:
        raise HeadwiseError(f"{path}: no rows after the header: download the file again or give another")


def read_pairs(
    path: FilePath,
    first: str,
    second: str,
    label: str,
    id_column: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> tuple[PairExample, ...]:
    """Read labelled pairs of texts of a table with a header, such as MNLI.

    Args:
        path: The file.
        first: The column of the first texts.
        second: The column of the second texts.
        label: The column of the labels.
        id_column: The column of the ids; by default, ids are row numbers (`#1`).
        labels: The allowed labels and the name of each in headwise; by default, labels are kept.
    """
    columns = (first, second, label) if id_column is None else (first, second, label, id_column)
    examples = []
    for row, (number, (one, two, name, *rest)) in enumerate(read_table(path, columns), 1):
        _require_text(path, number, one, two)
        id_ = rest[0] if rest else running_id(row)
        examples.append(PairExample(id_, one, two, _label(path, number, name, labels)))
    return tuple(examples)


def read_xnli(path: FilePath) -> dict[str, tuple[PairExample, ...]]:
    """Read the pairs of an XNLI file by language.

    Columns are found by name, so that the published files (with parses and five annotators' labels) and shorter ones
    can be read. An id is `promptID.pairID`; the part before the dot is the same for all pairs of one premise.
    """
    columns = ("language", "gold_label", "sentence1", "sentence2", "promptID", "pairID")
    found: dict[str, list[PairExample]] = {}
    for number, (language, label, first, second, prompt, pair) in read_table(path, columns):
        check_code(language, f"{path}, line {number}")
        _require_text(path, number, first, second)
        example = PairExample(f"{prompt}.{pair}", first, second, _label(path, number, label, NLI_LABELS))
        found.setdefault(language, []).append(example)
    return {language: tuple(examples) for language, examples in found.items()}


def read_paws_x(path: FilePath) -> tuple[PairExample, ...]:
    """Read the pairs of a PAWS-X file; label `1` means that the sentences are paraphrases, `0` that they are not."""
    return read_pairs(path, "sentence1", "sentence2", "label", "id", {"0": "0", "1": "1"})


def read_parallel(path: FilePath) -> tuple[TranslationExample, ...]:
    r"""Read the sentence pairs of a table without a header: source, tab, target; ids are line numbers (`#1`).

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "en-de.tsv")
        ...     _ = path.write_text("Tom laughed.\tTom lachte.\n")
        ...     read_parallel(path)
        (TranslationExample(id='#1', source='Tom laughed.', target='Tom lachte.'),)
    """
    examples = []
    for number, line in read_lines(path):
        if line.strip():
            source, target = _cells(path, number, line, 2)
            _require_text(path, number, source, target)
            examples.append(TranslationExample(running_id(number), source, target))
    return tuple(examples)


def read_aligned(source: FilePath, target: FilePath) -> tuple[TranslationExample, ...]:
    """Read the sentence pairs of two files with one sentence per line, such as FLORES; ids are line numbers."""
    examples = []
    for one, two in zip_longest(read_lines(source), read_lines(target)):
        if one is None or two is None:
            short, long, number = (source, target, two[0]) if one is None else (target, source, one[0])
            raise HeadwiseError(
                f"{short}: no line {number}, which {long} has: give two files with the same number of lines"
            )
        if not one[1].strip() or not two[1].strip():
            path = target if one[1].strip() else source
            raise HeadwiseError(f"{path}, line {one[0]}: the line is empty: fill it or delete it in both files")
        examples.append(TranslationExample(str(one[0]), one[1], two[1]))
    return tuple(examples)


def _cells(path: FilePath, number: int, line: str, width: int) -> list[str]:
    cells = line.split("\t")
    if len(cells) != width:
        raise HeadwiseError(
            f"{path}, line {number}: {len(cells)} columns instead of {width}: separate columns by one tab each"
        )
    return cells


def _require_text(path: FilePath, number: int, *sides: str) -> None:
    if not all(side.strip() for side in sides):
        raise HeadwiseError(f"{path}, line {number}: one side of the pair is empty: fill it or delete the line")


def _label(path: FilePath, number: int, label: str, labels: Mapping[str, str] | None) -> str:
    known = {label: label} if labels is None and label else labels or {}
    if label not in known:
        allowed = f"use one of {', '.join(known)}" if known else "give the row a label"
        raise HeadwiseError(f"{path}, line {number}: unknown label {label!r}: {allowed}")
    return known[label]
