"""Gradients of heads' own parameters, against autograd on one example and one head at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor

from headwise import HeadwiseError
from headwise.engine import EngineSettings, LocalEngine, kv_groups, players_of
from headwise.engine.weight_gradients import WEIGHT_UNITS, head_weight_gradients
from headwise.games import AccuracyGame
from headwise.heads import Site, base_model
from tests.engine.worlds import ANSWERING, make_engine, plain_statistics
from tests.families import BY_NAME, Case, enliven, no_trace_left


def own_rows(gradient: Any, parts: str, layout: str, part: str, head: int, site: Site) -> Any:
    """The rows of one head in the gradient of a projection, (outputs, …), by reshaping it to heads."""
    width, queries, keys = site.head_width, len(site.heads), site.kv_heads
    if layout == "interleaved":
        return gradient.reshape(queries, len(parts), width, *gradient.shape[1:])[head, parts.index(part)]
    counts = [queries if each == "q" else keys for each in parts]
    blocks = dict(zip(parts, gradient.split([count * width for count in counts]), strict=True))
    return blocks[part].reshape(-1, width, *gradient.shape[1:])[head]


def gradients_of(module: Any) -> tuple[Tensor, Tensor | None]:
    """The gradients of a layer's weight as (outputs, inputs), and of its bias."""
    weight = module.weight.grad.T if type(module).__name__ == "Conv1D" else module.weight.grad
    return weight, None if module.bias is None else module.bias.grad


def size_of_head(base: Any, site: Site, head: int) -> float:
    """The sum of |gradient| over the parameters of one head after a backward pass."""
    total, group = 0.0, site.kv_of.count(site.kv_of[head])
    for projection in site.projections:
        for part in projection.parts:
            mine, share = (head, 1) if part == "q" else (site.kv_of[head], group)
            for gradient in gradients_of(base.get_submodule(projection.path)):
                if gradient is not None:
                    rows = own_rows(gradient, projection.parts, projection.layout, part, mine, site)
                    total += float(rows.abs().sum()) / share
    weight, _ = gradients_of(base.get_submodule(site.output))
    return total + float(weight[:, head * site.head_width : (head + 1) * site.head_width].abs().sum())


def plain_sizes(engine: LocalEngine, example: int) -> list[float]:
    """The sizes of all heads, one head at a time, from one backward pass of one example, (heads,)."""
    base = base_model(engine.model)
    for weight in base.parameters():
        weight.requires_grad_(True)
    engine.model.zero_grad()
    plain_statistics(engine, np.ones(len(engine.players), dtype=bool), example)[0].backward()
    return [size_of_head(base, site, head) for site in engine.heads.sites for head in range(len(site.heads))]


_DEBERTA = BY_NAME["deberta-v2"]
#: Its projections are called twice: on hidden states, and on embeddings of relative positions.
SHARED = replace(_DEBERTA, name="deberta-v2-shared", config={**_DEBERTA.config, "share_att_key": True})


@pytest.mark.parametrize("case", [*ANSWERING, SHARED], ids=lambda case: case.name)
def test_sizes_equal_a_loop_over_examples_and_heads(case: Case) -> None:
    engine = make_engine(case)
    index = np.array([3, 0, 4, 1, 0])
    found = head_weight_gradients(engine, index)
    expected = np.array([plain_sizes(engine, example) for example in range(5)])[index]
    np.testing.assert_allclose(found.gradients.numpy(), expected, rtol=2e-4, atol=1e-5 * expected.max())
    assert found.cost.units == pytest.approx(WEIGHT_UNITS * len(index))
    assert found.cost.rows == len(index)


@pytest.mark.parametrize("settings", [EngineSettings(token_budget=1), EngineSettings(memory_limit=50_000)])
def test_the_size_of_batches_does_not_matter(settings: EngineSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    index = np.arange(5)
    expected = head_weight_gradients(make_engine(BY_NAME["llama"]), index)
    monkeypatch.setattr("headwise.engine.weight_gradients._MOST_NUMBERS", 1)
    found = head_weight_gradients(make_engine(BY_NAME["llama"], settings=settings), index)
    torch.testing.assert_close(found.gradients, expected.gradients, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.values, expected.values)


def test_a_key_value_group_has_all_the_parameters_of_its_heads() -> None:
    engine = make_engine(BY_NAME["llama"])
    grouped = make_engine(BY_NAME["llama"], players=kv_groups(engine.heads), model=engine.model)
    heads = head_weight_gradients(engine, np.arange(5)).gradients  # (examples, 3 layers of 4 heads in 2 groups)
    groups = head_weight_gradients(grouped, np.arange(5)).gradients
    torch.testing.assert_close(groups, heads.reshape(5, 6, 2).sum(2))


@pytest.mark.parametrize("name", ["xlm-roberta", "gpt2", "llama"])
def test_adapters_count_as_if_they_were_merged(name: str) -> None:
    targets = {"xlm-roberta": ["query", "attention.output.dense"], "gpt2": ["c_attn"], "llama": ["k_proj", "o_proj"]}
    model = get_peft_model(BY_NAME[name].build(), LoraConfig(r=4, target_modules=targets[name]))
    enliven(model)
    found = head_weight_gradients(make_engine(BY_NAME[name], model=model.eval()), np.arange(5))
    merged = make_engine(BY_NAME[name], model=model.merge_and_unload().eval())
    expected = head_weight_gradients(merged, np.arange(5))
    torch.testing.assert_close(found.gradients, expected.gradients, rtol=1e-3, atol=1e-5)


def test_nothing_is_left_on_the_model() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    engine.model.train()
    wanted = {name: each.requires_grad for name, each in engine.model.named_parameters()}
    with no_trace_left(engine.model):
        head_weight_gradients(engine, np.arange(5))
    assert {name: each.requires_grad for name, each in engine.model.named_parameters()} == wanted
    assert all(each.grad is None for each in engine.model.parameters())
    assert engine.model.training


def test_what_has_no_gradient_is_refused() -> None:
    engine = make_engine(BY_NAME["bert-causal"], AccuracyGame())
    with pytest.raises(HeadwiseError, match="'accuracy' has no gradient"):
        head_weight_gradients(engine, np.arange(2))
    blocks = make_engine(BY_NAME["bert-causal"], players=players_of(engine.heads, "ffn"))
    with pytest.raises(HeadwiseError, match="heads and kv groups, not for ffn"):
        head_weight_gradients(blocks, np.arange(2))
