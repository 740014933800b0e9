"""Which columns a task needs, what they may be called, and which task the columns of own data fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.data.columns import is_iob, to_iob
from headwise.data.tables import Table
from headwise.data.task_names import CHOICE_TASKS, LABEL_TASKS, WORD_TASKS
from headwise.data.tsv import NLI_LABELS
from headwise.errors import HeadwiseError

_TEXT = (("text", "sentence", "utterance"),)
_LABEL = ("label", "gold_label", "intent")
_PAIR_NAMES = (("text", "text2"), ("text1", "text2"), ("sentence1", "sentence2"), ("premise", "hypothesis"))
_WORDS = ("words", "tokens")
_CONTEXT, _ANSWER = ("context", "question", "premise"), ("answer", "label")
#: Maximum number of columns choice1, choice2, …
MOST_CHOICES = 8
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


def _labels_cell(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(map(str, value)) if isinstance(value, Iterable) else ()


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
class TableColumns:
    """The names of a table's columns by their roles.

    Attributes:
        content: The columns of an example, in the order of the task; the last one is empty if labels are missing.
        language: The column of the language, or those of the source and the target language.
        split: The column of the split, if there is one.
        id: The column of the identity, if there is one.
        separator: The column of the separator, if there is one.
        labelled: Whether there are labels.
    """

    content: tuple[str, ...]
    language: tuple[str, ...]
    split: str | None
    id: str | None
    separator: str | None
    labelled: bool = True


def find_columns(table: Table, task: str) -> TableColumns:
    """Return the columns that a task needs.

    Raises:
        HeadwiseError: There is no such task, or a column is missing.

    Example:
        >>> find_columns(Table("a.csv", ("Sentence", "label", "lang"), ()), "intents").content
        ('Sentence', 'label')
    """
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
    return TableColumns(content, language, split, names.get("id"), names.get("separator"), labelled)


def _match_texts(names: Mapping[str, str], task: str) -> tuple[str, ...] | None:
    """Return the columns of unlabelled data, if there is no other column, which may be one of labels."""
    others = {*_LANGUAGE, *_SPLIT, "id"}
    for *texts, _ in _COLUMNS[task]:
        found = [next((names[name] for name in accepted if name in names), "") for accepted in texts]
        if all(found) and not {*names.values()} - {*found} - {names[name] for name in others & names.keys()}:
            return (*found, "")
    return None
