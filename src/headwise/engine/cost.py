"""What work costs, counted and not timed: layer passes, tokens, floating-point operations."""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headwise.heads import HeadMap, base_model, is_transposed, weight_shape

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class EngineCost:
    """What an engine has done for an answer.

    Attributes:
        rows: Rows valued.
        units: Passes of one example through the whole model: layer passes divided by layers. A gradient is two: its
            backward pass costs as much as its forward pass, since weights need none.
        examples: Examples embedded.
        layer_passes: Passes of one example through one layer.
        tokens: Tokens that went through layers, divided by layers.
        padding: Padding that went with them, in the same measure.
        flops: Floating-point operations on tokens, padding left out.
        seconds: Time in the model.

    Example:
        >>> (EngineCost(rows=2, units=1.5) + EngineCost(rows=1, units=1.0)).units
        2.5
    """

    rows: int = 0
    units: float = 0.0
    examples: int = 0
    layer_passes: int = 0
    tokens: float = 0.0
    padding: float = 0.0
    flops: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: "EngineCost") -> "EngineCost":
        return EngineCost(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    @property
    def padding_share(self) -> float:
        """Share of the tokens that went through layers that were padding."""
        return self.padding / max(1e-9, self.tokens + self.padding)


@dataclass(frozen=True)
class LayerWork:
    """What one layer does for a token.

    Attributes:
        decoder: Whether it runs on the decoder's tokens.
        weights: Weights that each of its own tokens meets.
        source_weights: Weights that each token of the encoder meets (keys and values of cross-attention).
        width: Features of its self-attention, over all heads.
        cross_width: Features of its cross-attention.
    """

    decoder: bool
    weights: int
    source_weights: int
    width: int
    cross_width: int

    def flops(self, own: Lengths, source: Lengths) -> float:
        """Operations for sequences with these numbers of tokens, each with a source of its own number."""
        own, source = own.astype(np.float64), source.astype(np.float64)
        linear = 2 * (self.weights * own + self.source_weights * source)
        attention = 4 * (self.width * own * own + self.cross_width * own * source)
        return float((linear + attention).sum())


def work_of(model: Any, heads: HeadMap) -> tuple[LayerWork, ...]:
    """What each layer of a model does, in the order in which layers run."""
    base = base_model(model)
    found = []
    for layer in heads.layers:
        sites = {
            site.stack: site
            for site in heads.sites
            if site.layer == layer.layer
            and (site.stack == layer.stack or (site.stack, layer.stack) == ("cross", "decoder"))
        }
        cross = sites.pop("cross", None)
        own = next(iter(sites.values()))
        weights = _linear_weights(base.get_submodule(layer.path))
        of_source = 0
        if cross is not None:
            keys = [base.get_submodule(each.path) for each in cross.projections if set(each.parts) <= {"k", "v"}]
            of_source = sum(_linear_weights(module) for module in keys)
        found.append(
            LayerWork(
                layer.stack == "decoder" and any(site.stack == "cross" for site in heads.sites),
                weights - of_source,
                of_source,
                len(own.heads) * own.head_width,
                0 if cross is None else len(cross.heads) * cross.head_width,
            )
        )
    return tuple(found)


def head_weights(model: Any, heads: HeadMap) -> int:
    """Weights of the linear maps outside the layers: poolers, classifiers, the output vocabulary."""
    base = base_model(model)
    return _linear_weights(base) - sum(_linear_weights(base.get_submodule(layer.path)) for layer in heads.layers)


def _linear_weights(module: nn.Module) -> int:
    return sum(math.prod(weight_shape(each)) for each in module.modules() if is_linear(each))


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a linear map of its own, not one that PEFT has put around another."""
    return isinstance(module, nn.Linear) or is_transposed(module)
