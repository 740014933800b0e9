"""CoNLL-U treebanks."""

import logging
import sys
from pathlib import Path

import pytest

from headwise import HeadwiseError
from headwise.data import conllu
from headwise.data.conllu import entity_examples, pos_examples, read_conllu
from headwise.data.examples import Sentence
from tests.data.test_text import complaint

TREEBANK = """# newdoc id = d
# sent_id = s-1
# text = Ann won't come.
1	Ann	Ann	PROPN	NNP	Number=Sing	4	nsubj	4:nsubj	NER=B-PER|Note=x
2-3	won't	_	_	_	_	_	_	_	SpaceAfter=No
2	wo	will	AUX	MD	_	4	aux	4:aux	NER=_
3	n't	not	PART	RB	_	4	advmod	_	_
4	come	come	VERB	VB	VerbForm=Inf	0	root	0:root	SpaceAfter=No
4.1	back	back	ADV	RB	_	_	_	4:advmod	_
5	.	.	PUNCT	.	_	4	punct	_	_

# license = none

1	New  York	New York	PROPN	_	_	0	root	_	NER=B-LOC
"""


def row(number: str = "1", upos: str = "NOUN", head: str = "0", misc: str = "_") -> str:
    return "\t".join((number, "word", "_", upos, "_", "_", head, "root", "_", misc)) + "\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "a.conllu"
    path.write_text(text, encoding="utf-8")
    return path


def test_words_are_syntactic_words(tmp_path: Path) -> None:
    first, second = read_conllu(write(tmp_path, TREEBANK))
    assert first == Sentence(
        id="s-1",
        text="Ann won't come.",
        words=("Ann", "wo", "n't", "come", "."),
        upos=("PROPN", "AUX", "PART", "VERB", "PUNCT"),
        heads=(4, 4, 4, 0, 4),
        relations=("nsubj", "aux", "advmod", "root", "punct"),
        entities=("B-PER", "O", "O", "O", "O"),
    )
    assert (second.id, second.text, second.words, second.entities) == ("#2", "New York", ("New York",), ("B-LOC",))


def test_examples_are_words_with_tags_or_entities(tmp_path: Path) -> None:
    sentences = read_conllu(write(tmp_path, TREEBANK))
    assert [example.labels for example in pos_examples(sentences)] == [sentence.upos for sentence in sentences]
    assert [example.labels for example in entity_examples(sentences)] == [sentence.entities for sentence in sentences]
    assert [example.id for example in pos_examples(sentences)] == ["s-1", "#2"]


def test_an_entity_that_begins_with_i_is_mended_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path, row(misc="NER=I-PER") + row("2", head="1", misc="NER=I-PER"))
    with caplog.at_level(logging.WARNING):
        assert read_conllu(path)[0].entities == ("B-PER", "I-PER")
    assert f"{path}: 1 I- labels" in caplog.text


def test_version_1_tags_are_mapped_on_request(tmp_path: Path) -> None:
    path = write(tmp_path, row(upos="CONJ"))
    assert read_conllu(path, v1=True)[0].upos == ("CCONJ",)
    assert "v1=True" in complaint(lambda: read_conllu(path), path, 1)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("# sent_id = x\n" + row(upos="_"), 2, "unknown UPOS tag '_' in sentence 'x'"),
        (row() + row("2", upos="Noun"), 2, "unknown UPOS tag 'Noun' in sentence '#1'"),
        (row() + "2\tword\tNOUN\n", 2, "3 columns instead of CoNLL-U's 10"),
        (row() + "2 word _ NOUN _ _ 0 root _ _\n", 2, "1 columns instead of CoNLL-U's 10"),
        (row() + "\n# text = b\n" + row("one"), 4, "not CoNLL-U"),
        (row(head="x"), 1, "not CoNLL-U"),
        (row() + row("2", head="9" * 5000), 2, "not CoNLL-U (a number is too long)"),
        (row() + row("9" * 5000), 2, "not CoNLL-U (a number is too long)"),
        (row(head="_"), 1, "the head of word 1"),
        (row(head="2"), 1, "the head of word 1"),
        (row() + row("3"), 2, "word 3 where word 2 of sentence '#1' is expected"),
        (row() + row("2").replace("word", ""), 2, "word 2 of sentence '#1' is empty: fill its form"),
        (row().replace("word", "\u3000"), 1, "word 1 of sentence '#1' is empty"),
        (row(misc="NER=PER"), 1, "label 'PER' is not IOB2"),
        ("# only\n# comments\n", None, "no sentences"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    path = write(tmp_path, text)
    assert said in complaint(lambda: read_conllu(path), path, line)


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "conllu", None)
    conllu._parser.cache_clear()
    (tmp_path / "a.conllu").write_text("1\tw\t_\tNOUN\t_\t_\t0\troot\t_\t_\n")
    with pytest.raises(HeadwiseError, match=r"needs the package conllu: pip install 'headwise\[tasks\]'"):
        read_conllu(tmp_path / "a.conllu")
