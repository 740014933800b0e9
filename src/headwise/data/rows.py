"""From rows of own data to examples: which columns a task needs, what they may be called, and which task fits."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from headwise.data.task_names import CHOICE_TASKS, LABEL_TASKS, WORD_TASKS
from headwise.data.tsv import NLI_LABELS
from headwise.errors import HeadwiseError

#: Names of splits that are understood, and what each is called in headwise.
SPLIT_NAMES = {
    **{"train": "train", "training": "train"},
    **dict.fromkeys(("dev", "development", "validation", "valid", "val"), "dev"),
    **{"test": "test", "testing": "test"},
}
_TEXT = (("text", "sentence", "utterance"),)
_LABEL = ("label", "gold_label", "intent")
_PAIR_NAMES = (("text", "text2"), ("text1", "text2"), ("sentence1", "sentence2"), ("premise", "hypothesis"))
_WORDS = ("words", "tokens")
_CONTEXT, _ANSWER = ("context", "question", "premise"), ("answer", "label")
#: Maximum number of columns choice1, choice2, …
MOST_CHOICES = 8
#: Text with this number of characters is not read as a number.
_LONG = 100
#: The columns of each task: alternatives, each a list of columns with the names that they may have.
_COLUMNS: dict[str, tuple[tuple[tuple[str, ...], ...], ...]] = {
    "classification": (*(((one,), (two,), _LABEL) for one, two in _PAIR_NAMES), (*_TEXT, _LABEL)),
    "intents": ((*_TEXT, ("label", "intent")),),
    "nli": tuple(((one,), (two,), _LABEL) for one, two in _PAIR_NAMES),
    "pos": ((_WORDS, ("upos", "pos_tags", "labels", "tags")),),
    "ner": ((_WORDS, ("ner_tags", "labels", "tags")),),
    "slots": ((_WORDS, ("slots", "slot_labels", "labels", "tags")), (("utterance", "text"), ("slot_labels", "slots"))),
    "translation": ((("source",), ("target",)),),
    **dict.fromkeys(("lm", "masked-lm"), (_TEXT,)),
    "continuation": ((("prompt", "context", "question"), ("continuation", "completion", "answer")),),
    **dict.fromkeys(
        CHOICE_TASKS,
        (
            (_CONTEXT, ("choices",), _ANSWER),
            *(
                (_CONTEXT, *((f"choice{n}",) for n in range(1, most + 1)), _ANSWER)
                for most in range(MOST_CHOICES, 1, -1)
            ),
        ),
    ),
    "minimal-pairs": (
        (
            ("good", "correct", "sentence_good", "sen"),
            ("bad", "wrong", "incorrect", "sentence_bad", "wrong_sen"),
        ),
    ),
}
#: What the error for missing columns asks for.
_REQUIRED = {
    "classification": "text, label (for pairs: text, text2, label)",
    "intents": "text, label",
    "nli": "text, text2, label (or premise, hypothesis, label)",
    **dict.fromkeys(WORD_TASKS, "words, labels"),
    "translation": "source, target",
    **dict.fromkeys(("lm", "masked-lm"), "text"),
    "continuation": "prompt, continuation",
    **dict.fromkeys(CHOICE_TASKS, "context, choices, answer (or context, choice1, choice2, …, answer)"),
    "minimal-pairs": "good, bad",
}
TASKS = tuple(_COLUMNS)
_LANGUAGE = ("language", "lang", "locale")
_SPLIT = ("split", "partition")


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
        task: One of `TASKS`.
        dropped: Rows with an empty text are added to it.

    Raises:
        HeadwiseError: Columns are missing, or a cell does not fit.

    Example:
        >>> table = Table("a.csv", ("text", "label"), (("line 2", {"text": "Gut!", "label": 1}),), language="de")
        >>> items_of(table, "classification", Dropped())
        [Item(language='de', split=None, example=TextExample(id='#1', text='Gut!', label='1'))]
    """
    columns = _find_columns(table, task)
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


def guess_task(tables: Sequence[Table]) -> tuple[str, str]:
    """Return the task that the columns of own data fit, and the reason in words.

    Raises:
        HeadwiseError: The columns fit no task.

    Example:
        >>> guess_task([Table("a.csv", ("text", "label"), (("line 2", {"text": "Gut!", "label": "1"}),))])
        ('classification', 'it has the columns text and label')
    """
    table = tables[0]
    names = _by_name(table.columns)
    for task in ("translation", "choice", "minimal-pairs", "continuation", "pos", "classification", "lm"):
        group = _match(names, task)
        if group is not None:
            return _refine_guess(tables, task, group)
    raise HeadwiseError(
        f"{table.name}: its columns ({', '.join(table.columns)}) fit no task: name them as docs/data.md says, or give "
        f"--task, one of {', '.join(TASKS)}"
    )


def _refine_guess(tables: Sequence[Table], task: str, group: Sequence[str]) -> tuple[str, str]:
    """Tell tasks with the same columns apart by their labels."""
    reason = f"it has the column{'s' * (len(group) > 1)} {' and '.join(group)}"
    last = group[-1]
    if task == "pos":
        ner = _match(_by_name(tables[0].columns), "ner")
        if last in ("upos", "pos_tags") and not (last == "pos_tags" and ner):
            return task, reason
        labels = {label for labels in _cells(tables, (ner or group)[-1]) for label in _labels_cell(labels)}
        if all(is_iob(label) for label in to_iob(sorted(labels))):
            return "ner", f"it has the columns {' and '.join(ner or group)}, with labels such as {_shown(labels)}"
        return task, f"{reason}, with labels such as {_shown(labels)}"
    if task == "classification" and len(group) == 3:
        labels = {str(label).strip() for label in _cells(tables, last)}
        if labels <= NLI_LABELS.keys():
            return "nli", f"{reason}, with the labels {_shown(labels)}"
    return task, reason


def _cells(tables: Sequence[Table], column: str) -> Iterable[Any]:
    return (cells[column] for table in tables for _, cells in table.rows if column in cells)


def _shown(labels: Iterable[str]) -> str:
    return ", ".join(sorted(labels)[:4])


def _by_name(columns: Sequence[str]) -> dict[str, str]:
    """Return the columns by their names in lower case."""
    return {column.strip().lower(): column for column in reversed(columns)}


def _match(names: Mapping[str, str], task: str) -> tuple[str, ...] | None:
    """Return the columns of the first alternative that is complete."""
    for alternative in _COLUMNS[task]:
        found = [next((names[name] for name in accepted if name in names), None) for accepted in alternative]
        if None not in found:
            return tuple(column for column in found if column is not None)
    return None


@dataclass(frozen=True)
class _Columns:
    """The names of a table's columns by their roles."""

    content: tuple[str, ...]
    language: tuple[str, ...]
    split: str | None
    id: str | None
    separator: str | None
    labelled: bool = True


def _find_columns(table: Table, task: str) -> _Columns:
    if task not in _COLUMNS:
        raise HeadwiseError(f"no own data for a task {task!r}: choose one of {', '.join(TASKS)}")
    names = _by_name(table.columns)
    content = _match(names, task)
    labelled = content is not None or task not in LABEL_TASKS
    if not labelled:
        content = _match_texts(names, task)
    language: tuple[str, ...] = tuple(names[name] for name in _LANGUAGE if name in names)[:1]
    pair = ("source_language", "target_language")
    if task == "translation" and all(name in names for name in pair):
        language = tuple(names[name] for name in pair)
    if content is None or not (language or table.language):
        required = _REQUIRED[task] + ("" if table.language else ", language")
        way_out = "rename the columns" if content is None else "add the column language"
        if not (language or table.language):
            way_out += ", or put each language into a file of its own such as de.csv or reviews.de.csv"
        raise HeadwiseError(
            f"{table.name}: found the columns {', '.join(table.columns)}; the task {task!r} requires {required}: "
            f"{way_out}"
        )
    split = next((names[name] for name in _SPLIT if name in names), None)
    return _Columns(content, language, split, names.get("id"), names.get("separator"), labelled)


def _match_texts(names: Mapping[str, str], task: str) -> tuple[str, ...] | None:
    """Return the columns of unlabelled data, if there is no other column, which may be one of labels."""
    others = {*_LANGUAGE, *_SPLIT, "id"}
    for *texts, _ in _COLUMNS[task]:
        found = [next((names[name] for name in accepted if name in names), "") for accepted in texts]
        if all(found) and not {*names.values()} - {*found} - {names[name] for name in others & names.keys()}:
            return (*found, "")
    return None


class _Reader:
    """Reads the rows of one table.

    Attributes:
        repaired: The number of IOB labels that were repaired so far.
    """

    def __init__(self, table: Table, task: str, columns: _Columns) -> None:
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


def _labels_cell(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(map(str, value)) if isinstance(value, Iterable) else ()


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
