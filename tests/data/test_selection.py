"""Which languages and which of their examples are meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.data.dataset import Dataset
from headwise.data.examples import WordExample
from headwise.data.folders import open_folder
from headwise.data.phrasebook import open_phrasebook
from headwise.data.selection import choose_examples, language_codes


def examples_of(*ids: str) -> tuple[WordExample, ...]:
    return tuple(WordExample(each, ("w",), ("X",)) for each in ids)


def dataset_of(load: Callable[[str, str], Any]) -> Dataset:
    return Dataset("toy", ("en", "sw", "fi"), ("dev",), load)


def test_aligned_languages_use_the_same_items_in_the_same_order() -> None:
    ids = [str(number) for number in range(20)]
    found = {"en": examples_of(*ids), "sw": examples_of(*ids[:0:-1])}
    chosen, note = choose_examples(dataset_of(lambda language, _: found[language]), ["en", "sw"], "dev", 3)
    assert [each.id for each in chosen["en"]] == [each.id for each in chosen["sw"]] == ["1", "2", "3"]
    assert "are aligned" in note


@pytest.mark.parametrize("shared", [(), ("1",)])
def test_languages_that_share_little_keep_their_own_items(shared: tuple[str, ...]) -> None:
    found = {"en": examples_of("a", "b", *shared), "sw": examples_of("c", *shared)}
    chosen, note = choose_examples(dataset_of(lambda language, _: found[language]), ["en", "sw"], "dev")
    assert chosen == found
    assert "do not share their items" in note


def test_examples_are_read_once_and_one_language_needs_no_note() -> None:
    calls: list[str] = []

    def load(language: str, split: str) -> tuple[WordExample, ...]:
        calls.append(language)
        return examples_of("a")

    assert choose_examples(dataset_of(load), ["en"], "dev") == ({"en": examples_of("a")}, "")
    choose_examples(dataset_of(load), ["en", "sw"], "dev")
    assert calls == ["en", "en", "sw"]


def test_languages_are_a_list_or_all() -> None:
    dataset = Dataset("toy", ("en", "en_gum", "fi", "sw", "zh_tw"), ("dev",), lambda *_: (), variants=("en_gum",))
    assert language_codes("all", dataset) == ["en", "fi", "sw", "zh_tw"]
    assert language_codes(" sw, en,sw", dataset) == ["sw", "en"]
    with pytest.raises(HeadwiseError, match="--languages names no language"):
        language_codes(" ,", dataset)


@pytest.mark.parametrize("form", ["#{}", "dev-s{}", "test-{}", "batch-0001-{:04}"])
def test_numbers_of_sentences_are_no_alignment(form: str) -> None:
    counted = examples_of(*(form.format(number) for number in range(1, 21)))
    dataset = dataset_of(lambda *_: counted)
    chosen, note = choose_examples(dataset, ["en", "sw"], "dev")
    assert chosen == {"en": counted, "sw": counted}
    assert "do not share their items" in note
    with pytest.raises(HeadwiseError, match="share no item"):
        dataset.aligned(["en", "sw"], "dev")


def write_treebanks(folder: Path, comment: str) -> Path:
    (folder / "ud").mkdir()
    for language in ("en", "sw"):
        rows = [f"{comment.format(number)}1\tw\t_\tNOUN\t_\t_\t0\troot\t_\t_\n" for number in range(20)]
        (folder / "ud" / f"{language}_toy-ud-dev.conllu").write_text("\n".join(rows))
    return folder


@pytest.mark.parametrize(("comment", "aligned"), [("", False), ("# sent_id = {}\n", True)])
def test_treebanks_are_aligned_by_what_their_sentences_are_called(tmp_path: Path, comment: str, aligned: bool) -> None:
    _, note = choose_examples(open_folder(write_treebanks(tmp_path, comment), "pos"), ["en", "sw"], "all")
    assert ("are aligned" in note) is aligned


def test_texts_of_ones_own_are_not_aligned_by_their_lines(tmp_path: Path) -> None:
    for name in ("lm/{}.dev.txt", "mt/flores200.{}.txt"):
        for language in ("en", "sw"):
            (tmp_path / name.format(language)).parent.mkdir(exist_ok=True)
            (tmp_path / name.format(language)).write_text("a\nb\n")
    dataset = open_folder(tmp_path, "lm")
    assert "are aligned" in choose_examples(dataset, ["en_flores", "sw_flores"], "all")[1]
    assert "do not share" in choose_examples(dataset, ["en_own", "sw_own"], "all")[1]


def test_the_phrasebook_is_aligned() -> None:
    assert "are aligned" in choose_examples(open_phrasebook("pos"), ["en", "th", "sw"], "dev")[1]


@pytest.mark.parametrize("code", ["../evil", "/etc", "en/de", "", "en_", "a b", "en\n", "..", "zh_tw/"])
def test_a_language_that_could_lead_out_of_a_folder_is_no_language(code: str) -> None:
    with pytest.raises(HeadwiseError, match=r"toy: .* is not a language code"):
        Dataset("toy", ("en", code), ("dev",), lambda *_: ())
