"""The built-in parallel treebank, its checker and its cross-check."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tools.phrasebook.agreement import compare
from tools.phrasebook.agreement import main as agreement_main
from tools.phrasebook.characters import traditional
from tools.phrasebook.check import PACKAGE, check_file
from tools.phrasebook.check import main as check_main
from tools.phrasebook.tagger import train

from headwise.data.conllu import read_conllu
from headwise.data.examples import Sentence, WordExample
from headwise.data.phrasebook import LANGUAGES, open_phrasebook, phrasebook_sentences
from headwise.errors import HeadwiseError

COUNT = 260
IDS = tuple(f"phrasebook-{number:03}" for number in range(1, COUNT + 1))
per_language = pytest.mark.parametrize("language", LANGUAGES)


def reaches_root(heads: tuple[int, ...], place: int) -> bool:
    for _ in heads:
        place = heads[place - 1] if place else 0
    return place == 0


def ids(task: str, language: str, split: str) -> tuple[str, ...]:
    dataset = open_phrasebook("pos" if task == "pos" else "ner")
    return tuple(example.id for example in dataset.examples(language, split))


@per_language
def test_the_checker_finds_no_error(language: str) -> None:
    blocks, report = check_file(PACKAGE / f"{language}.conllu")
    assert (len(blocks), report.errors) == (COUNT, [])


def test_there_are_fourteen_languages_and_a_file_for_each() -> None:
    assert len(LANGUAGES) >= 14
    assert {path.stem for path in PACKAGE.glob("*.conllu")} == set(LANGUAGES)


@per_language
def test_sentences_are_aligned_by_id_in_one_order(language: str) -> None:
    assert tuple(sentence.id for sentence in phrasebook_sentences(language)) == IDS


@per_language
def test_no_text_occurs_twice(language: str) -> None:
    texts = [sentence.text.casefold().rstrip(" .!?。！？؟।") for sentence in phrasebook_sentences(language)]
    assert len(set(texts)) == COUNT


@per_language
def test_trees_are_trees(language: str) -> None:
    for sentence in phrasebook_sentences(language):
        assert sentence.heads.count(0) == 1, sentence.id
        assert sentence.relations[sentence.heads.index(0)] == "root", sentence.id
        assert all(reaches_root(sentence.heads, place) for place in range(1, len(sentence.words) + 1)), sentence.id


@per_language
def test_entities_are_iob2_as_written(language: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        sentences = read_conllu(PACKAGE / f"{language}.conllu")
    assert not caplog.records, "the reader mended labels"
    labels = {label for sentence in sentences for label in sentence.entities}
    assert {"O", "B-PER", "B-ORG", "B-LOC", "B-MISC"} <= labels
    assert {label[2:] for label in labels - {"O"}} == {"PER", "ORG", "LOC", "MISC"}


@pytest.mark.parametrize("task", ["pos", "ner"])
@per_language
def test_halves_are_fixed_disjoint_and_cover_everything(task: str, language: str) -> None:
    assert ids(task, language, "dev") == IDS[0::2]
    assert ids(task, language, "test") == IDS[1::2]
    assert ids(task, language, "all") == IDS


def test_aligned_sets_are_whole() -> None:
    aligned = open_phrasebook("pos").aligned(LANGUAGES, "test")
    assert {tuple(example.id for example in examples) for examples in aligned.values()} == {IDS[1::2]}


def test_labels_are_those_of_the_task() -> None:
    sentence = next(each for each in phrasebook_sentences("en") if "B-PER" in each.entities)
    found = {task: open_phrasebook(task).examples("en", "all") for task in ("pos", "ner")}
    assert WordExample(sentence.id, sentence.words, sentence.upos) in found["pos"]
    assert WordExample(sentence.id, sentence.words, sentence.entities) in found["ner"]


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(HeadwiseError, match="no language 'xx': it has en, de"):
        phrasebook_sentences("xx")


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(HeadwiseError, match="no task 'nli': choose one of pos, ner"):
        open_phrasebook("nli")  # type: ignore[arg-type]


def planted(folder: Path, change: Callable[[str], str]) -> list[str]:
    """What the checker says of the German file with a fault planted in it."""
    sound = (PACKAGE / "de.conllu").read_text(encoding="utf-8")
    faulty = change(sound)
    assert faulty != sound, "nothing was planted"
    path = folder / "de.conllu"
    path.write_text(faulty, encoding="utf-8")
    return check_file(path)[1].errors


def word(place: int, column: int, value: str) -> Callable[[str], str]:
    """Change one column of a word of the first sentence."""

    def change(text: str) -> str:
        lines = text.split("\n")
        number = next(number for number, line in enumerate(lines) if line.startswith(f"{place}\t"))
        columns = lines[number].split("\t")
        columns[column] = value
        lines[number] = "\t".join(columns)
        return "\n".join(lines)

    return change


def test_checker_finds_a_cycle(tmp_path: Path) -> None:
    assert any("its heads form a cycle" in error for error in planted(tmp_path, word(3, 6, "2")))


def test_checker_finds_two_roots(tmp_path: Path) -> None:
    errors = planted(tmp_path, lambda text: word(3, 7, "root")(word(3, 6, "0")(text)))
    assert any("2 roots" in error for error in errors)


def test_checker_finds_a_wrong_relation(tmp_path: Path) -> None:
    assert any("unknown relation subj" in error for error in planted(tmp_path, word(3, 7, "subj")))


def test_checker_finds_a_relation_of_another_language(tmp_path: Path) -> None:
    assert any("obl:patient is not used in de" in error for error in planted(tmp_path, word(3, 7, "obl:patient")))


def test_checker_finds_a_text_that_differs(tmp_path: Path) -> None:
    errors = planted(tmp_path, lambda text: text.replace("das Museum in", "das  Museum in", 1))
    assert len(errors) == 1
    assert "text differs from words" in errors[0]


def test_checker_finds_a_broken_span(tmp_path: Path) -> None:
    (error,) = planted(tmp_path, word(3, 9, "NER=I-LOC"))
    assert "I-LOC does not continue a span" in error


def test_checker_finds_a_missing_sentence(tmp_path: Path) -> None:
    (error,) = planted(tmp_path, lambda text: text[text.index("\n\n") + 2 :])
    assert "[phrasebook-001] error: sentence missing" in error


def test_checker_finds_a_repeated_text(tmp_path: Path) -> None:
    errors = planted(tmp_path, lambda text: text + text[: text.index("\n\n") + 2].replace("-001", "-900"))
    assert any("text repeats that of phrasebook-001" in error for error in errors)


def test_checker_reports_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "de.conllu"
    path.write_text((PACKAGE / "de.conllu").read_text(encoding="utf-8").replace("\tNOUN\t", "\tNAUN\t", 1))
    assert check_main([str(PACKAGE / "de.conllu"), "--quiet"]) == 0
    assert check_main([str(path), "--quiet"]) == 1
    assert f"{path}:5: [phrasebook-001] error: unknown UPOS NAUN" in capsys.readouterr().out


def test_tagger_learns_and_disagreements_come_surest_first() -> None:
    taught = [(("the", "cat", "sleeps"), ("DET", "NOUN", "VERB")), (("a", "dog", "runs"), ("DET", "NOUN", "VERB"))]
    wrong = [(("the", "dog", "sleeps"), ("DET", "VERB", "VERB")), (("a", "cat", "runs"), ("NOUN", "NOUN", "VERB"))]
    sentences = [Sentence(words[1], "", words, upos, (0, 0, 0), words, words) for words, upos in wrong]
    agreement, found = compare(train(taught), sentences)
    assert agreement == pytest.approx(4 / 6)
    assert {(each.sentence.id, each.place, each.guess) for each in found} == {("dog", 1, "NOUN"), ("cat", 0, "DET")}
    assert found[0].margin > found[1].margin > 0


@pytest.mark.parametrize("language", ["th", "sw"])
def test_cross_check_says_why_it_skips(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    assert agreement_main(["--language", language]) == 0
    assert capsys.readouterr().out == f"{language}: skipped: {tmp_path / 'ud'} has no treebank of this language\n"


def test_chinese_is_compared_in_traditional_characters() -> None:
    words = [word for sentence in phrasebook_sentences("zh") for word in sentence.words]
    assert traditional("博物馆") == "博物館"
    assert sum(traditional(word) != word for word in words) > len(words) / 4
