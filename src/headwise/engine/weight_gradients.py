"""Sizes of the gradients of each head's own parameters, example by example, from one backward pass per batch.

The gradient of a linear layer's weight on one example is the product of the gradient of its output and its input,
summed over tokens. Both are recorded while a batch runs, and each product is reduced to one number per head
immediately, so the gradients of all weights are never in memory at once.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.activations import evaluating, frozen
from headwise.engine.base import Gradients
from headwise.engine.batching import Pack
from headwise.engine.cost import EngineCost
from headwise.engine.jobs import require_finite
from headwise.engine.local import LocalEngine
from headwise.engine.memory import gradient_bytes
from headwise.errors import HeadwiseError
from headwise.games.generation import GenerationGame
from headwise.heads import Site, base_model, weight_shape
from headwise.pruning.slicing import head_features, projection_features

#: Units of an example: a forward pass, a backward pass, and at most one more for the gradients of weights.
WEIGHT_UNITS = 3.0
#: Maximum number of weight gradients that are computed at once: 64 MB. A larger matrix is computed for one example.
_MOST_NUMBERS = 2**24


@dataclass(frozen=True)
class _Layer:
    """A linear layer of a site.

    Attributes:
        path: Its module name.
        heads: The slice of the head players that its parameters belong to.
        shares: The share of each feature's parameters that belongs to each head of the site, (features, heads).
        is_output: Whether it is the output projection, whose features that belong to heads are inputs. For the other
            layers they are outputs.
        biased: Whether it has a bias that belongs to heads.
    """

    path: str
    heads: slice
    shares: Tensor
    is_output: bool
    biased: bool


def head_weight_gradients(engine: LocalEngine, index: NDArray[np.int64]) -> Gradients:
    """The sum of |gradient| over each player's own parameters, separately for each example, with all gates on.

    The parameters of a head are its rows of the query, key and value projections with their biases, and its columns of
    the output projection. Heads that share a key-value head have equal shares of its parameters, so every parameter is
    counted once. For a layer with LoRA adapters, the gradient is that of its merged weight.

    Args:
        engine: An engine whose game has a gradient and whose players consist of heads.
        index: The example of each row, (rows,).

    Returns:
        The values of rows, (rows,), the sums as `gradients`, (rows, players), and their cost: `WEIGHT_UNITS` per row.

    Raises:
        HeadwiseError: The game has no gradient, players are not heads, or a gradient is not a finite number.
    """
    _check(engine)
    base, device = base_model(engine.model), engine._device
    layers = [each for site, heads in engine.heads.spans() if site.heads for each in _layers(base, site, heads, device)]
    on = np.ones((len(index), len(engine.players)), dtype=bool)
    values, sizes, cost = torch.zeros(len(index)), torch.zeros(len(index), len(engine.players)), EngineCost()
    with evaluating(engine.model), frozen(engine.model):
        for pack in _packs(engine, on, index):
            start = time.perf_counter()
            measured, found, spent = _measure_pack(engine, pack, on, layers)
            values[pack.rows], sizes[pack.rows] = measured.cpu(), engine.players.collect({"heads": found}).cpu()
            cost += replace(_with_weights(spent), seconds=time.perf_counter() - start)
    for each in (values, sizes):
        require_finite(each, index, engine.settings.bfloat16)
    return Gradients(values, sizes, cost)


def _check(engine: LocalEngine) -> None:
    if isinstance(engine.game, GenerationGame) or not engine.game.differentiable:
        raise HeadwiseError(f"the game {engine.game.name!r} has no gradient: use 'probability' or 'log-likelihood'")
    if other := [kind for kind in engine.players.owners if kind != "heads"]:
        raise HeadwiseError(f"gradients of parameters are available for heads and kv groups, not for {other[0]}")


def _layers(base: Any, site: Site, heads: slice, device: torch.device) -> Iterator[_Layer]:
    """The linear layers of a site."""
    queries, width = range(len(site.heads)), site.head_width
    total = (len(site.heads), site.kv_heads)
    for projection in site.projections:
        module = base.get_submodule(projection.path)
        shares = torch.zeros(weight_shape(module)[0], len(site.heads))
        for head, key in zip(queries, site.kv_of, strict=True):
            shares[projection_features(projection, [head], [], total, width), head] = 1.0
            shares[projection_features(projection, [], [key], total, width), head] = 1 / site.kv_of.count(key)
        yield _Layer(projection.path, heads, shares.to(device), is_output=False, biased=_has_bias(module))
    shares = torch.zeros(len(site.heads) * width, len(site.heads))
    for head in queries:
        shares[head_features([head], width), head] = 1.0
    # The bias of the output projection belongs to no head.
    yield _Layer(site.output, heads, shares.to(device), is_output=True, biased=False)


def _has_bias(module: nn.Module) -> bool:
    return getattr(getattr(module, "base_layer", module), "bias", None) is not None


def _packs(engine: LocalEngine, on: NDArray[np.bool_], index: NDArray[np.int64]) -> Iterable[Pack]:
    """The batches; of one row each if projections are also applied to positions, which have no axis of rows."""
    if engine.heads.family.projects_positions:
        return [Pack(np.array([row]), index[[row]]) for row in range(len(index))]
    return engine.packs(on, index, gradient_bytes(engine.model, engine.heads))


def _measure_pack(
    engine: LocalEngine, pack: Pack, on: NDArray[np.bool_], layers: list[_Layer]
) -> tuple[Tensor, Tensor, EngineCost]:
    """The values of a batch, (rows,), the sums of each head, (rows, heads), and the cost without those of weights."""
    assert not isinstance(engine.game, GenerationGame)
    rows, gates = len(pack.rows), engine.players.gates(torch.from_numpy(on[pack.rows]))
    with _recording(base_model(engine.model), layers) as calls, engine._attending(pack):
        measured, spent = engine._measure(engine.game, pack, on, gates, share=False)
    outputs = [output for layer in layers for _, output in calls[layer.path]]
    found = iter(torch.autograd.grad(measured[:, 0].sum(), outputs))
    sizes = torch.zeros(rows, len(engine.heads.players()), device=measured.device)
    for layer in layers:
        # A projection that is called several times has one gradient, the sum over all calls.
        pairs = [(_by_row(inputs, rows), _by_row(next(found), rows)) for inputs, _ in calls[layer.path]]
        inputs, gradients = (torch.cat(each, dim=1).float() for each in zip(*pairs, strict=True))
        sizes[:, layer.heads] += _sizes(inputs, gradients, layer)
    return measured[:, 0].detach(), sizes, spent


@contextmanager
def _recording(base: nn.Module, layers: list[_Layer]) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
    """Record the inputs and outputs of layers by path, and make every output part of the graph of gradients."""
    calls: dict[str, list[tuple[Tensor, Tensor]]] = {layer.path: [] for layer in layers}
    with ExitStack() as stack:
        for path, found in calls.items():

            def record(_: nn.Module, args: Any, output: Tensor, found: list[tuple[Tensor, Tensor]] = found) -> None:
                found.append((args[0].detach(), output if output.requires_grad else output.requires_grad_()))

            stack.callback(base.get_submodule(path).register_forward_hook(record).remove)
        yield calls


def _by_row(tensor: Tensor, rows: int) -> Tensor:
    """A tensor as (rows, tokens, features)."""
    if rows == 1:
        return tensor.reshape(1, -1, tensor.shape[-1])
    if tensor.dim() != 3 or len(tensor) != rows:
        raise HeadwiseError(
            "gradients per example need a batch of shape (rows, tokens, features), but the model packs its rows into "
            "one, as flash attention does: load it with attn_implementation='sdpa'"
        )
    return tensor


def _sizes(inputs: Tensor, gradients: Tensor, layer: _Layer) -> Tensor:
    """Sums of |gradient| of a layer's parameters, (rows, heads).

    Args:
        inputs: The layer's input, (rows, tokens, inputs).
        gradients: Gradient of its output, (rows, tokens, outputs).
        layer: The layer.
    """
    at_once, found = max(1, _MOST_NUMBERS // (inputs.shape[2] * gradients.shape[2])), []
    for some, slopes in zip(inputs.split(at_once), gradients.split(at_once), strict=True):
        weights = torch.bmm(slopes.transpose(1, 2), some).abs_()  # (rows, outputs, inputs)
        features = weights.sum(1 if layer.is_output else 2)  # (rows, features)
        if layer.biased:
            features += slopes.sum(1).abs()
        found.append(features @ layer.shares)
    return torch.cat(found)


def _with_weights(cost: EngineCost) -> EngineCost:
    """The cost of a forward and a backward pass, with the gradients of weights as half as much again."""
    names = ("units", "layer_passes", "tokens", "padding", "flops")
    scaled = {name: getattr(cost, name) * WEIGHT_UNITS / 2 for name in names}
    return replace(cost, **{**scaled, "layer_passes": int(scaled["layer_passes"])})
