"""Least-squares repair: refit the output projections of a pruned model so that its sites give the original outputs.

For each site that has lost heads, let x be the outputs of its remaining heads at a token of the original model, y the
output of the whole site at this token, and W and b the weights of the output projection of the pruned model. The repair
minimises, over the tokens of some examples,

    Σ ‖y - (W + D)·x - (b + d)‖² + λ·‖D‖²

in closed form. The penalty draws D to 0, so the weights stay close to the original ones; d has no penalty. Without a
bias only the weights are refitted. Only sums over tokens are kept: X·Xᵀ, X·Rᵀ and ‖R‖² of the residuals
r = y - W·x - b. The strength λ of each site is chosen by cross-validation over examples; no change at all is one of the
choices.

All sites are refitted on the activations of the original model, in one pass over the examples. To refit one site after
the other, on the activations of the repaired model below it, takes two passes per site and was not better on test data.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from headwise.activations import TokenBatch, evaluating
from headwise.errors import HeadwiseError
from headwise.heads import Site, base_model, effective_weight, find_heads, is_transposed
from headwise.pruning.slicing import has_bias, head_features

#: Strengths of the penalty, relative to the mean variance of a feature. An infinite strength changes only the bias.
_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, float("inf"))
_FOLDS = 5
#: Maximum number of bytes of sums; if the sites need more, they are refitted in several passes.
_MEMORY = 2**30
#: Gives the batches of all examples, from the beginning at each call.
Batches = Callable[[], Iterable[TokenBatch]]


@dataclass(frozen=True)
class SiteRepair:
    """The repair of one site.

    Attributes:
        site: Name of the site.
        strength: Strength of the penalty; None if cross-validation preferred no change.
        before: Mean squared difference from the original site's output, per token, before the repair.
        after: The same after the repair.
    """

    site: str
    strength: float | None
    before: float
    after: float


def repair_sites(pruned: nn.Module, original: nn.Module, batches: Batches) -> tuple[SiteRepair, ...]:
    """Refit the output projections of the sites that have lost heads, in place.

    Args:
        pruned: A model that `shrink` or `fold` has made of the original model.
        original: The original model.
        batches: Gives the batches of the examples.

    Returns:
        The repair of each site that has lost heads and still has heads or a bias.

    Raises:
        HeadwiseError: The pruned model has lost no heads, it is no pruned copy of the original model, or there are
            fewer than two examples.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise import HeadMask, shrink
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model, tokens = BertModel(config), torch.ones(2, 3, dtype=torch.bool)
        >>> inputs = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]])}
        >>> batch = TokenBatch(inputs, {"encoder": tokens}, torch.arange(2))
        >>> small = shrink(model, HeadMask.without(find_heads(model), ["encoder.0.1"]))
        >>> [repaired] = repair_sites(small, model, lambda: [batch])
        >>> repaired.site, repaired.after <= repaired.before
        ('encoder.0', True)
    """
    base, found = base_model(pruned), []
    with evaluating(original), torch.no_grad():
        for group in _grouped(_touched_sites(pruned, original)):
            for touched, sums in zip(group, _sum_sites(base, original, group, batches), strict=True):
                strength, total = _choose_strength(sums), sums.total()
                change = _Ridge(total, sums.bias).change(strength)
                errors = [_error(total, each) / sums.tokens for each in (torch.zeros_like(change), change)]
                found.append(SiteRepair(touched.site.name, strength, *errors))
                _apply(base.get_submodule(touched.site.output), touched.own, change, sums.bias)
    return tuple(found)


def undo_later(pruned: nn.Module) -> Callable[[], None]:
    """A function that restores the output projections of a model as they are now."""
    base, kept = base_model(pruned), []
    for site in find_heads(pruned).sites:
        layer = base.get_submodule(site.output)
        kept += [(weight, weight.detach().clone()) for weight in layer.parameters()]

    def undo() -> None:
        with torch.no_grad():
            for weight, before in kept:
                weight.copy_(before)

    return undo


@dataclass(frozen=True)
class _Touched:
    """A site that has lost heads.

    Attributes:
        site: The site of the pruned model.
        own: The features of the remaining heads in the input of its output projection.
        source: The same features in the original model.
        outputs: Number of outputs of the projection.
        bias: Whether it has a bias.
    """

    site: Site
    own: Tensor
    source: Tensor
    outputs: int
    bias: bool

    @property
    def features(self) -> int:
        """Number of features, with the constant feature of a bias."""
        return len(self.own) + self.bias


def _touched_sites(pruned: nn.Module, original: nn.Module) -> list[_Touched]:
    """The sites that have lost heads and still have something to refit: heads or a bias."""
    base, heads, whole = base_model(pruned), find_heads(pruned), find_heads(original)
    before = {site.name: site for site in whole.sites}
    if heads.family != whole.family or not set(heads.players()) <= set(whole.players()):
        raise HeadwiseError(f"{heads.model} is not a pruned copy of {whole.model}: give the model that was pruned")
    found = []
    for site in heads.sites:
        layer = base.get_submodule(site.output)
        weight = effective_weight(layer)
        columns = weight.T.reshape(len(site.heads), site.head_width, len(weight))
        alive = [place for place, each in enumerate(columns) if each.any()]  # heads that were folded away have zeros
        if len(alive) < len(before[site.name].heads):
            places = [before[site.name].heads.index(site.heads[place]) for place in alive]
            own, source = head_features(alive, site.head_width), head_features(places, site.head_width)
            found.append(_Touched(site, own, source, len(weight), has_bias(layer)))
    if not found:
        raise HeadwiseError("the pruned model has all heads of the original model: there is nothing to repair")
    return [each for each in found if each.features]


def _grouped(sites: list[_Touched]) -> Iterator[list[_Touched]]:
    """Groups of sites whose sums fit into memory together."""
    group: list[_Touched] = []
    size = 0
    for each in sites:
        own = 8 * _FOLDS * each.features * (each.features + each.outputs)
        if group and size + own > _MEMORY:
            yield group
            group, size = [], 0
        group.append(each)
        size += own
    if group:
        yield group


class _Sums:
    """Sums over the tokens of each fold of examples, in double precision.

    Attributes:
        bias: Whether the projection has a bias: the last feature is then 1 at every token.
        gram: Products of the features, (folds, features, features).
        cross: Products of features and residuals, (folds, features, outputs).
        square: Squared norm of the residuals, (folds,).
        tokens: Number of tokens.
    """

    def __init__(self, touched: _Touched, device: torch.device) -> None:
        self.bias, self.tokens, features = touched.bias, 0, touched.features
        self.gram = torch.zeros(_FOLDS, features, features, dtype=torch.double, device=device)
        self.cross = torch.zeros(_FOLDS, features, touched.outputs, dtype=torch.double, device=device)
        self.square = torch.zeros(_FOLDS, dtype=torch.double, device=device)
        self.filled: set[int] = set()

    def add(self, features: Tensor, residuals: Tensor, folds: Tensor) -> None:
        """Add tokens: their features, (tokens, features), residuals, (tokens, outputs), and folds, (tokens,)."""
        if self.bias:
            features = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
        self.tokens += len(features)
        for fold in folds.unique().tolist():
            chosen = (folds == fold).to(features.device)
            x, r = features[chosen].double(), residuals[chosen].double()
            self.gram[fold] += x.T @ x
            self.cross[fold] += x.T @ r
            self.square[fold] += r.square().sum()
            self.filled.add(fold)

    def total(self, without: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The sums over all folds, or over all but one."""
        parts = (self.gram, self.cross, self.square)
        gram, cross, square = (part.sum(0) - (0 if without is None else part[without]) for part in parts)
        return gram, cross, square

    def fold(self, number: int) -> tuple[Tensor, Tensor, Tensor]:
        """The sums of one fold."""
        return self.gram[number], self.cross[number], self.square[number]


def _sum_sites(base: Any, original: nn.Module, sites: list[_Touched], batches: Batches) -> list[_Sums]:
    """Run the original model on all batches, and sum the features and residuals of sites."""
    current: list[TokenBatch] = []

    def adding(touched: _Touched, sums: _Sums) -> Callable[..., None]:
        layer, stack = base.get_submodule(touched.site.output), touched.site.stack
        weight, bias = effective_weight(layer)[:, touched.own].float(), _plain(layer).bias

        def add(_module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            inputs, target = (current[0].select(each, stack).float() for each in (args[0], output))
            inputs = inputs[:, touched.source.to(inputs.device)]
            found = nn.functional.linear(inputs, weight, bias if bias is None else bias.float())
            sums.add(inputs, target - found, current[0].examples_of(stack) % _FOLDS)

        return add

    found = [_Sums(each, effective_weight(base.get_submodule(each.site.output)).device) for each in sites]
    with ExitStack() as stack:
        for touched, sums in zip(sites, found, strict=True):
            module = base_model(original).get_submodule(touched.site.output)
            stack.callback(module.register_forward_hook(adding(touched, sums)).remove)
        for batch in batches():
            current[:] = [batch]
            original(**batch.inputs)
    return found


def _choose_strength(sums: _Sums) -> float | None:
    """The strength with the lowest error on held-out examples; None if no change has a lower one."""
    if len(sums.filled) < 2:
        raise HeadwiseError("repair needs at least two examples: give more data")
    errors: dict[float | None, float] = dict.fromkeys((None, *_STRENGTHS), 0.0)
    for fold in sorted(sums.filled):
        ridge, held = _Ridge(sums.total(without=fold), sums.bias), sums.fold(fold)
        for strength in errors:
            errors[strength] += _error(held, ridge.change(strength))
    return min(errors, key=lambda strength: errors[strength])


class _Ridge:
    """The changes that minimise the penalised error, for all strengths, by one eigendecomposition.

    Args:
        sums: Sums over tokens.
        bias: Whether the last feature is 1 at every token; it has no penalty.
    """

    def __init__(self, sums: tuple[Tensor, Tensor, Tensor], bias: bool) -> None:
        gram, cross, _ = sums
        self.bias, self.shape = bias, cross
        if bias:  # centre the features and the residuals
            tokens = gram[-1, -1]
            self.mean, self.residual = gram[-1, :-1] / tokens, cross[-1] / tokens
            gram = gram[:-1, :-1] - tokens * torch.outer(self.mean, self.mean)
            cross = cross[:-1] - tokens * torch.outer(self.mean, self.residual)
        self.values, self.vectors = torch.linalg.eigh(gram)
        self.values = self.values.clamp(min=0)
        self.turned = self.vectors.T @ cross

    def change(self, strength: float | None) -> Tensor:
        """The change of the weights, (features, outputs), with that of the bias in the last row."""
        if strength is None:
            return torch.zeros_like(self.shape)
        penalty = strength * max(float(self.values.mean()), 1e-12) if len(self.values) else strength
        weights = self.vectors @ (self.turned / (self.values + penalty)[:, None])
        return torch.cat([weights, (self.residual - self.mean @ weights)[None]]) if self.bias else weights


def _error(sums: tuple[Tensor, Tensor, Tensor], change: Tensor) -> float:
    """The summed squared error after a change D: Σ‖r - Dᵀx‖² = ‖R‖² - 2·tr(Dᵀ·X·Rᵀ) + tr(Dᵀ·X·Xᵀ·D)."""
    gram, cross, square = sums
    return float(square - 2 * (change * cross).sum() + (change * (gram @ change)).sum())


def _apply(layer: nn.Module, kept: Tensor, change: Tensor, bias: bool) -> None:
    """Add a change, (features, outputs), to the weights of the kept features and to the bias, in place."""
    part = _plain(layer)
    weights = change[:-1] if bias else change
    if is_transposed(part):
        part.weight.index_add_(0, kept.to(part.weight.device), weights.to(part.weight))
    else:
        part.weight.index_add_(1, kept.to(part.weight.device), weights.T.to(part.weight))
    if bias:
        part.bias.add_(change[-1].to(part.bias))


def _plain(layer: nn.Module) -> Any:
    """The layer itself, or the layer inside a LoRA layer."""
    return cast(Any, getattr(layer, "base_layer", layer))
