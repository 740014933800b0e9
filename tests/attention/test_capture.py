"""Attention weights while a model runs: those that transformers returns, for every family, and no trace afterwards."""

import weakref
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AttentionInterface

from headwise import HeadwiseError, find_heads, gated, shrink
from headwise.attention import attention_weights, capture_attention
from headwise.heads import Site
from tests.families import BY_NAME, CASES, ON_V4, Case, difference, inputs_for, no_trace_left, outputs_of, uneven_mask

#: The families that compute their attention themselves, without a fused implementation.
ALWAYS_EAGER = ("deberta-v2", "deberta-v2-shared", "bloom", *(("t5", "t5-encoder", "mt5", "electra") if ON_V4 else ()))


class Kept(dict[str, Tensor]):
    """A callback that keeps the weights of every site."""

    def __call__(self, site: Site, weights: Tensor) -> None:
        assert site.name not in self, "a site is reported once in a pass"
        assert not weights.requires_grad
        self[site.name] = weights


def build(case: Case, implementation: str) -> Any:
    """The case's model with an attention implementation, and the same weights for each."""
    return case.build(attn_implementation=implementation)


def captured(model: Any, inputs: dict[str, Tensor]) -> Kept:
    kept = Kept()
    with torch.no_grad(), capture_attention(model, kept):
        model(**inputs)
    return kept


def returned(case: Case, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that transformers returns with `output_attentions=True` and eager attention, by site."""
    model = build(case, "eager")
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    stacks = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    found = {}
    for site in find_heads(model).sites:
        maps = output.get(stacks[site.stack]) if case.seq2seq else output.attentions
        found[site.name] = maps[site.layer]
    return found


def real_queries(site: Site, inputs: dict[str, Tensor], case: Case) -> Tensor:
    """1 for queries that are tokens, 0 for padding, (batch, 1, queries, 1)."""
    of_decoder = case.seq2seq and site.stack != "encoder"
    real = torch.ones_like(inputs["decoder_input_ids"]) if of_decoder else inputs["attention_mask"]
    return real[:, None, :, None]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_weights_are_those_that_transformers_returns(case: Case, implementation: str) -> None:
    if implementation == "sdpa" and (case.name in ALWAYS_EAGER or case.name == "gemma2"):
        pytest.skip("no sdpa attention, or one without the soft cap")
    inputs = inputs_for(case)
    model = build(case, implementation)
    assert model.config._attn_implementation == implementation
    found, expected = captured(model, inputs), returned(case, inputs)
    sites = find_heads(model).sites
    assert set(found) == set(expected) == {site.name for site in sites}
    for site in sites:
        real = real_queries(site, inputs, case)
        assert found[site.name].shape[1] == len(site.heads)
        assert difference(found[site.name] * real, expected[site.name] * real) < 1e-5


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_are_unchanged_weights_sum_to_one_and_nothing_is_left(case: Case) -> None:
    inputs, model = inputs_for(case), case.build()
    used = model.config._attn_implementation
    with torch.no_grad():
        before = outputs_of(model, inputs)
    kept = Kept()
    with no_trace_left(model), torch.no_grad(), capture_attention(model, kept):
        inside = outputs_of(model, inputs)
    with torch.no_grad():
        after = outputs_of(model, inputs)
    assert torch.equal(inside, before)
    assert torch.equal(after, before)
    assert model.config._attn_implementation == used
    for site in find_heads(model).sites:
        weights = kept[site.name]
        keys = inputs["attention_mask"]
        seen = weights * keys[:, None, None] if weights.shape[-1] == keys.shape[1] else weights
        real = real_queries(site, inputs, case)[:, 0, :, 0] > 0  # (batch, queries)
        sums = seen.sum(-1).transpose(1, 2)[real]
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)
    count = len(kept)
    with torch.no_grad():
        model(**inputs)
    assert len(kept) == count


def test_only_one_site_is_in_memory_at_a_time() -> None:
    case = BY_NAME["xlm-roberta"]
    alive: list[Any] = []

    def callback(_site: Site, weights: Tensor) -> None:
        assert all(each() is None for each in alive)
        alive.append(weakref.ref(weights))

    model = case.build()
    with torch.no_grad(), capture_attention(model, callback):
        model(**inputs_for(case))
    assert len(alive) == 3


def test_a_cap_of_the_scores_is_included() -> None:
    case = BY_NAME["gemma2"]
    inputs = inputs_for(case)
    capped = case.build(attn_implementation="eager", attn_logit_softcapping=0.1)
    with torch.no_grad():
        expected = capped(**inputs, output_attentions=True).attentions
    found = captured(capped, inputs)
    for layer, weights in enumerate(expected):
        assert difference(found[f"decoder.{layer}"][:2], weights[:2]) < 1e-6
    free = captured(case.build(attn_implementation="eager", attn_logit_softcapping=None), inputs)
    assert difference(found["decoder.0"], free["decoder.0"]) > 1e-2


def test_windows_are_included() -> None:
    found = captured(BY_NAME["gemma3"].build(), inputs_for(BY_NAME["gemma3"]))
    assert any((weights[0, :, -1, 0] == 0).all() for weights in found.values())


@pytest.mark.parametrize("name", ["xlm-roberta", "marian", "llama", "gpt2"])
def test_gates_and_capture_combine_in_any_order(name: str) -> None:
    case = BY_NAME[name]
    inputs, model = inputs_for(case), case.build()
    mask = uneven_mask(find_heads(model))
    with torch.no_grad(), gated(model, mask):
        expected = outputs_of(model, inputs)
    inner, outer = Kept(), Kept()
    with torch.no_grad(), gated(model, mask), capture_attention(model, inner):
        first = outputs_of(model, inputs)
    with torch.no_grad(), capture_attention(model, outer), gated(model, mask):
        second = outputs_of(model, inputs)
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)
    plain, last = captured(model, inputs), find_heads(model).sites[-1].name
    assert all(torch.equal(inner[site], outer[site]) for site in plain)
    assert difference(inner[last], plain[last]) > 1e-4  # gates of lower layers change what higher layers see


@pytest.mark.parametrize("name", ["xlm-roberta", "t5", "llama", "bloom", "gpt2", "modernbert"])
def test_pruned_models_report_the_heads_that_are_left(name: str) -> None:
    case = BY_NAME[name]
    inputs, model = inputs_for(case), case.build()
    mask = uneven_mask(find_heads(model))
    kept = Kept()
    with torch.no_grad(), gated(model, mask), capture_attention(model, kept):
        model(**inputs)
    small = shrink(model, mask)
    found = captured(small, inputs)
    for site in find_heads(small).sites:
        if site.heads:
            assert difference(found[site.name][:2], kept[site.name][:2, list(site.heads)]) < 1e-5
        else:
            assert site.name not in found


def test_gradients_flow_as_without_capture() -> None:
    case = BY_NAME["xlm-roberta"]
    model, inputs, kept = case.build(), inputs_for(case), Kept()
    with capture_attention(model, kept):
        (inside,) = torch.autograd.grad(model(**inputs).logits.sum(), [next(model.parameters())])
    (outside,) = torch.autograd.grad(model(**inputs).logits.sum(), [next(model.parameters())])
    assert torch.equal(inside, outside)


def test_nothing_is_left_after_an_error_and_the_context_goes_on() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)

    def fail(site: Site, _weights: Tensor) -> None:
        raise RuntimeError(site.name)

    with no_trace_left(model), pytest.raises(RuntimeError, match=r"encoder\.0"), capture_attention(model, fail):
        model(**inputs)
    kept = Kept()
    with torch.no_grad(), capture_attention(model, kept):
        with pytest.raises((IndexError, RuntimeError)):
            model(input_ids=torch.tensor([[10_000]]))
        model(**inputs)
    assert len(kept) == 3
    assert functional.softmax(torch.zeros(2), dim=0).tolist() == [0.5, 0.5]


def test_some_sites_only() -> None:
    case = BY_NAME["marian"]
    model, kept = case.build(), Kept()
    heads = find_heads(model)
    cross = replace(heads, sites=tuple(site for site in heads.sites if site.stack == "cross"))
    with torch.no_grad(), capture_attention(model, kept, cross):
        model(**inputs_for(case))
    assert list(kept) == ["cross.0", "cross.1", "cross.2"]


def test_an_implementation_without_weights_is_refused_in_one_sentence() -> None:
    def opaque(_module: Any, query: Tensor, _key: Any, _value: Any, _mask: Any, **_options: Any) -> tuple[Tensor, None]:
        return query.transpose(1, 2).contiguous(), None

    AttentionInterface.register("opaque", opaque)
    model = BY_NAME["llama"].build()
    model.config._attn_implementation = "opaque"
    says = r"weights of decoder\.0 cannot be captured from LlamaAttention with attn_implementation='opaque': load"
    with no_trace_left(model), pytest.raises(HeadwiseError, match=says), capture_attention(model, Kept()):
        model(input_ids=torch.tensor([[5, 6]]))


def test_a_compiled_model_is_refused() -> None:
    model = BY_NAME["bert"].build()
    model.compile()
    with pytest.raises(HeadwiseError, match="before compiling"), capture_attention(model, Kept()):
        pass


@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "additive"])
@pytest.mark.parametrize("grouped", [False, True])
def test_weights_of_fused_attention_are_those_it_uses(mask: str, grouped: bool) -> None:
    torch.manual_seed(0)
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 2 if grouped else 4, 5, 8)
    options: dict[str, Any] = {"scale": 0.7, "enable_gqa": grouped}
    if mask == "causal":
        options["is_causal"] = True
    elif mask == "boolean":
        options["attn_mask"] = torch.rand(2, 1, 5, 5) < 0.7
        options["attn_mask"][..., 0] = True
    elif mask == "additive":
        options["attn_mask"] = torch.randn(2, 4, 5, 5)
    one_hot = torch.eye(5).expand(2, key.shape[1], 5, 5)  # values of which the output is the weights themselves
    used = functional.scaled_dot_product_attention(query, key, one_hot, **options)
    torch.testing.assert_close(attention_weights(query, key, one_hot, **options), used, rtol=0, atol=1e-6)
