"""Entities and slots in IOB2 columns."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.data.columns import (
    CONLL_LABELS,
    IL_NER_LABELS,
    TURKISH_WIKI_LABELS,
    align_pud,
    read_atis,
    read_columns,
    read_uner,
    repair_iob2,
)
from headwise.data.examples import Sentence, TextExample, WordExample
from tests.data.test_text import complaint

ATIS = "id\tutterance\tslot_labels\tintent\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "a.iob2"
    path.write_text(text, encoding="utf-8")
    return path


def test_universal_ner_has_five_columns_and_comments(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "# newdoc id = d\n# sent_id = d-1\n# text = # Ann\n1\t#\tO\t-\t-\n2\tAnn\tB-PER\t-\tx\n\n"
        "# text = no id\n1\tCup\tB-OTH\tB-OTH\t-\n2\tFinal\tI-OTH\t-\t-\n3\tRome\tB-LOC\t-\t-\n",
    )
    assert read_uner(path) == (
        WordExample("d-1", ("#", "Ann"), ("O", "B-PER")),
        WordExample("#2", ("Cup", "Final", "Rome"), ("O", "O", "B-LOC")),
    )


def test_two_columns_and_a_hash_for_a_word(tmp_path: Path) -> None:
    path = write(tmp_path, "#\tO\nराम\tB-NEP\nदस\tB-NEN\n\nदिल्ली\tB-NEL\n")
    assert read_columns(path, IL_NER_LABELS) == (
        WordExample("#1", ("#", "राम", "दस"), ("O", "B-PER", "O")),
        WordExample("#2", ("दिल्ली",), ("B-LOC",)),
    )


def test_labels_are_mapped_by_entity(tmp_path: Path) -> None:
    path = write(tmp_path, "a\tB-GPE\nb\tI-GPE\nc\tB-LOC\nd\tB-DATE\ne\tI-DATE\nf\tB-PERSON\n")
    (example,) = read_columns(path, TURKISH_WIKI_LABELS)
    assert example.labels == ("B-LOC", "I-LOC", "B-LOC", "O", "O", "B-PER")


def test_entities_are_mended_before_they_are_mapped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Mapped first, I-LOC after B-GPE would have run on as the same entity.
    path = write(tmp_path, "a\tB-GPE\nb\tI-LOC\n\nc\tO\nd\tI-ORG\n")
    with caplog.at_level(logging.WARNING):
        examples = read_columns(path, TURKISH_WIKI_LABELS)
    assert [example.labels for example in examples] == [("B-LOC", "B-LOC"), ("O", "B-ORG")]
    assert caplog.messages == [f"{path}: 2 I- labels that do not continue an entity were read as B-"]


@given(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"])))
def test_repaired_labels_are_well_formed_and_change_no_word(labels: list[str]) -> None:
    whole, count = repair_iob2(labels)
    assert [label[1:] for label in whole] == [label[1:] for label in labels]
    assert sum(a != b for a, b in zip(labels, whole, strict=True)) == count
    for before, label in zip(("O", *whole), whole, strict=False):
        assert not label.startswith("I-") or before in (f"B-{label[2:]}", label)
    assert repair_iob2(whole) == (whole, 0)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("Ann\tB-PER\nhere\n", 2, "not 2 filled columns"),
        ("Ann\tB-PER\tx\n", 1, "not 2 filled columns"),
        ("\tO\n", 1, "not 2 filled columns"),
        ("Ann B-PER\n", 1, "not 2 filled columns"),
        ("a\tO\n\nAnn\tPER\n", 3, "label 'PER' is not IOB2"),
        ("Ann\tB-\n", 1, "label 'B-' is not IOB2"),
        ("Ann\tB-HUMAN\n", 1, "'B-HUMAN': use one of PER, ORG, LOC, MISC"),
        ("# a comment\n", None, "no words"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = write(tmp_path, text)
    assert said in complaint(lambda: read_columns(path, CONLL_LABELS), path, line)


def test_multiatis_has_intents_and_slots(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path, ATIS + '7\tfly "to" boston\tO O B-city\tflight\n8\tboston\tI-city\tcity\n')
    intents, slots = read_atis(path)
    assert intents == (TextExample("7", 'fly "to" boston', "flight"), TextExample("8", "boston", "city"))
    assert slots == (
        WordExample("7", ("fly", '"to"', "boston"), ("O", "O", "B-city")),
        WordExample("8", ("boston",), ("B-city",)),
    )
    assert "1 I- labels" in caplog.text


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            "id\tutterance\tintent\n1\ta\tb\n",
            1,
            "no column 'slot_labels' in the header: it has id, utterance, intent; required are id, ",
        ),
        (ATIS + "1\tto boston\tB-city\tflight\n", 2, "2 words but 1 slot labels"),
        (ATIS + "1\tboston\tcity\tflight\n", 2, "label 'city' is not IOB2"),
        (ATIS + "1\tboston\tB-city\n", 2, "3 columns instead of 4"),
    ],
)
def test_multiatis_faults_are_named_with_their_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = write(tmp_path, text)
    assert said in complaint(lambda: read_atis(path), path, line)


def tree(name: str, *words: str) -> Sentence:
    return Sentence(name, "", words, (), (), (), ())


def test_pud_sentences_get_the_treebanks_ids_and_order(caplog: pytest.LogCaptureFixture) -> None:
    treebank = [tree("w01001004", "a"), tree("w01001009", "b"), tree("n01001011", "c")]
    by_rank = [WordExample("n01001-0001", ("C",), ("O",)), WordExample("w01001-0002", ("B",), ("O",))]
    by_words = [WordExample("batch-1", ("b",), ("O",)), WordExample("batch-2", ("a",), ("O",))]
    assert [(example.id, example.words) for example in align_pud(by_rank, treebank)] == [
        ("w01001009", ("B",)),
        ("n01001011", ("C",)),
    ]
    assert [example.id for example in align_pud(by_words, treebank)] == ["w01001004", "w01001009"]
    assert not caplog.messages
    strangers = (WordExample("batch-3", ("z",), ("O",)), *by_words)
    assert align_pud(strangers, treebank) == strangers
    assert "keep their own ids" in caplog.text
