"""A user's own data: every format gives the same examples, faults are named, splits are drawn openly."""

# ruff: noqa: E501 - messages of wrong files in one line each

import gzip
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.data.catalog import open_and_guess, open_dataset
from headwise.data.dataset import Dataset
from headwise.data.describe import describe
from headwise.data.examples import (
    ChoiceExample,
    Example,
    PairExample,
    PromptExample,
    TextExample,
    TranslationExample,
    WordExample,
)
from headwise.data.own import dataset
from headwise.data.splits import group_keys
from tests.data.own_files import CASES, SIZES, TASKS, as_json_lines, as_table, make_rows, name_of, write, write_data


def contents(data: Dataset) -> dict[tuple[str, str], tuple[Example, ...]]:
    return {(code, split): data.examples(code, split) for code in data.languages for split in data.splits}


def complaint(action: Callable[[], object]) -> str:
    with pytest.raises(HeadwiseError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    return message


EXPECTED: dict[str, Example] = {
    "classification": TextExample("dev-item1", "w5 w7 w13", "very bad"),
    "pairs": PairExample("dev-item1", "w5 w7 w13", "w5 w8 w14", "1"),
    "intents": TextExample("dev-item1", "w5 w7 w13", "intent 1"),
    "nli": PairExample("dev-item1", "w5 w7 w13", "w5 w8 w14", "neutral"),
    "pos": WordExample("dev-item1", ("w5", "w7", "w13"), ("DET", "NOUN", "ADJ")),
    "ner": WordExample("dev-item1", ("w5", "w7", "w13"), ("B-DRUG", "I-DRUG", "B-DOSE")),
    "slots": WordExample("dev-item1", ("w5", "w7", "w13"), ("O", "B-city", "I-city")),
    "translation": TranslationExample("dev-item1", "w5 w7 w13", "w5 w8 w14", "en-de"),
    "lm": TextExample("dev-item1", "w5 w7 w13"),
}


@pytest.mark.parametrize(("task", "form"), CASES)
def test_every_format_gives_the_same_examples_and_its_task_is_guessed(tmp_path: Path, task: str, form: str) -> None:
    path = write_data(tmp_path, task, form)
    data = open_dataset(path, name_of(task))
    assert data.splits == ("train", "dev", "test", "all")
    found = contents(data)
    assert {split: len(found[data.languages[1], split]) for split in SIZES} == SIZES
    second = found[data.languages[0], "dev"][1]
    if form == "txt folder":  # plain text has no ids
        assert second == TextExample("#2", "w5 w7 w13")
    else:
        assert second == EXPECTED[task]
        assert len(data.aligned(data.languages, "all")[data.languages[1]]) == SIZES["dev"] + SIZES["test"]
    guessed = open_and_guess(path)
    assert guessed[1] == {"intents": "classification", "slots": "ner"}.get(task, name_of(task))
    assert guessed[2]


@pytest.mark.parametrize("task", TASKS)
def test_rows_in_python_give_the_same_examples(tmp_path: Path, task: str) -> None:
    rows, name = make_rows(task), name_of(task)
    expected = contents(open_dataset(write(tmp_path / "own.jsonl", as_json_lines(rows)), name))
    pandas: Any = import_module("pandas")
    hf: Any = import_module("datasets")
    by_language = {
        code: [row for row in rows if row["language"] == code] for code in dict.fromkeys(r["language"] for r in rows)
    }
    by_split = {
        {"dev": "validation"}.get(split, split): hf.Dataset.from_list(
            [{key: cell for key, cell in row.items() if key != "split"} for row in rows if row["split"] == split]
        )
        for split in SIZES
    }
    for given in (
        rows,
        iter(rows),
        pandas.DataFrame(rows),
        hf.Dataset.from_list(rows),
        by_language,
        hf.DatasetDict(by_split),
    ):
        assert contents(dataset(given, name)) == expected
    nested = {
        code: {
            split: [
                {key: cell for key, cell in row.items() if key not in ("language", "split")}
                for row in some
                if row["split"] == split
            ]
            for split in SIZES
        }
        for code, some in by_language.items()
    }
    assert contents(dataset(nested, name)) == expected


def test_labels_of_datasets_have_their_names_and_numbers_are_text() -> None:
    hf: Any = import_module("datasets")
    pandas: Any = import_module("pandas")
    texts = [f"t{number}" for number in range(40)]
    labels = [number % 2 for number in range(40)]
    features = hf.Features({"text": hf.Value("string"), "label": hf.ClassLabel(names=["bad", "good"])})
    named = hf.Dataset.from_dict({"text": texts, "label": labels}, features=features)
    found = {example.text: example.label for example in texts_of(dataset(named, "classification", language="de"))}
    assert (found["t0"], found["t1"]) == ("bad", "good")
    frame = pandas.DataFrame({"text": texts, "label": [float(label) for label in labels]})
    assert {each.label for each in texts_of(dataset(frame, "classification", language="de"))} == {"0", "1"}
    tags = hf.Features({"tokens": hf.List(hf.Value("string")), "ner_tags": hf.List(hf.ClassLabel(names=["O", "B-X"]))})
    words = hf.Dataset.from_dict({"tokens": [[text] for text in texts], "ner_tags": [[1]] * 40}, features=tags)
    assert all(each.labels == ("B-X",) for each in dataset(words, "ner", language="de").examples("de", "all"))  # type: ignore[union-attr]
    unlabelled = hf.Dataset.from_dict({"text": texts, "label": [-1] * 40}, features=features)
    assert "row 1: the column 'label' is empty" in complaint(
        lambda: dataset(unlabelled, "classification", language="de")
    )


def texts_of(data: Dataset) -> list[TextExample]:
    return [example for found in contents(data).values() for example in found if isinstance(example, TextExample)]


def test_a_file_may_be_packed_have_semicolons_quotes_and_other_names(tmp_path: Path) -> None:
    packed = tmp_path / "own.csv.gz"
    text = 'Language;Sentence;LABEL;Partition\nde;"a; ""b""\nc";x;Validation\nde;d;y;TRAIN\n'
    packed.write_bytes(gzip.compress(text.encode("utf-8-sig")))
    data = open_dataset(packed, "classification")
    assert data.examples("de", "dev") == (TextExample("#1", 'a; "b"\nc', "x"),)
    write(tmp_path / "sst.en.tsv", 'sentence\tlabel\tsplit\na "fine film\t1\ttest\n')
    assert open_dataset(tmp_path / "sst.en.tsv", "classification").examples("en", "test") == (
        TextExample("#1", 'a "fine film', "1"),
    )
    write(tmp_path / "de.json", json.dumps([{"text": "a", "label": True, "split": "test"}]))
    assert open_dataset(tmp_path / "de.json", "intents").examples("de", "test") == (TextExample("#1", "a", "true"),)
    pairs = "source,target,source_language,target_language,split\na,b,en,de,test\n"
    assert open_dataset(write(tmp_path / "mt.csv", pairs), "translation").languages == ("en-de",)


def test_languages_come_from_columns_file_names_and_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "text,label\na,x\n"
    for name in ("reviews.de.test.csv", "reviews.zh-TW.test.csv", "reviews.sw.train.csv"):
        write(tmp_path / "one" / name, row)
    write(tmp_path / "one" / "notes.txt", "not data")
    assert open_dataset(tmp_path / "one", "classification").languages == ("de", "sw", "zh-TW")
    monkeypatch.chdir(tmp_path)
    assert open_dataset("./one/reviews.{language}.test.csv", "classification").languages == ("de", "zh-TW")
    write(tmp_path / "two" / "yue" / "validation.csv", row)
    data = open_dataset("two/{language}/{split}.csv", "classification")
    assert (data.languages, data.splits) == (("yue",), ("dev", "all"))
    column = write(tmp_path / "de.csv", "text,label,language,split\na,x,tr,test\n")
    assert open_dataset(column, "classification").languages == ("tr",)  # the column is more precise than the name
    assert "requires text, label" in complaint(lambda: open_dataset(write(tmp_path / "new.csv", row), "classification"))


def sentences(*labels: str) -> str:
    return "".join(f"w{number} {label}\n" for number, label in enumerate(labels))


def test_entities_in_other_schemes_become_iob2(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    iob1 = write(tmp_path / "iob1.de.test.conll", sentences("I-PER", "I-PER", "B-PER", "O", "I-LOC"))
    assert labels_of(iob1) == [("B-PER", "I-PER", "B-PER", "O", "B-LOC")]
    assert "2 I- labels that do not continue an entity were read as B-" in caplog.text
    bioes = write(tmp_path / "bioes.de.test.conll", sentences("B-PER", "E-PER", "S-LOC", "O"))
    assert labels_of(bioes) == [("B-PER", "I-PER", "B-LOC", "O")]
    start = "-DOCSTART- -X- -X- O\n\n# NN I-NP O\nRome NNP I-NP I-LOC\n"
    assert labels_of(write(tmp_path / "c.de.test.txt", start)) == [("O", "B-LOC")]


def labels_of(path: Path) -> list[tuple[str, ...]]:
    found = open_dataset(path, "ner").examples("de", "test")
    return [example.labels for example in found if isinstance(example, WordExample)]


def numbered(count: int, **cells: str) -> list[dict[str, str]]:
    return [{"text": f"text {number}", "label": "x", "language": "de", **cells} for number in range(count)]


def test_splits_are_drawn_openly_the_same_each_time_and_kept_together() -> None:
    rows = numbered(100)
    data = dataset(rows, "classification", name="reviews")
    assert [len(data.examples("de", split)) for split in data.splits] == [60, 20, 20, 40]
    assert (
        "reviews has no splits: its examples were divided at random (seed 0): de train 60, dev 20, test 20" in data.note
    )
    assert "Few examples (de dev 20, de test 20)" in data.note
    again = dataset(rows[::-1], "classification")
    assert {each.text for each in texts_of(again)} == {each.text for each in texts_of(data)}
    for split in ("train", "dev", "test"):
        texts = {each.text for each in data.examples("de", split) if isinstance(each, TextExample)}
        assert {each.text for each in again.examples("de", split) if isinstance(each, TextExample)} == texts
    assert contents(dataset(rows, "classification", seed=1)) != contents(data)
    doubled = dataset(rows + rows, "classification")
    train, test = (
        {each.text for each in doubled.examples("de", s) if isinstance(each, TextExample)} for s in ("train", "test")
    )
    assert not train & test
    only_train = dataset(numbered(100, split="train"), "classification", name="reviews")
    assert "reviews has only the split train: " in only_train.note
    assert contents(only_train) == contents(data)


def test_the_same_item_is_in_the_same_split_in_every_language() -> None:
    german = [{**row, "id": f"r{number}"} for number, row in enumerate(numbered(60))]
    turkish = [{**row, "language": "tr", "text": f"metin {row['id']}"} for row in german[:50]]
    data = dataset(german + turkish, "classification")
    for split in ("train", "dev", "test"):
        german_ids = {each.id for each in data.examples("de", split)}
        assert {each.id for each in data.examples("tr", split)} == german_ids & {f"r{n}" for n in range(50)}


def test_a_single_measured_split_is_halved_with_a_note() -> None:
    rows = numbered(20, split="train") + numbered(30, split="test")
    data = dataset(rows, "classification")
    assert [len(data.examples("de", split)) for split in data.splits] == [20, 15, 15, 30]
    assert "both are random halves of it (seed 0): de test 15, dev 15" in data.note
    few = dataset(numbered(20, split="train") + numbered(4, split="test"), "classification")
    assert few.splits == ("train", "test", "all")
    assert "Few examples (de test 4)" in few.note


def test_pairs_with_the_same_premise_and_linked_translations_stay_together() -> None:
    pairs = [PairExample(f"#{n}", f"p{n // 2}", f"h{n}", "x") for n in range(6)]
    assert group_keys(pairs) == ["text p0", "text p0", "text p1", "text p1", "text p2", "text p2"]
    linked = [
        TranslationExample("#1", "a", "x"),
        TranslationExample("#2", "b", "x"),
        TranslationExample("#3", "b", "y"),
    ]
    assert len(set(group_keys([*linked, TranslationExample("#4", "c", "z")]))) == 2


def test_rows_with_an_empty_text_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "text,label,language,split\na,x,de,test\n ,x,de,test\n,y,de,test\n")
    data = open_dataset(path, "classification")
    assert len(data.examples("de", "test")) == 1
    assert data.note.startswith(f"2 rows with an empty text were left out ({path}, line 3, {path}, line 4).")


HEADER = "text,label,language,split\n"
WRONG: list[tuple[str, str, str, str]] = [
    ("a.csv", "review,stars\nx,1\n", "classification", "found the columns review, stars; the task 'classification' requires text, label (for pairs: text, text2, label), language: rename the columns, or put each language into"),
    ("a.csv", "text,label\nx,1\n", "classification", "found the columns text, label; the task 'classification' requires text, label (for pairs: text, text2, label), language: add the column language"),
    ("de.csv", "text,label\nx,1\n", "nli", "found the columns text, label; the task 'nli' requires text, text2, label (or premise, hypothesis, label): rename"),
    ("de.jsonl", '{"tokens": ["a"], "classes": ["X"]}\n', "pos", "the task 'pos' requires words, labels: rename"),
    ("a.csv", HEADER + "x,y,de\n", "classification", ", line 2: 3 columns, but the header has 4 (text, label, language, split): quote texts"),
    ("a.csv", HEADER + '"x,y,de,test\n', "classification", ", line 2: not valid CSV ("),
    ("a.csv", "text,text,label\n", "classification", ", line 1: two columns are called 'text'"),
    ("a.csv", HEADER, "classification", ": no rows after the header"),
    ("a.csv", "", "classification", ": the file is empty"),
    ("a.csv", HEADER + "x,y,de,exam\n", "classification", ", line 2: unknown split 'exam': use train, dev"),
    ("a.csv", HEADER + "x,y,,test\n", "classification", ", line 2: the column 'language' is empty"),
    ("a.csv", HEADER + "x,y,../de,test\n", "classification", ", line 2: '../de' is not a language code"),
    ("a.csv", HEADER + "x,,de,test\n", "classification", ", line 2: the column 'label' is empty: give the row a label"),
    ("a.csv", HEADER + ",y,de,test\n", "classification", ": every row has an empty text"),
    ("de.csv", "premise,hypothesis,label\na,b,yes\n", "nli", ", line 2: unknown label 'yes': nli has entailment, neutral, contradiction; for other labels of pairs use the task classification"),
    ("de.jsonl", '{"text": "a"}\n{"text": \n', "lm", ", line 2: not JSON ("),
    ("de.jsonl", "[1]\n", "lm", ", line 1: a JSON list, not an object"),
    ("de.jsonl", '{"text": 3}\n', "lm", ", line 1: the column 'text' holds 3, not text"),
    ("de.jsonl", '{"words": ["a", "b"], "labels": ["X"]}\n', "pos", ", line 1: 2 words in 'words' but 1 labels in 'labels'"),
    ("de.jsonl", '{"words": ["a"], "labels": [3]}\n', "pos", ", line 1: the column 'labels' contains 3: write words and labels as text"),
    ("de.jsonl", '{"words": 3, "labels": [3]}\n', "pos", ", line 1: the column 'words' holds 3, not a list"),
    ("de.jsonl", '{"words": ["a"], "labels": ["PER"]}\n', "ner", ", line 1: label 'PER' is not IOB2: write O, B-<type> or I-<type>, or use the task pos"),
    ("de.conll", "a O\nb\n", "ner", ", line 2: 1 columns where 2 are needed"),
    ("de.conll", "a\nb\n", "ner", ", line 1: 1 columns where 2 are needed"),
    ("de.csv", "source,target\na,b\n", "translation", ", line 2: 'de' is not a pair of languages: write source and target language, as in en-de"),
    ("de.xlsx", "PK", "lm", ": the ending '.xlsx' is not a format of own data: use one of .csv, .tsv, .jsonl"),
    ("en-de.csv", "source,target\n" + "".join(f"a{n},b{n}\n" for n in range(10)), "translation", ": the 10 examples of 'en-de' give only 2 for dev: add examples, or give splits"),
    ("de.csv", "text,label\nx,1\n", "parsing", "no own data for a task 'parsing': choose one of classification, intents"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "task", "said"), WRONG)
def test_a_wrong_file_is_named_with_the_line_and_the_fix(
    tmp_path: Path, name: str, text: str, task: str, said: str
) -> None:
    path = write(tmp_path / name, text)
    message = complaint(lambda: open_dataset(path, task))
    assert said in message
    assert message.startswith((str(path), name, "no own data"))


def test_wrong_places_and_rows_are_named(tmp_path: Path) -> None:
    assert "no such file or folder: give a CSV, " in complaint(lambda: open_dataset(tmp_path / "x.csv", "lm"))
    assert "no data in this folder: put files such as de.csv" in complaint(lambda: open_dataset(tmp_path, "lm"))
    pattern = str(tmp_path / "{language}.csv")
    assert complaint(lambda: open_dataset(pattern, "lm")).startswith(f"{pattern}: no file matches this pattern")
    write(tmp_path / "de.exam.csv", "text\na\n")
    wrong = str(tmp_path / "{language}.{split}.csv")
    assert "unknown split 'exam'" in complaint(lambda: open_dataset(wrong, "lm"))
    assert "row 2: a str, not a dict" in complaint(lambda: dataset([{"text": "a"}, "b"], "lm", language="de"))
    assert "give a list of rows" in complaint(lambda: dataset({"text": "a"}, "lm", language="de"))
    assert "str is not rows" in complaint(lambda: dataset("own.csv", "lm", language="de"))
    assert "no rows" in complaint(lambda: dataset([], "lm"))
    mixed = [*numbered(2), {**numbered(1)[0], "split": "test"}]
    assert "row 1: unknown split ''" in complaint(lambda: dataset(mixed, "classification"))
    parts = {"de": [{"text": "a"}], "test": [{"text": "b", "language": "de"}]}
    assert "some examples of 'de' have a split and others do not" in complaint(lambda: dataset(parts, "lm"))
    assert "fit no task" in complaint(lambda: describe(write(tmp_path / "own.csv", "a,b\n1,2\n")))


def test_a_description_warns_of_what_may_be_wrong(tmp_path: Path) -> None:
    rows = [
        *({"text": f"t{n}", "label": "x", "language": "de", "split": "train", "id": f"i{n}"} for n in range(9)),
        *(
            {"text": f"t{n}", "label": "y", "language": "de", "split": "test", "id": f"i{max(n, 10)}"}
            for n in range(8, 60)
        ),
        *({"text": f"v{n}", "label": "x", "language": "de", "split": "dev", "id": f"d{n}"} for n in range(5)),
        *({"text": f"t{n}", "label": "x", "language": "tr", "split": "dev", "id": f"j{n}"} for n in range(70)),
        *({"text": f"u{n}", "label": "x", "language": "tr", "split": "test", "id": f"k{n}"} for n in range(70)),
    ]
    found = describe(write(tmp_path / "own.csv", as_table(rows, ",")))
    assert (found.task, found.reason) == ("classification", "it has the columns text and label")
    warnings = "; ".join(found.warnings)
    assert "1 ids occur more than once in de test, such as 'i10'" in warnings
    assert "1 texts of de are in train and in test, such as 't8'" in warnings
    assert "labels that occur in test but not in train: y" in warnings
    assert found.alignment.startswith("de and tr are not aligned: they share 0 of ")
    assert found.labels == {"x": 154, "y": 52}
    assert len(found.examples) == 3


def test_a_description_of_published_sets_needs_a_task_only_if_there_are_several(tmp_path: Path) -> None:
    write(tmp_path / "lm" / "de.test.txt", "eins\nzwei\n")
    found = describe(tmp_path)
    assert (found.task, found.reason, found.counts) == ("lm", "it has no other", {"de": {"dev": 1, "test": 1}})
    write(tmp_path / "paws-x" / "de" / "test_2k.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n")
    assert "several tasks: choose one of classification, lm" in complaint(lambda: describe(tmp_path))


WRITING = {
    "choice": (
        '{"context": "w5", "choices": ["a", "b"], "answer": 1, "language": "sw", "split": "test"}\n',
        ChoiceExample("#1", "w5", ("a", "b"), 1),
    ),
    "continuation": (
        '{"prompt": "w5", "continuation": "w6", "separator": "", "language": "sw", "split": "test"}\n',
        PromptExample("#1", "w5", "w6", ""),
    ),
    "minimal-pairs": (
        '{"sen": "she sings", "wrong_sen": "she sing", "language": "sw", "split": "test"}\n',
        ChoiceExample("#1", "", ("she sings", "she sing"), 0),
    ),
}


@pytest.mark.parametrize("task", WRITING)
def test_data_for_models_that_write_are_read_and_their_task_is_guessed(tmp_path: Path, task: str) -> None:
    text, expected = WRITING[task]
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    assert open_dataset(path, task).examples("sw", "test") == (expected,)
    assert open_and_guess(path)[1] == task
    assert describe(path, task)


@pytest.mark.parametrize(
    "text",
    [
        'context,choices,answer,split\nw5,"[""a"", ""b, c""]",1,test\n',
        'premise,choice1,choice2,label,split\nw5,a,"b, c",1,test\n',
        'question,choice1,choice2,choice3,answer,split\nw5,a,"b, c",,1,test\n',
    ],
)
def test_choices_in_csv_are_a_json_list_or_columns(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data.sw.csv"
    path.write_text(text)
    for task in ("choice", "choice-per-byte"):
        assert open_dataset(path, task).examples("sw", "test") == (ChoiceExample("#1", "w5", ("a", "b, c"), 1),)


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        (
            "choice",
            "context,choice1,choice2,answer\nw5,a,b,2\n",
            "line 2: the answer must be the number of a choice, counted from 0 to 1, not '2'",
        ),
        (
            "choice",
            "context,choices,answer\nw5,a b,0\n",
            "line 2: the choices must be a list of at least two texts, not 'a b'",
        ),
        (
            "choice",
            f"context,choice1,choice2,answer\nw5,a,b,{'9' * 5000}\n",
            "line 2: the answer must be the number of a choice, counted from 0 to 1",
        ),
        (
            "choice",
            f"context,choices,answer\nw5,{'[' * 5000},0\n",
            "line 2: the choices must be a list of at least two texts",
        ),
        (
            "choice",
            "context,answer\nw5,0\n",
            "requires context, choices, answer (or context, choice1, choice2, …, answer)",
        ),
        ("minimal-pairs", "good,bad\na b,a b\n", "line 2: both texts of the pair are 'a b': they must differ"),
        ("continuation", "prompt,text\na,b\n", "requires prompt, continuation"),
    ],
)
def test_faults_in_data_for_models_that_write_name_file_and_line(
    tmp_path: Path, task: str, text: str, message: str
) -> None:
    path = tmp_path / "data.sw.csv"
    path.write_text(text)
    found = complaint(lambda: open_dataset(path, task))
    assert message in found
    assert str(path) in found


def test_choices_without_ids_are_kept_together_by_their_context() -> None:
    examples = [ChoiceExample(f"#{n}", "the same", (f"a{n}", "b"), 0) for n in range(3)]
    assert len(set(group_keys([*examples, PromptExample("#9", "other", "b")]))) == 2
