"""A user's own data: files, patterns of files, folders, and rows in Python."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwise.data.column_names import guess_task
from headwise.data.dataset import Dataset
from headwise.data.rows import SPLIT_NAMES, Dropped, Item, items_of
from headwise.data.splits import Divided, divide
from headwise.data.tables import SUFFIXES, Table, read_file, suffix_of
from headwise.data.text import FilePath
from headwise.errors import HeadwiseError
from headwise.files import is_folder

SPLITS = ("train", "dev", "test", "all")
_PLACEHOLDERS = ("language", "split")
#: A part of a file name that is a language (`de`, `zh-TW`) or a pair of languages (`en-de`).
_LANGUAGE = re.compile(r"[a-z]{2,3}([-_]([A-Za-z]{2}|[A-Za-z]{4}|[a-z]{3}|\d{3}))?")


def open_own(path: FilePath, task: str | None = None) -> tuple[Dataset, str, str]:
    """Open own files.

    Args:
        path: A file, a folder of files, or a pattern such as `reviews.{language}.csv`.
        task: The task; by default it is guessed from the columns.

    Returns:
        The data set, the task and, if the task was guessed, the reason.

    Raises:
        HeadwiseError: There are no such files, or their content does not fit the task.
    """
    tables = read_own(path, task)
    reason = ""
    if task is None:
        task, reason = guess_task(tables)
    return _make_dataset(tables, task, Path(path).name, 0), task, reason


def read_own(path: FilePath, task: str | None = None) -> list[Table]:
    """Read all files of a path as in `open_own`."""
    return [read_file(each, task, language, split) for each, language, split in find_files(path)]


def is_pattern(path: FilePath) -> bool:
    """Return whether a path has `{language}` or `{split}` in it."""
    return any(f"{{{name}}}" in str(path) for name in _PLACEHOLDERS)


def dataset(rows: Any, task: str, *, language: str | None = None, name: str = "own data", seed: int = 0) -> Dataset:
    """Make a data set of rows in Python.

    Rows have the columns of own files: `text` and `label` for `classification`, `words` and `labels` for `pos`, and so
    on, with `language` and optionally `split` and `id` (see the page on data). Without splits, examples are divided at
    random into train (60%), dev and test (20% each).

    Args:
        rows: A list of dicts; a pandas or polars DataFrame; a `datasets.Dataset`; or a dict from languages or splits
            to any of these, such as a `datasets.DatasetDict`, also nested.
        task: The task: `classification`, `intents`, `nli`, `pos`, `ner`, `slots`, `translation` or `lm`.
        language: The language of all rows, if they have no column `language`.
        name: A name that is shown with results.
        seed: The seed of the random splits.

    Raises:
        HeadwiseError: Columns are missing, a cell does not fit, or a random split would be too small.

    Example:
        >>> rows = [{"text": f"Zimmer {n} ist frei", "label": "hotel"} for n in range(40)]
        >>> found = dataset(rows, task="classification", language="de")
        >>> {split: len(found.examples("de", split)) for split in found.splits}
        {'train': 24, 'dev': 8, 'test': 8, 'all': 16}
    """
    tables = list(_tables(rows, name, language, None))
    if not tables:
        raise HeadwiseError(f"{name}: no rows: give at least one")
    return replace(_make_dataset(tables, task, name, seed), task=task)


def _make_dataset(tables: Sequence[Table], task: str, name: str, seed: int) -> Dataset:
    dropped = Dropped()
    items: list[Item] = [item for table in tables for item in items_of(table, task, dropped)]
    if not items:
        raise HeadwiseError(f"{name}: every row has an empty text: fill them or give other data")
    divided = divide(items, name, seed)
    present = {split for _, split in divided.splits}
    splits = tuple(split for split in SPLITS if split in present or (split == "all" and present - {"train"}))
    note = " ".join(part for part in (dropped.note, divided.note) if part)
    return Dataset(name, divided.languages, splits, SplitLoader(divided), note)


class SplitLoader:
    """Returns the examples of a language and split; `all` is dev and test."""

    def __init__(self, divided: Divided) -> None:
        self._splits = divided.splits

    def __call__(self, language: str, split: str) -> Any:
        """Return the examples, in the order of the data."""
        wanted = ("dev", "test") if split == "all" else (split,)
        return tuple(example for each in wanted for example in self._splits.get((language, each), ()))


def find_files(path: FilePath) -> list[tuple[Path, str | None, str | None]]:
    """Return the files of a path, each with the language and the split that its name says."""
    if is_pattern(path):
        return match_pattern(str(path))
    if not is_folder(path):
        language, split = _parts(Path(path))
        # The name of a single file is often a short word: new.csv is not in Newari. A folder or a pattern says more.
        return [(Path(path), None if language and re.fullmatch("[a-z]{3}", language) else language, split)]
    found = [(each, *_parts(each)) for each in sorted(Path(path).iterdir()) if _is_data(each)]
    if not found:
        raise HeadwiseError(
            f"{path}: no data in this folder: put files such as de.csv or de.train.jsonl into it, or the folders of "
            "published sets (ud/, ner/, massive/, xnli/, …)"
        )
    return found


def _is_data(path: Path) -> bool:
    """Return whether a file of a folder is data; a text file only if its name says a language or a split."""
    if not path.is_file() or path.name.startswith(".") or suffix_of(path) not in SUFFIXES:
        return False
    return suffix_of(path) != ".txt" or any(_parts(path))


def _parts(path: Path) -> tuple[str | None, str | None]:
    """Return the language and the split in a file's name, the parts of which are separated by dots.

    `de.csv`, `reviews.de.csv`, `de.train.jsonl` and `train.de.jsonl` all have the language `de`.
    """
    stem = path.name.lower().removesuffix(".gz").removesuffix(suffix_of(path))
    original = path.name[: len(stem)].split(".")
    splits = [SPLIT_NAMES[part.lower()] for part in original if part.lower() in SPLIT_NAMES]
    languages = [part for part in original if part not in (*SPLIT_NAMES, "all") and _LANGUAGE.fullmatch(part)]
    # The last part counts: `my` in my.de.csv is a word and not Burmese.
    return (languages[-1] if languages else None), (splits[0] if splits else None)


def match_pattern(pattern: str) -> list[tuple[Path, str | None, str | None]]:
    """Return the files of a pattern, each with its language and its split, if the pattern or its name says them."""
    parts = re.split(r"(\{language\}|\{split\})", os.path.normpath(pattern).replace(os.sep, "/"))
    seen: set[str] = set()
    expression = glob = ""
    for part in parts:
        name = part[1:-1] if part in ("{language}", "{split}") else ""
        if name in seen:
            expression, glob = expression + f"(?P={name})", glob + "*"
        elif name:
            seen.add(name)
            expression, glob = expression + f"(?P<{name}>[^/.]+)", glob + "*"
        else:
            expression, glob = expression + re.escape(part), glob + re.sub(r"([\[*?])", r"[\1]", part)
    root = Path(glob).anchor
    found = []
    for path in sorted(Path(root or ".").glob(glob.removeprefix(root))):
        match = re.fullmatch(expression, path.as_posix())
        if match:
            groups = match.groupdict()
            language, split = _parts(path)  # what the pattern does not say may be a fixed part of the name
            found.append((path, groups.get("language", language), _split_name(path, groups.get("split", split))))
    if not found:
        raise HeadwiseError(f"{pattern}: no file matches this pattern: check the path before {{language}} or {{split}}")
    return found


def _split_name(path: Path, name: str | None) -> str | None:
    if name is not None and name.lower() not in SPLIT_NAMES:
        raise HeadwiseError(f"{path}: unknown split {name!r}: use train, dev (or validation) or test")
    return None if name is None else SPLIT_NAMES[name.lower()]


def _tables(rows: Any, name: str, language: str | None, split: str | None) -> Iterator[Table]:
    """Return a table for each part of nested rows."""
    if isinstance(rows, Mapping):
        for key, part in rows.items():
            known = SPLIT_NAMES.get(str(key).lower())
            if isinstance(part, str) or not (isinstance(part, Iterable) or hasattr(part, "to_dict")):
                raise HeadwiseError(f"{name}: a single row, or columns: give a list of rows or a dict of such lists")
            where = f"{name}, {key}"
            yield from _tables(part, where, language if known else str(key), known or split)
        return
    found = []
    for number, row in enumerate(_records(rows, name), 1):
        if not isinstance(row, Mapping):
            raise HeadwiseError(f"{name}, row {number}: a {type(row).__name__}, not a dict with the names of columns")
        found.append((f"row {number}", row))
    columns = tuple(dict.fromkeys(str(column) for _, row in found for column in row))
    if found:
        yield Table(name, columns, tuple(found), language, split)


def _records(rows: Any, name: str) -> Iterable[Any]:
    """Return the rows of a list, of a DataFrame of pandas or polars, or of a data set of `datasets`."""
    if hasattr(rows, "to_dicts"):  # polars
        return list(rows.to_dicts())
    if hasattr(rows, "features") and hasattr(rows, "column_names"):  # datasets
        names = {column: _label_names(feature) for column, feature in rows.features.items()}
        named = {column: labels for column, labels in names.items() if labels}
        return ({**row, **{column: _named(row[column], labels) for column, labels in named.items()}} for row in rows)
    if hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # pandas
        return list(rows.to_dict("records"))
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise HeadwiseError(f"{name}: {type(rows).__name__} is not rows: give a list of dicts, or open a file instead")
    return rows


def _label_names(feature: Any) -> Sequence[str]:
    """Return the names of a label, or of a list of labels, of `datasets`; empty if it has none."""
    inner = getattr(feature, "feature", feature)
    return getattr(inner, "names", None) or ()


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    if not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None  # `datasets` marks missing labels by -1
