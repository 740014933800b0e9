"""The same answer in two languages: pairs of languages, made of texts or of prompts."""

import json
from pathlib import Path

import pytest

from headwise import HeadwiseError, open_dataset
from headwise.data.answer_language import prompts_of
from headwise.data.examples import ChoiceExample, PromptExample


def write_prompts(path: Path, languages: tuple[str, ...] = ("de", "en", "sw"), ids: bool = True) -> Path:
    rows = [
        {"prompt": f"{code} question {n}", "continuation": f"{code} answer {n}", "language": code, "split": "test"}
        | ({"id": f"item-{n}"} if ids else {})
        for code in languages
        for n in range(3)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_prompts_get_the_answer_of_the_same_item_in_the_other_language(tmp_path: Path) -> None:
    data = open_dataset(write_prompts(tmp_path / "own.jsonl"), "answer-language")
    assert data.task == "answer-language"
    first, *_ = examples = data.examples("sw-en", "test")
    assert first == ChoiceExample("item-0", "sw question 0", ("sw answer 0", "en answer 0"), 0)
    assert len(examples) == 3
    assert prompts_of(examples)[0] == PromptExample("item-0", "sw question 0", "sw answer 0")


def test_all_languages_are_the_pairs_with_english(tmp_path: Path) -> None:
    data = open_dataset(write_prompts(tmp_path / "own.jsonl"), "answer-language")
    assert set(data.languages) == {"de-en", "de-sw", "en-de", "en-sw", "sw-de", "sw-en"}
    assert set(data.variants) == {"de-sw", "sw-de"}


def test_texts_are_cut_near_their_middle(tmp_path: Path) -> None:
    (tmp_path / "mt").mkdir()
    for code, line in {"en": "one two three four", "zh": "一二三四", "fr": "deuxmots  ici"}.items():
        (tmp_path / "mt" / f"flores200.{code}.txt").write_text(f"{line}\n{line} \n")
    data = open_dataset(tmp_path, "answer-language")
    [example] = data.examples("en-zh", "test")
    assert isinstance(example, ChoiceExample)
    assert (example.context, example.choices, example.separator) == ("one two", ("three four", "三四"), " ")
    [example] = data.examples("zh-fr", "test")
    assert isinstance(example, ChoiceExample)
    assert (example.pairs[0], example.choices[1]) == (("一二", "三四"), "ici")


def test_items_without_names_and_single_languages_are_errors(tmp_path: Path) -> None:
    unnamed = open_dataset(write_prompts(tmp_path / "own.jsonl", ids=False), "answer-language")
    with pytest.raises(HeadwiseError, match="sw, en share no item in split 'test'"):
        unnamed.examples("sw-en", "test")
    with pytest.raises(HeadwiseError, match="needs the same items in at least two languages, not only in sw"):
        open_dataset(write_prompts(tmp_path / "one.jsonl", ("sw",)), "answer-language")
