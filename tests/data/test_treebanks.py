"""Treebanks: the phrasebook, folders of published sets, and own files."""

from pathlib import Path

import pytest

from headwise import HeadwiseError, open_dataset, open_treebank
from headwise.data.examples import Sentence
from headwise.data.phrasebook import LANGUAGES

ONE = "1\t{word}\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tfell\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"


def write(path: Path, *words: str) -> None:
    path.parent.mkdir(exist_ok=True)
    blocks = (f"# sent_id = n{number}\n" + ONE.format(word=word) for number, word in enumerate(words))
    path.write_text("".join(blocks), encoding="utf-8")


def subjects(found: tuple[object, ...]) -> list[str]:
    return [sentence.words[0] for sentence in found if isinstance(sentence, Sentence)]


def test_the_phrasebook_has_trees_in_the_splits_of_its_tasks() -> None:
    trees, words = open_treebank("phrasebook"), open_dataset("phrasebook", task="pos")
    assert trees.languages == LANGUAGES
    assert trees.task == "trees"
    for split in trees.splits:
        assert [s.id for s in trees.examples("sw", split)] == [s.id for s in words.examples("sw", split)]
    aligned = trees.aligned(["de", "zh"], "dev")
    assert len(aligned["de"]) == len(aligned["zh"]) == 130


def test_a_folder_of_published_sets_has_the_languages_and_splits_of_parts_of_speech(tmp_path: Path) -> None:
    write(tmp_path / "ud" / "de_pud-ud-test.conllu", "Regen", "Schnee")
    write(tmp_path / "ud" / "en_ewt-ud-train.conllu", "Rain")
    write(tmp_path / "ud" / "en_ewt-ud-test.conllu", "Snow")
    trees = open_treebank(tmp_path)
    assert trees.languages == open_dataset(tmp_path, task="pos").languages
    assert subjects(trees.examples("de", "dev")) == ["Regen"]
    assert subjects(trees.examples("en", "train")) == ["Rain"]


def test_own_files_by_pattern_and_folder(tmp_path: Path) -> None:
    write(tmp_path / "own" / "trees.de.conllu", "Regen")
    write(tmp_path / "own" / "trees.sw.dev.conllu", "Mvua")
    for name in (tmp_path / "own", tmp_path / "own" / "trees.{language}.conllu"):
        trees = open_treebank(name)
        assert subjects(trees.examples("de", "dev")) == subjects(trees.examples("de", "all")) == ["Regen"]
    assert subjects(open_treebank(tmp_path / "own").examples("sw", "dev")) == ["Mvua"]


def test_what_is_not_a_treebank_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="nosuch: no such treebank: give 'phrasebook'"):
        open_treebank("nosuch")
    (tmp_path / "reviews.de.csv").write_text("text,label\na,b\n")
    with pytest.raises(HeadwiseError, match="not a treebank"):
        open_treebank(tmp_path / "reviews.de.csv")
    write(tmp_path / "mine.conllu", "Rain")
    with pytest.raises(HeadwiseError, match=r"does not say its language: rename it, for example to de\.conllu"):
        open_treebank(tmp_path / "mine.conllu")
