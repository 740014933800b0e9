"""Measuring models: through the engine, with the numbers of one plain pass per example and mask."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForTokenClassification, AutoTokenizer

from headwise import HeadMask, HeadwiseError, find_heads, gated
from headwise.data.examples import TextExample, WordExample
from headwise.engine.evaluation import MaskJudge, evaluate, measure
from headwise.tasks import find_task
from headwise.tasks.causal import LanguageTask, perplexity
from headwise.tasks.encoding import split_batches
from tests.engine.worlds import tiny_tokenizer
from tests.families import BY_NAME
from tests.scoring.world import WORDS, save_model


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """A tiny tagger and its tokenizer."""
    folder = save_model(Path(tmp_path_factory.mktemp("tagger")))
    return AutoModelForTokenClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def make_sentences(count: int) -> list[WordExample]:
    """Sentences of random words with random labels, some of several hundred tokens."""
    draw, known = np.random.default_rng(0), list(WORDS)
    found = []
    for number in range(count):
        size = int(draw.integers(1, 9))
        words = tuple(known[place] for place in draw.integers(0, len(known), size))
        labels = tuple(("NOUN", "VERB", "DET")[place] for place in draw.integers(0, 3, size))
        found.append(WordExample(str(number), words, labels))
    return found


def random_masks(model: Any, count: int) -> list[HeadMask]:
    """Masks without some heads, blocks or layers."""
    heads, draw = find_heads(model), np.random.default_rng(1)
    found = []
    for number in range(count):
        kind = ("heads", "heads", "ffn", "layers")[number % 4]
        names = heads.players(kind)  # type: ignore[arg-type]
        off = draw.permutation(len(names))[: len(names) // 3]
        found.append(HeadMask.without(heads, [names[place] for place in off], kind))  # type: ignore[arg-type]
    return found


def test_evaluation_counts_as_a_plain_loop_does(tagger: tuple[Any, Any]) -> None:
    model, tokenizer = tagger
    task, examples = find_task("pos"), make_sentences(30)
    found = evaluate(model, task, examples, tokenizer)
    for row, example in enumerate(examples):
        ids = torch.tensor([tokenizer.convert_tokens_to_ids(list(example.words))])
        with torch.no_grad():
            best = model(input_ids=ids).logits[0].argmax(-1)
        right = sum(task.labels[label] == gold for label, gold in zip(best.tolist(), example.labels, strict=True))
        assert found.statistics[row].tolist() == [right, len(example.words)]
    assert found.value == 100 * found.statistics[:, 0].sum() / found.statistics[:, 1].sum()


def test_many_masks_are_measured_as_one_evaluation_each(tagger: tuple[Any, Any]) -> None:
    model, tokenizer = tagger
    task, examples = find_task("pos"), make_sentences(12)
    judge = MaskJudge(model, find_heads(model), task, examples, tokenizer)
    masks = random_masks(model, 8)
    found = judge.measure(masks)
    for mask, statistics in zip(masks, found.statistics, strict=True):
        with gated(model, mask):
            np.testing.assert_array_equal(statistics, evaluate(model, task, examples, tokenizer).statistics)
    assert found.cost.rows == 8 * 12


def test_ten_random_masks_cost_less_than_ten_evaluations(tagger: tuple[Any, Any]) -> None:
    model, tokenizer = tagger
    calls = []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return tokenizer(*arguments, **options)

    judge = MaskJudge(model, find_heads(model), find_task("pos"), make_sentences(20), counted)
    counted.pad_token_id = tokenizer.pad_token_id  # type: ignore[attr-defined]
    counted.all_special_ids = tokenizer.all_special_ids  # type: ignore[attr-defined]
    heads, draw = find_heads(model), np.random.default_rng(3)
    names = heads.players()
    masks = [HeadMask.without(heads, [names[place] for place in draw.permutation(len(names))[:2]]) for _ in range(10)]
    units = judge.measure(masks).cost.units
    judge.measure(masks[:3])
    assert units < 0.9 * 10 * 20
    assert len(calls) == 1, "examples are encoded once"


def test_a_mask_may_be_measured_on_some_examples(tagger: tuple[Any, Any]) -> None:
    model, tokenizer = tagger
    judge = MaskJudge(model, find_heads(model), find_task("pos"), make_sentences(10), tokenizer)
    masks = random_masks(model, 3)
    whole = judge.measure(masks).statistics
    parts = judge.measure(masks, [[1, 4], [], [9]]).statistics
    for each, some, only in zip(whole, parts, ([1, 4], [], [9]), strict=True):
        np.testing.assert_array_equal(some, each[only])
    assert judge.measure([]).statistics == ()


def test_perplexity_under_masks_has_the_same_contract() -> None:
    model, tokenizer = BY_NAME["gpt2"].build().eval(), tiny_tokenizer()
    texts = ["w1 w2 w3", "w4 w5", "w6 w7 w8 w9"]
    examples = [TextExample(str(number), text) for number, text in enumerate(texts)]
    task = LanguageTask(window=8)
    judge = MaskJudge(model, find_heads(model), task, examples, tokenizer)
    mask = HeadMask.without(find_heads(model), find_heads(model).players()[:2])
    [found] = judge.measure([mask]).statistics
    with gated(model, mask):
        expected = perplexity(model, texts, tokenizer, window=8)
        assert measure(model, task, examples, tokenizer).results[0].value == expected.value
    np.testing.assert_allclose(found, expected.statistics)
    assert float(judge.metric.value(found.sum(0))) == pytest.approx(expected.value)


def test_masks_of_another_model_are_refused(tagger: tuple[Any, Any]) -> None:
    model, tokenizer = tagger
    judge = MaskJudge(model, find_heads(model), find_task("pos"), make_sentences(2), tokenizer)
    with pytest.raises(HeadwiseError, match="the mask is for"):
        judge.measure([HeadMask.full(find_heads(BY_NAME["bert"].build(num_hidden_layers=1)))])


def test_a_model_of_an_unknown_family_is_evaluated(tagger: tuple[Any, Any]) -> None:
    class Unknown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 17)

        def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> Any:
            return SimpleNamespace(logits=self.table(input_ids) * attention_mask[..., None])

    task, examples = find_task("pos"), make_sentences(5)
    found = evaluate(Unknown(), task, examples, tagger[1])
    assert found.statistics[:, 1].tolist() == [len(example.words) for example in examples]


def test_batches_are_split_by_tokens_and_by_padding() -> None:
    lengths = np.array([100, *[50] * 40])
    assert next(split_batches(lengths, 1000)) == slice(0, 10)
    first, *_ = split_batches(lengths, 1000, most_padding=0.03, enough_tokens=300)
    assert first == slice(0, 3)
    assert list(split_batches(np.array([500, 3]), 100)) == [slice(0, 1), slice(1, 2)]
