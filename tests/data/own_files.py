"""Small data of every task, and the files in which a user may bring them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]

SIZES = {"train": 12, "dev": 8, "test": 6}


def make_rows(task: str) -> Rows:
    """Return aligned rows in two languages (for translation: pairs) with ids and splits."""
    rows = []
    for code in ("en-de", "en-tr") if task == "translation" else ("de", "tr"):
        for split, size in SIZES.items():
            for number in range(size):
                common = {"id": f"{split}-item{number}", "language": code, "split": split}
                rows.append({**_CONTENT[task](number), **common})
    return rows


def _words(number: int) -> list[str]:
    return ["w5", f"w{6 + number % 5}", f"w{12 + number % 3}"]


def _text(number: int) -> str:
    return " ".join(_words(number))


_CONTENT: dict[str, Callable[[int], dict[str, Any]]] = {
    "classification": lambda n: {"text": _text(n), "label": ("good", "very bad")[n % 2]},
    "pairs": lambda n: {"text": _text(n), "text2": _text(n + 1), "label": str(n % 2)},
    "intents": lambda n: {"text": _text(n), "label": f"intent {n % 3}"},
    "nli": lambda n: {
        "premise": _text(n),
        "hypothesis": _text(n + 1),
        "label": ("entailment", "neutral", "contradiction")[n % 3],
    },
    "pos": lambda n: {"words": _words(n), "labels": ["DET", "NOUN", ("VERB", "ADJ")[n % 2]]},
    "ner": lambda n: {"words": _words(n), "labels": ["B-DRUG", "I-DRUG", ("O", "B-DOSE")[n % 2]]},
    "slots": lambda n: {"words": _words(n), "labels": ["O", "B-city", ("O", "I-city")[n % 2]]},
    "translation": lambda n: {"source": _text(n), "target": _text(n + 1)},
    "lm": lambda n: {"text": _text(n)},
}
WORD_TASKS = ("pos", "ner", "slots")


def as_table(rows: Rows, delimiter: str) -> str:
    """Return rows as CSV or TSV; lists become words with spaces between them."""
    flat = [{key: " ".join(cell) if isinstance(cell, list) else cell for key, cell in row.items()} for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(flat[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def as_json_lines(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_columns(rows: Rows, line: Callable[[int, str, str], str]) -> str:
    """Return one line per word, a comment with the id and a blank line per sentence."""
    blocks = []
    for row in rows:
        pairs = enumerate(zip(row["words"], row["labels"], strict=True), 1)
        lines = [line(number, word, label) for number, (word, label) in pairs]
        blocks.append(f"# sent_id = {row['id']}\n" + "\n".join(lines) + "\n")
    return "\n".join(blocks)


def two_columns(number: int, word: str, label: str) -> str:
    return f"{word}\t{label}"


def conll_2003(number: int, word: str, label: str) -> str:
    return f"{word} NN I-NP {label}"


def universal_ner(number: int, word: str, label: str) -> str:
    return f"{number}\t{word}\t{label}\t-\t-"


def conll_u(number: int, word: str, label: str) -> str:
    return f"{number}\t{word}\t_\t{label}\t_\t_\t{number - 1}\tdep\t_\t_"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_per_file(folder: Path, rows: Rows, suffix: str, form: Callable[[Rows], str]) -> Path:
    """Write `<language>.<split>.<suffix>` for each language and split, without these two columns."""
    for code in {row["language"] for row in rows}:
        for split in SIZES:
            chosen = [
                {key: cell for key, cell in row.items() if key not in ("language", "split")}
                for row in rows
                if (row["language"], row["split"]) == (code, split)
            ]
            write(folder / f"{code}.{split}.{suffix}", form(chosen))
    return folder


def write_data(folder: Path, task: str, form: str) -> str:
    """Write the data of a task in one of the forms of `forms_of`; return what `--data` takes."""
    rows = make_rows(task)
    match form:
        case "csv":
            return str(write(folder / "own.csv", as_table(rows, ",")))
        case "jsonl":
            return str(write(folder / "own.jsonl", as_json_lines(rows)))
        case "tsv pattern":
            write_per_file(folder, rows, "tsv", lambda some: as_table(some, "\t"))
            return str(folder / "{language}.{split}.tsv")
        case "txt folder":
            return str(write_per_file(folder, rows, "txt", lambda some: "".join(f"{row['text']}\n" for row in some)))
    suffix, line = _COLUMN_FORMS[form]
    return str(write_per_file(folder, rows, suffix, lambda some: as_columns(some, line)))


_COLUMN_FORMS: dict[str, tuple[str, Callable[[int, str, str], str]]] = {
    "two columns": ("conll", two_columns),
    "CoNLL-2003": ("txt", conll_2003),
    "Universal NER": ("iob2", universal_ner),
    "CoNLL-U": ("conllu", conll_u),
}


def forms_of(task: str) -> tuple[str, ...]:
    """Return the forms in which the data of a task can be brought."""
    more = {
        "pos": ("two columns", "CoNLL-U"),
        "ner": ("two columns", "CoNLL-2003", "Universal NER"),
        "slots": ("two columns",),
        "lm": ("txt folder",),
    }
    return ("csv", "jsonl", "tsv pattern", *more.get(task, ()))


TASKS = tuple(_CONTENT)
CASES = [(task, form) for task in TASKS for form in forms_of(task)]


def name_of(task: str) -> str:
    """Return headwise's name of a task of this module."""
    return "classification" if task == "pairs" else task
