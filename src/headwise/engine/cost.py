"""Cost of computations, counted instead of timed: layer passes, tokens, floating-point operations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headwise.engine.prefix import Level
from headwise.heads import HeadMap, base_model, is_transposed, weight_shape

Lengths = NDArray[np.int64]


@dataclass(frozen=True)
class EngineCost:
    """The cost of a result of an engine.

    Attributes:
        rows: Number of rows.
        units: Passes of one example through the whole model: layer passes divided by layers. A gradient is two units:
            its backward pass costs as much as its forward pass, since there are no gradients of weights.
        examples: Number of embedded examples.
        layer_passes: Passes of one example through one layer.
        tokens: Tokens processed by layers, divided by layers.
        padding: Padding processed by layers, divided by layers.
        flops: Floating-point operations on tokens, without padding.
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
        """Share of padding in all tokens processed by layers."""
        return self.padding / max(1e-9, self.tokens + self.padding)


@dataclass(frozen=True)
class LayerWork:
    """The operations of one layer per token.

    Attributes:
        decoder: Whether it runs on the decoder's tokens.
        weights: Weights applied to each of its own tokens.
        source_weights: Weights applied to each token of the encoder (keys and values of cross-attention).
        width: Features of its self-attention, over all heads.
        cross_width: Features of its cross-attention.
    """

    decoder: bool
    weights: int
    source_weights: int
    width: int
    cross_width: int

    def flops(self, own: Lengths, source: Lengths) -> float:
        """Number of operations for sequences with these lengths and these source lengths."""
        own, source = own.astype(np.float64), source.astype(np.float64)
        linear = 2 * (self.weights * own + self.source_weights * source)
        attention = 4 * (self.width * own * own + self.cross_width * own * source)
        return float((linear + attention).sum())


def work_of(model: Any, heads: HeadMap) -> tuple[LayerWork, ...]:
    """The operations of each layer of a model, in the order in which layers run."""
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


@dataclass(frozen=True)
class ModelWork:
    """The operations of a model per token.

    Attributes:
        layers: The operations of each layer, in the order in which layers run.
        head_weights: Number of weights outside the layers.
    """

    layers: tuple[LayerWork, ...]
    head_weights: int

    @classmethod
    def of(cls, model: Any, heads: HeadMap) -> "ModelWork":
        """The operations of a model."""
        return cls(work_of(model, heads), head_weights(model, heads))

    def batch_cost(
        self, levels: Sequence[Level], source: Lengths, target: Lengths, outputs: int | None, backward: bool
    ) -> EngineCost:
        """The cost of the layers and of the output layer for one batch.

        Args:
            levels: The nodes at each layer; none if the layers are not known, so that a row is one unit.
            source: Number of tokens of each row, (rows,).
            target: Number of tokens that the decoder reads for each row, (rows,).
            outputs: How often the output layer ran; by default once per token.
            backward: Whether gradients were computed, which cost as much as the values.
        """
        rows = len(source)
        if not levels:
            tokens = float(source.sum())
            padding = rows * float(source.max()) - tokens
            return EngineCost(rows, float(rows), rows, tokens=tokens, padding=padding)
        passes, processed, padded, flops = 0, 0, 0, 0.0
        for level, work in zip(levels, self.layers, strict=True):
            first = level.first.numpy()
            own = (target if work.decoder else source)[first]
            passes, processed = passes + len(first), processed + int(own.sum())
            padded += len(first) * int(own.max())
            flops += work.flops(own, source[first])
        if outputs is None:
            outputs = int((target if target.any() else source).sum())
        flops += 2.0 * self.head_weights * outputs
        times, layers = 2 if backward else 1, len(levels)
        return EngineCost(
            rows=rows,
            units=times * passes / layers,
            examples=rows,
            layer_passes=times * passes,
            tokens=times * processed / layers,
            padding=times * (padded - processed) / layers,
            flops=times * flops,
        )


def pass_flops(model: Any, heads: HeadMap, lengths: Lengths, targets: Lengths) -> float:
    """Number of operations of one pass of a model over sequences, without padding.

    Args:
        model: The model; its parameters need no data.
        heads: Its head map.
        lengths: Number of tokens of each sequence.
        targets: Number of tokens that the decoder of a sequence-to-sequence model reads, for each sequence.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise.heads import find_heads
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config, add_pooling_layer=False)
        >>> pass_flops(model, find_heads(model), np.array([3]), np.array([0]))  # 2 · 3 · 6 · 8² + 4 · 8 · 3²
        2592.0
    """
    work = work_of(model, heads)
    decodes = any(layer.decoder for layer in work)
    total = sum(layer.flops(targets if layer.decoder else lengths, lengths) for layer in work)
    return total + 2.0 * head_weights(model, heads) * float((targets if decodes else lengths).sum())


def head_weights(model: Any, heads: HeadMap) -> int:
    """Number of weights of linear layers outside the transformer layers: poolers, classifiers, output vocabulary."""
    base = base_model(model)
    return _linear_weights(base) - sum(_linear_weights(base.get_submodule(layer.path)) for layer in heads.layers)


def _linear_weights(module: nn.Module) -> int:
    return sum(math.prod(weight_shape(each)) for each in module.modules() if is_linear(each))


def is_linear(module: nn.Module) -> bool:
    """Whether a module is a plain linear layer, not a PEFT wrapper."""
    return isinstance(module, nn.Linear) or is_transposed(module)
