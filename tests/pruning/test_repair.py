"""Least-squares repair: what redundant heads computed comes back, and no site gets worse."""

import copy
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headwise import HeadMask, HeadwiseError, find_heads, fold, load_pruned, save_pruned, shrink
from headwise.activations import TokenBatch
from headwise.heads import Site, effective_weight
from headwise.pruning import repair
from headwise.pruning.repair import repair_sites, undo_later
from tests.families import BY_NAME, Case, difference, inputs_for, no_trace_left, outputs_of, random_mask, uneven_mask
from tests.means import means_of, token_batch


def batches_of(case: Case, count: int = 4, rows: int = 6) -> list[TokenBatch]:
    """Batches with different examples."""
    found = []
    for number in range(count):
        batch = token_batch(case, inputs_for(case, rows=rows, seed=10 + number))
        found.append(TokenBatch(batch.inputs, batch.tokens, batch.examples + rows * number))
    return found


def with_a_copy(name: str) -> tuple[Any, HeadMask]:
    """A model whose head 3 of layer 1 computes what head 0 computes, and the mask without head 3."""
    model = BY_NAME[name].build()
    attention = model.encoder.layer[1].attention.self
    with torch.no_grad():
        for part in (attention.query, attention.key, attention.value):
            part.weight[24:32], part.bias[24:32] = part.weight[:8].clone(), part.bias[:8].clone()
    return model, HeadMask.without(find_heads(model), ["encoder.1.3"])


@pytest.mark.parametrize("act", [shrink, fold])
@torch.no_grad()
def test_a_redundant_head_is_made_up_for(act: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "_STRENGTHS", (1e-9, 1.0))
    case = BY_NAME["bert"]
    model, mask = with_a_copy("bert")
    inputs = inputs_for(case, seed=99)  # not among the examples of the repair
    expected = outputs_of(model, inputs)
    pruned = act(model, mask)
    assert difference(outputs_of(pruned, inputs), expected) > 1e-2
    [site] = repair_sites(pruned, model, lambda: batches_of(case, count=8))
    assert (site.site, site.strength) == ("encoder.1", 1e-9)
    assert site.after < 1e-6 * site.before
    assert difference(outputs_of(pruned, inputs), expected) < 1e-4


@torch.no_grad()
def test_the_fit_is_that_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly any penalty, against `numpy.linalg.lstsq`."""
    monkeypatch.setattr(repair, "_STRENGTHS", (1e-12,))
    case = BY_NAME["xlm-roberta"]
    model = case.build()
    pruned, batches = shrink(model, random_mask(find_heads(model), 2)), batches_of(case, count=8)
    repair_sites(pruned, model, lambda: batches)
    for whole, site in zip(find_heads(model).sites, find_heads(pruned).sites, strict=True):
        if len(site.heads) == len(whole.heads):
            continue
        inputs, targets = read(model, whole, batches)
        inputs = inputs.unflatten(1, (4, 8))[:, list(site.heads)].flatten(1)
        columns = np.concatenate([inputs.numpy(), np.ones((len(inputs), 1))], axis=1).astype(np.float64)
        expected, *_ = np.linalg.lstsq(columns, targets.double().numpy(), rcond=None)
        layer = pruned.get_submodule(site.output)
        np.testing.assert_allclose(layer.weight.T.numpy(), expected[:-1], atol=2e-3)
        np.testing.assert_allclose(layer.bias.numpy(), expected[-1], atol=2e-3)


@torch.no_grad()
def test_the_penalty_draws_to_the_original_weights() -> None:
    """Against the normal equations of the penalised problem, solved in plain numpy."""
    rng = np.random.default_rng(0)
    x, r = rng.normal(size=(40, 3)) + 1, rng.normal(size=(40, 2))
    sums = sums_of(3, 2, bias=True)
    sums.add(torch.from_numpy(x), torch.from_numpy(r), torch.arange(40) % 5)
    centred, about = x - x.mean(0), r - r.mean(0)
    for strength in (0.01, 1.0, 100.0):
        penalty = strength * np.linalg.eigvalsh(centred.T @ centred).mean()
        weights = np.linalg.solve(centred.T @ centred + penalty * np.eye(3), centred.T @ about)
        bias = r.mean(0) - x.mean(0) @ weights
        found = repair._Ridge(sums.total(), bias=True).change(strength)
        np.testing.assert_allclose(found.numpy(), np.concatenate([weights, bias[None]]), atol=1e-10)
        plain = ((r - x @ weights - bias) ** 2).sum()
        assert repair._error(sums.total(), found) == pytest.approx(plain)
    only_bias = repair._Ridge(sums.total(), bias=True).change(float("inf"))
    np.testing.assert_allclose(only_bias.numpy(), np.concatenate([np.zeros((3, 2)), r.mean(0)[None]]), atol=1e-12)


@pytest.mark.parametrize("act", [shrink, fold])
@torch.no_grad()
def test_no_site_of_any_family_gets_worse(case: Case, act: Any, tmp_path: Path) -> None:
    model, batches = case.build(), batches_of(case)
    mask = uneven_mask(find_heads(model), empty_layer=1)
    pruned, inputs = act(model, mask), inputs_for(case)
    names, before = set(pruned.state_dict()), outputs_of(pruned, inputs)
    with no_trace_left(model), no_trace_left(pruned):
        found = repair_sites(pruned, model, lambda: batches)
    assert found
    assert all(site.after <= site.before * (1 + 1e-9) for site in found)
    assert any(site.strength is not None for site in found)
    assert set(pruned.state_dict()) == names  # no new biases
    repaired = outputs_of(pruned, inputs)
    assert difference(repaired, before) > 1e-4
    if act is shrink:
        save_pruned(pruned, tmp_path)
        loaded = load_pruned(tmp_path)
    else:
        pruned.save_pretrained(tmp_path)
        loaded = type(model).from_pretrained(tmp_path).eval()
    assert difference(outputs_of(loaded, inputs), repaired) < 1e-5


@torch.no_grad()
def test_the_reported_errors_are_those_of_a_plain_loop(case: Case) -> None:
    model, batches = case.build(), batches_of(case)
    pruned = shrink(model, uneven_mask(find_heads(model), empty_layer=1))
    before = copy.deepcopy(pruned)
    found = {each.site: each for each in repair_sites(pruned, model, lambda: batches)}
    for whole, site in zip(find_heads(model).sites, find_heads(pruned).sites, strict=True):
        inputs, targets = read(model, whole, batches)
        inputs = inputs.unflatten(1, (len(whole.heads), -1))[:, list(site.heads)].flatten(1)
        for which, error in ((before, "before"), (pruned, "after")):
            layer = which.get_submodule(site.output)
            bias = torch.zeros(targets.shape[1]) if layer.bias is None else layer.bias
            given = inputs @ effective_weight(layer).T + bias
            expected = float((given - targets).double().square().sum(1).mean())
            if site.name in found:
                assert getattr(found[site.name], error) == pytest.approx(expected, rel=1e-3)
            else:
                assert not site.heads
                assert layer.bias is None


def test_sites_that_do_not_fit_into_memory_together_are_repaired_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    case = BY_NAME["xlm-roberta"]
    model, batches = case.build(), batches_of(case)
    once, often = (shrink(model, uneven_mask(find_heads(model), 1)) for _ in range(2))
    expected = repair_sites(once, model, lambda: batches)
    monkeypatch.setattr(repair, "_MEMORY", 1)
    assert repair_sites(often, model, lambda: batches) == expected
    assert all(torch.equal(one, other) for one, other in zip(once.parameters(), often.parameters(), strict=True))


@torch.no_grad()
def test_shrunk_and_folded_models_get_the_same_repair() -> None:
    for name in ("xlm-roberta", "mt5", "gpt2"):
        case = BY_NAME[name]
        model, batches, inputs = case.build(), batches_of(case), inputs_for(case)
        mask = random_mask(find_heads(model), 4, share=0.6)
        shrunk, folded = shrink(model, mask), fold(model, mask)
        for pruned in (shrunk, folded):
            repair_sites(pruned, model, functools.partial(list, batches))
        assert difference(outputs_of(shrunk, inputs), outputs_of(folded, inputs)) < 1e-4


@torch.no_grad()
def test_repair_starts_from_means_and_adapters_alike() -> None:
    peft = pytest.importorskip("peft")
    case = BY_NAME["bert"]
    config = peft.LoraConfig(r=2, target_modules=["query", "dense"], init_lora_weights=False)
    model, batches = peft.get_peft_model(case.build(), config).eval(), batches_of(case)
    mask = uneven_mask(find_heads(model), 1)
    outputs = []
    for baseline in (None, means_of(case, model)):
        pruned = shrink(model, mask, baseline=baseline)
        repair_sites(pruned, model, lambda: batches)
        outputs.append(outputs_of(pruned, inputs_for(case)))
    assert difference(*outputs) < 1e-4  # the bias has no penalty, so its start does not matter


@torch.no_grad()
def test_a_repair_can_be_undone() -> None:
    case = BY_NAME["llama"]
    model, batches = case.build(), batches_of(case)
    pruned = shrink(model, random_mask(find_heads(model), 1))
    before = {name: tensor.clone() for name, tensor in pruned.state_dict().items()}
    undo = undo_later(pruned)
    repair_sites(pruned, model, lambda: batches)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in pruned.state_dict().items())
    undo()
    assert all(torch.equal(tensor, before[name]) for name, tensor in pruned.state_dict().items())


def test_noise_is_not_fitted() -> None:
    """With residuals that no feature predicts, cross-validation prefers no change or only a tiny one."""
    sums = sums_of(30, 4, bias=False)
    draw = torch.Generator().manual_seed(0)
    x, r = torch.randn(60, 30, generator=draw), torch.randn(60, 4, generator=draw)
    sums.add(x, r, torch.arange(60) % 5)
    assert repair._choose_strength(sums) in (None, 10.0, float("inf"))


def test_wrong_models_and_too_few_examples_are_refused() -> None:
    case = BY_NAME["bert"]
    model = case.build()
    pruned = shrink(model, random_mask(find_heads(model), 1))
    with pytest.raises(HeadwiseError, match="nothing to repair"):
        repair_sites(model, model, lambda: batches_of(case))
    with pytest.raises(HeadwiseError, match="not a pruned copy"):
        repair_sites(pruned, BY_NAME["llama"].build(), lambda: batches_of(case))
    with pytest.raises(HeadwiseError, match="at least two examples"):
        repair_sites(pruned, model, lambda: batches_of(case, count=1, rows=1))


def sums_of(features: int, outputs: int, bias: bool) -> repair._Sums:
    """Empty sums of a site."""
    site, places = find_heads(BY_NAME["bert"].build()).sites[0], torch.arange(features)
    return repair._Sums(repair._Touched(site, places, places, outputs, bias), torch.device("cpu"))


def read(model: Any, site: Site, batches: list[TokenBatch]) -> tuple[Tensor, Tensor]:
    """Inputs and outputs of a site's projection at all tokens, by whole passes."""
    inputs, outputs = [], []
    for batch in batches:
        seen: list[tuple[Tensor, Tensor]] = []
        layer = model.get_submodule(site.output)
        handle = layer.register_forward_hook(lambda _module, args, output, seen=seen: seen.append((args[0], output)))
        model(**batch.inputs)
        handle.remove()
        tokens = batch.tokens[site.stack]
        inputs.append(seen[0][0][tokens])
        outputs.append(seen[0][1][tokens])
    return torch.cat(inputs), torch.cat(outputs)
