"""Evaluation of multiple choice computes a prompt once for all choices, with the numbers of one choice at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headwise import find_heads, gated, shrink
from headwise.data.examples import ChoiceExample
from headwise.engine.evaluation import measure
from headwise.soft_masks import SoftMask
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.metrics import Answers
from tests.engine.test_shared_tokens import READERS
from tests.families import BY_NAME, no_trace_left, uneven_mask
from tests.pieces import one_token_a_word
from tests.plain_choices import evaluate_choices, score_choices

WORDS = one_token_a_word()
#: All causal families and variants: those that read trees of tokens, and the others.
CAUSAL: dict[str, tuple[str, dict[str, Any]]] = {**READERS, "bloom": ("bloom", {}), "bert-causal": ("bert-causal", {})}
UNEVEN = [
    ChoiceExample("long", "w12 w13 w14 w15 w16 w17 w18", ("w9 w9", "w5 w6 w7", "w9 w9 w10 w11"), 1),
    ChoiceExample("one token each", "w20 w4 w7", ("w21", "w42", "w13", "w30"), 0),
    ChoiceExample("pair", "", ("w10 w4 w5 w6 w7 w8 w9", "w10 w4 w5 w6 w13 w8 w9"), 1),
    ChoiceExample("nothing shared", "", ("w12 w4", "w13 w4"), 0),
    ChoiceExample(  # as a tree, it has more tokens than the model has positions
        "large tree", " ".join(f"w{n}" for n in range(10, 40)), tuple(f"w{n} w9 w{n + 1} w8 w7 w6" for n in range(4)), 3
    ),
    ChoiceExample("two contexts", "", ("w9 w5", "w9 w5"), 1, contexts=("w33 w34", "w33 w38")),
]
#: A prompt of 8 tokens and four choices of 2 tokens, whose second token is predicted but not read.
EVEN = [
    ChoiceExample(
        str(n), " ".join(f"w{n + k}" for k in range(4, 12)), tuple(f"w{n + k} w9" for k in (20, 25, 30, 35)), 2
    )
    for n in range(6)
]


@dataclass(frozen=True)
class ScoreMetric:
    """The scores of the choices of an example, 0 for absent ones, instead of whether the best one is right."""

    name: str = "scores"
    size: int = 4

    def statistics(self, answers: Answers) -> Tensor:
        found = answers.logits.new_zeros(len(answers.logits), self.size)
        found[:, : answers.logits.shape[1]] = answers.logits.masked_fill(answers.logits == -torch.inf, 0)
        return found

    def value(self, totals: Any) -> Any:
        return totals.sum(-1)


class ScoredChoice(MultipleChoice):
    """Multiple choice whose evaluation shows the scores of all choices."""

    @property
    def metric(self) -> Any:
        return ScoreMetric()


@dataclass
class Work:
    """What a model computes.

    Attributes:
        tokens: Tokens that it reads, padding included.
        rows: Rows of its batches.
        counter: Counts floating-point operations.
    """

    tokens: int = 0
    rows: int = 0
    counter: FlopCounterMode = field(default_factory=lambda: FlopCounterMode(display=False))


@contextmanager
def counted(model: Any) -> Iterator[Work]:
    """Count the work of a model."""
    work = Work()

    def add(_module: Any, _args: Any, inputs: dict[str, Any]) -> None:
        work.rows += len(inputs["input_ids"])
        work.tokens += inputs["input_ids"].numel()
        assert inputs["use_cache"] is False

    handle = model.register_forward_pre_hook(add, with_kwargs=True)
    try:
        with work.counter:
            yield work
    finally:
        handle.remove()


def scores_of(found: Any) -> list[list[float]]:
    """The scores of each example, 0 for absent choices."""
    return [[*map(float, each), *[0.0] * (4 - len(each))] for each in found.scores]


@pytest.mark.parametrize("name", CAUSAL)
def test_the_numbers_are_those_of_one_choice_at_a_time(name: str) -> None:
    family, changes = CAUSAL[name]
    model = BY_NAME[family].build(**changes)
    heads, draw = find_heads(model), np.random.default_rng(0)
    soft = SoftMask.of(heads, draw.uniform(0, 1.5, len(heads.players())).tolist())
    for mask in (uneven_mask(heads), soft):
        with no_trace_left(model), gated(model, mask):
            for normalise in ("none", "bytes"):
                [found] = measure(model, ScoredChoice(normalise, window=40), UNEVEN, WORDS).results
                task = MultipleChoice(normalise, window=40)
                expected = score_choices(model, task, UNEVEN, WORDS)
                np.testing.assert_allclose(found.statistics, scores_of(expected), atol=1e-5)
                [result] = measure(model, task, UNEVEN, WORDS).results
                plain = evaluate_choices(model, task, UNEVEN, WORDS)
                assert (result.statistics.tolist(), result.value) == (plain.statistics.tolist(), plain.value)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_prompt_is_computed_once_for_all_choices(name: str) -> None:
    family, changes = CAUSAL[name]
    model, task = BY_NAME[family].build(**changes), MultipleChoice(window=40)
    with counted(model) as plain:
        expected = evaluate_choices(model, task, EVEN, WORDS)
    with counted(model) as shared:
        [found] = measure(model, task, EVEN, WORDS).results
    assert found.statistics.tolist() == expected.statistics.tolist()
    assert (plain.rows, plain.tokens) == (6 * 4, 6 * 4 * 9)
    flops = shared.counter.get_total_flops() / plain.counter.get_total_flops()
    if name in READERS:
        assert (shared.rows, shared.tokens) == (6, 6 * (8 + 4))
        assert 0.3 < flops < 0.35
    else:  # only the output layer computes less, where there is no label
        assert (shared.rows, shared.tokens) == (plain.rows, plain.tokens)
        assert 0.9 < flops < 1


def test_pruned_models_share_prompts() -> None:
    model, task = BY_NAME["llama"].build(), MultipleChoice(window=40)
    mask = uneven_mask(find_heads(model))
    with gated(model, mask):
        scores = scores_of(score_choices(model, task, EVEN, WORDS))
    small = shrink(model, mask)
    with counted(small) as work:
        [found] = measure(small, ScoredChoice(window=40), EVEN, WORDS).results
    assert work.tokens == 6 * (8 + 4)
    np.testing.assert_allclose(found.statistics, scores, atol=1e-5)


def test_models_of_unknown_families_read_one_choice_at_a_time() -> None:
    model, task = BY_NAME["llama"].build(), MultipleChoice(window=40)
    expected = scores_of(score_choices(model, task, EVEN, WORDS))
    model.config.model_type = "unknown"
    with counted(model) as work:
        [found] = measure(model, ScoredChoice(window=40), EVEN, WORDS).results
    assert (work.rows, work.tokens) == (6 * 4, 6 * 4 * 9)
    np.testing.assert_allclose(found.statistics, expected, atol=1e-5)
