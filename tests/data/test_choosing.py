"""Which languages and which of their examples are meant."""

from collections.abc import Callable
from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.data.choosing import choose_examples, language_codes
from headwise.data.dataset import Dataset
from headwise.data.examples import WordExample


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
    dataset = Dataset("toy", ("en", "en_gum", "fi", "sw"), ("dev",), lambda *_: ())
    assert language_codes("all", dataset) == ["en", "fi", "sw"]
    assert language_codes(" sw, en,sw", dataset) == ["sw", "en"]
    with pytest.raises(HeadwiseError, match="--languages names no language"):
        language_codes(" ,", dataset)
