"""One protocol for all tasks: the same likelihoods as the model's own loss, wherever the logits are."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headwise import HeadwiseError
from headwise.data.examples import Example, TextExample, TranslationExample, WordExample
from headwise.tasks import find_task
from headwise.tasks.causal import LanguageTask, perplexity
from headwise.tasks.encoding import Batch
from headwise.tasks.likelihood import mean_log_likelihood
from headwise.tasks.protocol import AnyTask, gold_log_probabilities
from headwise.tasks.translation import TranslationTask
from tests.families import BY_NAME

TEXTS: list[Example] = [TextExample("1", "the cats sat", "a"), TextExample("2", "the cat", "b")]
CASES: dict[str, tuple[AnyTask, Any, list[Example]]] = {
    "words": (
        find_task("slots", tuple("abcde")),
        BY_NAME["xlm-roberta"],
        [WordExample("1", ("the", "cats"), ("a", "e")), WordExample("2", ("sat",), ("c",))],
    ),
    "sequence": (find_task("intents", tuple("abc")), BY_NAME["roberta"], TEXTS),
    "translation": (
        TranslationTask(max_length=60),
        BY_NAME["marian"],
        [TranslationExample("1", "the cats", "cat"), TranslationExample("2", "sat", "the cat sat")],
    ),
    "lm": (LanguageTask(window=8), BY_NAME["llama"], TEXTS),
}


def run(name: str, tokenizer: Any) -> tuple[AnyTask, Batch, Tensor]:
    task, case, examples = CASES[name]
    model = case.build()
    encoded, cut = task.encode(examples, tokenizer)
    assert cut == 0
    batch = task.make_batch(model, encoded, [1, 0], tokenizer.pad_token_id)
    return task, batch, model(**batch.inputs(torch.device("cpu"))).logits


@pytest.mark.parametrize("name", CASES)
def test_gold_labels_get_the_log_probability_of_the_softmax(name: str, tokenizer: Any) -> None:
    task, batch, logits = run(name, tokenizer)
    found = gold_log_probabilities(task, logits, batch)
    for label, value in enumerate(found):
        row, position = batch.rows[label], batch.positions[label]
        scores = logits[row] if logits.dim() == 2 else logits[row, position]
        torch.testing.assert_close(value, scores.log_softmax(-1)[batch.gold[label]])
    assert found.requires_grad
    assert gold_log_probabilities(task, logits.bfloat16(), batch).dtype == torch.float32


@pytest.mark.parametrize("name", CASES)
def test_the_logits_may_be_on_another_device(name: str, tokenizer: Any) -> None:
    task, batch, logits = run(name, tokenizer)
    assert task.select(logits.to("meta"), batch).device.type == "meta"
    assert gold_log_probabilities(task, logits.to("meta"), batch).shape == batch.gold.shape


def test_texts_are_predicted_from_the_start_token_on_and_cut_to_the_window(tokenizer: Any) -> None:
    whole, cut = LanguageTask(window=8).encode(TEXTS, tokenizer)
    assert [(item.ids, item.positions, item.gold) for item in whole] == [
        ((0, 5, 6, 7), (0, 1, 2, 3), (5, 6, 7, 10)),
        ((0, 5), (0, 1), (5, 6)),
    ]
    assert cut == 0
    short, cut = LanguageTask(window=3).encode(TEXTS, tokenizer)
    assert (short[0].ids, short[0].gold, cut) == ((0, 5, 6), (5, 6, 7), 1)


def test_uncut_texts_are_as_likely_as_their_perplexity_says(tokenizer: Any) -> None:
    model = BY_NAME["llama"].build()
    texts = [example.text for example in TEXTS if isinstance(example, TextExample)]
    expected = perplexity(model, texts, tokenizer, window=8).value
    assert mean_log_likelihood(model, LanguageTask(window=8), TEXTS, tokenizer) == pytest.approx(
        -torch.tensor(expected).log().item(), rel=1e-5
    )


def test_what_is_no_text_or_does_not_fit_is_refused(tokenizer: Any) -> None:
    for examples, message in (
        ([TranslationExample("1", "the", "cat")], "needs plain texts"),
        ([TextExample("7", "")], "example 7: the text is empty"),
    ):
        with pytest.raises(HeadwiseError, match=message):
            LanguageTask().encode(examples, tokenizer)
    with pytest.raises(HeadwiseError, match="a window of 512 tokens does not fit the model: use 1 to 40"):
        mean_log_likelihood(BY_NAME["gpt2"].build(), LanguageTask(), TEXTS, tokenizer)
