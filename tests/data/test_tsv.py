"""Tables of pairs: XNLI, PAWS-X, GLUE, translations."""

from pathlib import Path

import pytest

from headwise.data.examples import PairExample, TranslationExample
from headwise.data.tsv import (
    NLI_LABELS,
    read_aligned,
    read_pairs,
    read_parallel,
    read_paws_x,
    read_xnli,
)
from tests.data.test_text import complaint

XNLI = "language\tgold_label\tsentence1\tsentence2\tpromptID\tpairID\tgenre\n"
PUBLISHED = (
    "language\tgold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\t"
    "sentence2\tpromptID\tpairID\tgenre\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tsentence1_tokenized\t"
    "sentence2_tokenized\tmatch\n"
)


def write(folder: Path, text: str, name: str = "a.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_xnli_by_language_with_the_premise_in_the_id(tmp_path: Path) -> None:
    path = write(tmp_path, XNLI + 'sw\tneutral\t"Ndiyo\ta\t6\t16\tg\nen\tentailment\tYes"\tb\t6\t16\tg\n')
    assert read_xnli(path) == {
        "sw": (PairExample("6.16", '"Ndiyo', "a", "neutral"),),
        "en": (PairExample("6.16", 'Yes"', "b", "entailment"),),
    }


def test_the_published_xnli_columns_are_found_by_name(tmp_path: Path) -> None:
    cells = ["de", "contradiction", "", "", "", "", "Ja", "Nein", "1", "2", "g", *["neutral"] * 5, "J a", "N", "True"]
    assert read_xnli(write(tmp_path, PUBLISHED + "\t".join(cells) + "\n")) == {
        "de": (PairExample("1.2", "Ja", "Nein", "contradiction"),)
    }


def test_paws_x(tmp_path: Path) -> None:
    path = write(tmp_path, "id\tsentence1\tsentence2\tlabel\n3\ta\tb\t1\n\n4\tc\td\t0\n")
    assert read_paws_x(path) == (PairExample("3", "a", "b", "1"), PairExample("4", "c", "d", "0"))


def test_glue_columns_are_named_by_the_caller(tmp_path: Path) -> None:
    path = write(tmp_path, "index\tq1\tq2\tis\n5\ta\tb\tcontradictory\n")
    assert read_pairs(path, "q1", "q2", "is", "index") == (PairExample("5", "a", "b", "contradictory"),)
    assert read_pairs(path, "q2", "q1", "is", labels=NLI_LABELS) == (PairExample("#1", "b", "a", "contradiction"),)


def test_parallel_tables_and_aligned_files(tmp_path: Path) -> None:
    table = read_parallel(write(tmp_path, '"Go"\tLos\nRun\tLauf\n'))
    assert table == (TranslationExample("#1", '"Go"', "Los"), TranslationExample("#2", "Run", "Lauf"))
    source = write(tmp_path, '"Go"\nRun\n', "a.en")
    assert read_aligned(source, write(tmp_path, "Los\nLauf", "a.de")) == (
        TranslationExample("1", '"Go"', "Los"),
        TranslationExample("2", "Run", "Lauf"),
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (XNLI.replace("promptID", "prompt"), 1, "no column 'promptID' in the header: it has language, gold_label"),
        (XNLI, None, "no rows"),
        (XNLI + "en\tneutral\ta\tb\t1\t1\tg\nen\tneutral\ta\n", 3, "3 columns instead of 7"),
        (XNLI + "en\tneutral\ta\tb\t1\t1\tg\tx\n", 2, "8 columns instead of 7"),
        (XNLI + "\nen\t-\ta\tb\t1\t1\tg\n", 3, "unknown label '-': use one of entailment, neutral, contradiction"),
        (
            XNLI + "en\tneutral\ta\tb\t1\t1\tg\n../../evil\tneutral\ta\tb\t1\t1\tg\n",
            3,
            "'../../evil' is not a language code",
        ),
        (XNLI + "\tneutral\ta\tb\t1\t1\tg\n", 2, "'' is not a language code"),
        (XNLI + "en\tneutral\ta\t\t1\t1\tg\n", 2, "one side of the pair is empty"),
        (XNLI + "en\tneutral\t \tb\t1\t1\tg\n", 2, "one side of the pair is empty"),
        ("", None, "the file is empty"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = write(tmp_path, text)
    assert said in complaint(lambda: read_xnli(path), path, line)


def test_faults_of_other_tables_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "id\tsentence1\tsentence2\tlabel\n3\ta\tb\tyes\n4\ta\tb\t\n")
    assert "unknown label 'yes': use one of 0, 1" in complaint(lambda: read_paws_x(path), path, 2)
    empty = write(tmp_path, "id\tsentence1\tsentence2\tlabel\n3\ta\t\t1\n", "b.tsv")
    assert "one side of the pair is empty" in complaint(lambda: read_paws_x(empty), empty, 2)
    missing = complaint(lambda: read_pairs(path, "text", "text2", "label"), path, 1)
    assert missing.startswith("no column 'text', 'text2' in the header: it has id, sentence1, sentence2, label; ")
    assert "give the row a label" in complaint(lambda: read_pairs(path, "sentence1", "sentence2", "label"), path, 3)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("Go\tLos\nRun\n", 2, "1 columns instead of 2"),
        ("Go\tLos\tCC-BY\n", 1, "3 columns instead of 2"),
        ("Go\t \n", 1, "one side of the pair is empty"),
    ],
)
def test_faults_of_parallel_tables_are_named(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = write(tmp_path, text)
    assert said in complaint(lambda: read_parallel(path), path, line)


def test_faults_of_aligned_files_are_named(tmp_path: Path) -> None:
    two, one, holed = (
        write(tmp_path, text, name) for name, text in (("two", "a\nb\n"), ("one", "a\n"), ("holed", "a\n\n"))
    )
    assert f"no line 2, which {two} has" in complaint(lambda: read_aligned(one, two), one)
    assert f"no line 2, which {two} has" in complaint(lambda: read_aligned(two, one), one)
    assert "the line is empty" in complaint(lambda: read_aligned(two, holed), holed, 2)
    assert "the line is empty" in complaint(lambda: read_aligned(holed, two), holed, 2)
