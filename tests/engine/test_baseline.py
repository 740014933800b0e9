"""The engine under mean ablation: every way of working gives what one plain pass per row gives."""

from functools import partial

import numpy as np
import pytest
import torch

from headwise import HeadwiseError, find_heads
from headwise.engine import EngineSettings, LocalEngine, kv_groups, mean_outputs, players_of
from headwise.games import LikelihoodGame, generation_game
from headwise.heads import PlayerKind
from headwise.tasks.text_metrics import ChrF
from tests.engine.worlds import (
    ANSWERING,
    make_engine,
    make_examples,
    plain_statistics,
    plain_values,
    random_rows,
    tiny_tokenizer,
)
from tests.families import BY_NAME, ON_V4, Case

assert_close = partial(torch.testing.assert_close, atol=1e-5, rtol=1e-5)
KINDS = ("xlm-roberta", "llama", "mt5")


def mean_engine(
    case: Case, kind: PlayerKind = "heads", settings: EngineSettings | None = None, double: bool = False
) -> LocalEngine:
    """An engine with the mean outputs over its own examples as the baseline."""
    model = case.build().double() if double else case.build()
    heads, examples = find_heads(model), make_examples(case, model)
    means = mean_outputs(model, heads, examples)
    return LocalEngine(model, heads, LikelihoodGame(), examples, players_of(heads, kind), settings, means)


@pytest.mark.parametrize("kind", ["heads", "ffn"])
@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_values_equal_one_plain_pass_per_row(case: Case, kind: PlayerKind) -> None:
    engine = mean_engine(case, kind)
    masks, index = random_rows(engine, 16)
    found = engine.values(masks, index).values
    assert_close(found, plain_values(engine, masks, index))
    zero = make_engine(case, players=engine.players, model=engine.model)
    assert not torch.allclose(found, zero.values(masks, index).values, atol=1e-3)


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_gradients_equal_those_of_one_plain_pass_per_row(case: Case) -> None:
    if ON_V4 and case.name == "bert-causal":
        pytest.skip("transformers 4.57 makes its causal mask in single precision, where the least double overflows")
    engine = mean_engine(case, double=True)
    masks, index = random_rows(engine, 4)
    found = engine.gradients(masks, index)
    for row, (mask, example) in enumerate(zip(masks, index, strict=True)):
        gates = torch.tensor(mask, dtype=torch.float32, requires_grad=True)
        (expected,) = torch.autograd.grad(plain_statistics(engine, gates, int(example))[0], gates)
        assert_close(found.gradients[row], expected)


@pytest.mark.parametrize("name", KINDS)
def test_real_gates_and_small_batches(name: str) -> None:
    engine = mean_engine(BY_NAME[name], settings=EngineSettings(token_budget=20))
    masks, index = random_rows(engine, 12)
    gates = np.random.default_rng(0).random(masks.shape).astype(np.float32)
    assert_close(engine.values(gates, index).values, plain_values(engine, gates, index))


def test_heads_that_share_keys_can_be_one_player() -> None:
    case = BY_NAME["llama"]
    model = case.build()
    heads, examples = find_heads(model), make_examples(case, model)
    means = mean_outputs(model, heads, examples)
    engine = LocalEngine(model, heads, LikelihoodGame(), examples, kv_groups(heads), baseline=means)
    masks, index = random_rows(engine, 12)
    assert_close(engine.values(masks, index).values, plain_values(engine, masks, index))


@pytest.mark.parametrize("name", KINDS)
def test_heads_that_are_not_computed_leave_their_mean(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = mean_engine(BY_NAME[name])
    masks, index = random_rows(engine, 12)
    masks[:, [0, 3, 5]] = False
    masks[:, : len(engine.heads.sites[0].heads)] = False  # a whole site
    monkeypatch.setattr("headwise.engine.local.WORTH_A_COPY", 0.0)
    narrowed = engine.values(masks, index)
    assert_close(narrowed.values, plain_values(engine, masks, index))
    assert engine._narrower is not None


def test_generated_texts_use_the_means() -> None:
    case = BY_NAME["marian"]
    references = tuple(f"w{i} w{i + 1} w{i + 2}" for i in range(5))
    game = generation_game(ChrF(), tiny_tokenizer(), references)
    means = mean_engine(case).baseline
    model = case.build()
    zero = make_engine(case, game, model=model)
    mean = LocalEngine(model, None, game, zero.examples, baseline=means)
    masks, index = random_rows(zero, 8)
    assert not torch.equal(zero.values(masks, index).values, mean.values(masks, index).values)
    everything = np.ones_like(masks)
    assert torch.equal(zero.values(everything, index).values, mean.values(everything, index).values)


def test_layers_and_means_of_other_models_are_refused() -> None:
    case = BY_NAME["xlm-roberta"]
    with pytest.raises(HeadwiseError, match="no mean output"):
        mean_engine(case, "layers")
    means = mean_engine(case).baseline
    other = case.build(seed=1)
    with pytest.raises(HeadwiseError, match="compute the means again"):
        LocalEngine(other, None, LikelihoodGame(), make_examples(case, other), baseline=means)
