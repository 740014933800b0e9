"""From rows of own data to examples."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwise.data.column_names import TableColumns, find_columns
from headwise.data.columns import is_iob, log_repairs, repair_iob2, to_iob
from headwise.data.examples import (
    ChoiceExample,
    Example,
    PairExample,
    PromptExample,
    TextExample,
    TranslationExample,
    WordExample,
)
from headwise.data.ids import running_id
from headwise.data.languages import check_code
from headwise.data.tables import Table
from headwise.data.task_names import CHOICE_TASKS, WORD_TASKS
from headwise.data.tsv import NLI_LABELS
from headwise.errors import HeadwiseError

#: Names of splits that are understood, and what each is called in headwise.
SPLIT_NAMES = {
    **{"train": "train", "training": "train"},
    **dict.fromkeys(("dev", "development", "validation", "valid", "val"), "dev"),
    **{"test": "test", "testing": "test"},
}
#: Text with this number of characters is not read as a number.
_LONG = 100


@dataclass(frozen=True)
class Item:
    """An example with its language, and its split if the data say one."""

    language: str
    split: str | None
    example: Example


@dataclass
class Dropped:
    """Rows that were left out because a text is empty."""

    places: list[str] = field(default_factory=list)

    @property
    def note(self) -> str:
        """A sentence about them; empty if there are none."""
        if not self.places:
            return ""
        shown = ", ".join(self.places[:3]) + (", …" if len(self.places) > 3 else "")
        return f"{len(self.places)} rows with an empty text were left out ({shown})."


def items_of(table: Table, task: str, dropped: Dropped) -> list[Item]:
    """Return the examples of a table.

    Args:
        table: The rows.
        task: One of `headwise.data.column_names.TASKS`.
        dropped: Rows with an empty text are added to it.

    Raises:
        HeadwiseError: Columns are missing, or a cell does not fit.

    Example:
        >>> table = Table("a.csv", ("text", "label"), (("line 2", {"text": "Gut!", "label": 1}),), language="de")
        >>> items_of(table, "classification", Dropped())
        [Item(language='de', split=None, example=TextExample(id='#1', text='Gut!', label='1'))]
    """
    columns = find_columns(table, task)
    reader = _Reader(table, task, columns)
    items = []
    for number, (place, cells) in enumerate(table.rows, 1):
        where = f"{table.name}, {place}"
        example = reader.example(where, cells, number)
        if example is None:
            dropped.places.append(where)
            continue
        items.append(Item(reader.language(where, cells), reader.split(where, cells), example))
    log_repairs(table.name, reader.repaired)
    return items


class _Reader:
    """Reads the rows of one table.

    Attributes:
        repaired: The number of IOB labels that were repaired so far.
    """

    def __init__(self, table: Table, task: str, columns: TableColumns) -> None:
        self._table, self._task, self._columns = table, task, columns
        self.repaired = 0

    def language(self, where: str, cells: Mapping[str, Any]) -> str:
        """Return the language of a row."""
        code = "-".join(str(cells.get(column) or "").strip() for column in self._columns.language)
        code = code.strip("-") or self._table.language or ""
        if not code:
            raise HeadwiseError(f"{where}: the column {self._columns.language[0]!r} is empty: give the language")
        check_code(code, where)
        if self._task == "translation" and "-" not in code:
            raise HeadwiseError(
                f"{where}: {code!r} is not a pair of languages: write source and target language, as in en-{code}"
            )
        return code

    def split(self, where: str, cells: Mapping[str, Any]) -> str | None:
        """Return the split of a row, None if the data have no splits."""
        if self._columns.split is None:
            return self._table.split
        name = str(cells.get(self._columns.split) or "").strip()
        if name.lower() not in SPLIT_NAMES:
            raise HeadwiseError(f"{where}: unknown split {name!r}: use train, dev (or validation) or test")
        return SPLIT_NAMES[name.lower()]

    def example(self, where: str, cells: Mapping[str, Any], number: int) -> Example | None:
        """Return the example of a row, None if a text is empty."""
        name = cells.get(self._columns.id) if self._columns.id else None
        id_ = running_id(number) if _is_missing(name) else _plain(name)
        content = self._columns.content
        if self._task in WORD_TASKS:
            return self._words(where, id_, cells)
        if self._task in CHOICE_TASKS and self._task != "minimal-pairs":
            return self._choice(where, id_, cells)
        texts = [_text(where, column, cells.get(column)) for column in self._text_columns()]
        if not all(texts):
            return None
        match self._task:
            case "lm" | "masked-lm":
                return TextExample(id_, texts[0])
            case "translation":
                return TranslationExample(id_, texts[0], texts[1])
            case "minimal-pairs":
                return self._minimal_pair(where, id_, *texts)
            case "continuation":
                prompt = _text(where, content[0], cells.get(content[0]))
                return PromptExample(id_, prompt, texts[0], self._separator(where, cells))
        label = self._label(where, content[-1], cells.get(content[-1])) if self._columns.labelled else ""
        return TextExample(id_, texts[0], label) if len(texts) == 1 else PairExample(id_, texts[0], texts[1], label)

    def _choice(self, where: str, id_: str, cells: Mapping[str, Any]) -> ChoiceExample:
        first, *middle, last = self._columns.content
        given: Any = [cells.get(column) for column in middle]
        choices = _choices_cell(given[0]) if len(middle) == 1 else [each for each in given if not _is_missing(each)]
        if not isinstance(choices, list | tuple) or len(choices) < 2 or not all(str(each).strip() for each in choices):
            raise HeadwiseError(f"{where}: the choices must be a list of at least two texts, not {choices!r}")
        context = _text(where, first, cells.get(first))
        answer = _answer(where, cells.get(last), len(choices))
        return ChoiceExample(id_, context, tuple(map(str, choices)), answer, self._separator(where, cells))

    def _minimal_pair(self, where: str, id_: str, good: str, bad: str) -> ChoiceExample:
        if good == bad:
            raise HeadwiseError(f"{where}: both texts of the pair are {good!r}: they must differ")
        return ChoiceExample(id_, "", (good, bad), 0)

    def _separator(self, where: str, cells: Mapping[str, Any]) -> str | None:
        """Return the text between a context and its continuation: the column `separator`, None without one."""
        value = None if self._columns.separator is None else cells.get(self._columns.separator)
        if not isinstance(value, str | None):
            raise HeadwiseError(f'{where}: the separator is {value!r}, not text: write text in quotes, such as ""')
        return value

    def _text_columns(self) -> tuple[str, ...]:
        content = self._columns.content
        if self._task == "continuation":  # the prompt may be empty
            return content[1:]
        return content if self._task in ("lm", "masked-lm", "translation", "minimal-pairs") else content[:-1]

    def _label(self, where: str, column: str, value: Any) -> str:
        label = "" if _is_missing(value) else _plain(value)
        if not label:
            raise HeadwiseError(f"{where}: the column {column!r} is empty: give the row a label or drop it")
        if self._task == "nli":
            if label not in NLI_LABELS:
                raise HeadwiseError(
                    f"{where}: unknown label {label!r}: nli has {', '.join(dict.fromkeys(NLI_LABELS.values()))}; for "
                    "other labels of pairs use the task classification"
                )
            return NLI_LABELS[label]
        return label

    def _words(self, where: str, id_: str, cells: Mapping[str, Any]) -> WordExample | None:
        words_column, labels_column = self._columns.content
        words = _list(where, words_column, cells.get(words_column))
        labels = _list(where, labels_column, cells.get(labels_column))
        if not words:
            return None
        if not self._columns.labelled:
            return WordExample(id_, words, ())
        if len(words) != len(labels):
            raise HeadwiseError(
                f"{where}: {len(words)} words in {words_column!r} but {len(labels)} labels in {labels_column!r}: give "
                "one label for each word"
            )
        if self._task == "pos":
            return WordExample(id_, words, labels)
        labels = to_iob(labels)
        wrong = next((label for label in labels if not is_iob(label)), None)
        if wrong is not None:
            raise HeadwiseError(
                f"{where}: label {wrong!r} is not IOB2: write O, B-<type> or I-<type>, or use the task pos"
            )
        whole, count = repair_iob2(labels)
        self.repaired += count
        return WordExample(id_, words, whole)


def _is_missing(value: Any) -> bool:
    """Return whether a cell is empty; pandas has NaN and its own NA for that."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType"


def _plain(value: Any) -> str:
    """Return a label or id as text: 1.0, as pandas makes of a column with gaps, is the label 1."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _text(where: str, column: str, value: Any) -> str:
    if _is_missing(value):
        return ""
    if not isinstance(value, str):
        raise HeadwiseError(f"{where}: the column {column!r} holds {value!r}, not text: write text in quotes")
    return value


def _choices_cell(value: Any) -> Any:
    """Return the choices of a cell; in CSV, they are a JSON list."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _answer(where: str, value: Any, choices: int) -> int:
    """Return the number of the right choice, which is text in CSV."""
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() and len(value) < _LONG else value
    if type(number) is not int or not 0 <= number < choices:
        raise HeadwiseError(
            f"{where}: the answer must be the number of a choice, counted from 0 to {choices - 1}, not {value!r}"
        )
    return number


def _list(where: str, column: str, value: Any) -> tuple[str, ...]:
    """Return a list of words or labels; text is split at spaces."""
    if _is_missing(value):
        return ()
    if isinstance(value, str):
        return tuple(value.split())
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise HeadwiseError(f'{where}: the column {column!r} holds {value!r}, not a list: write ["a", "b"]')
    for each in value:
        if not isinstance(each, str) or not each.strip():
            raise HeadwiseError(f"{where}: the column {column!r} contains {each!r}: write words and labels as text")
    return tuple(value)
