"""Upper estimate of the bytes per token of a batch, to keep batches within the memory limit."""

from typing import Any

import torch

from headwise.engine.cost import is_linear
from headwise.heads import HeadMap, base_model, weight_shape

_FLOAT = 4
#: Tensors of the size of the attention weights: scores, mask, weights, and what is computed from them.
_MAPS = 5


def value_bytes(model: Any, heads: HeadMap) -> int:
    """Bytes of a token's activations without gradients: those of one layer at a time, and of the output."""
    return _FLOAT * (_layer_floats(model, heads) + 3 * _output_width(model))


def gradient_bytes(model: Any, heads: HeadMap) -> int:
    """Bytes of a token's activations with gradients: those of all layers, and of the output."""
    return _FLOAT * (len(heads.layers) * _layer_floats(model, heads) + 3 * _output_width(model))


def attention_bytes(model: Any, heads: HeadMap, longest: int) -> int:
    """Bytes of a token's activations without gradients, and of the attention weights of one site.

    Args:
        model: The model.
        heads: Its head map.
        longest: Number of tokens of the longest example.
    """
    maps = _MAPS * longest * max((len(site.heads) for site in heads.sites), default=0)
    return value_bytes(model, heads) + _FLOAT * maps


def default_budget(device: torch.device) -> int:
    """Padded tokens of a batch: few enough for the caches of a CPU, or enough to fill another device."""
    return 2048 if device.type == "cpu" else 16384


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is too little memory, on a CPU or on another device.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes do not match"))
        (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("can't allocate memory", "out of memory")
    )


def _layer_floats(model: Any, heads: HeadMap) -> int:
    """Inputs and outputs of all linear layers, doubled to account for norms, activations and sums."""
    if not heads.layers:  # unknown structure: the number of linear layers of a usual layer, each as wide as the widest
        return 16 * max((sum(weight_shape(each)) for each in base_model(model).modules() if is_linear(each)), default=1)
    layer = base_model(model).get_submodule(heads.layers[0].path)
    return 2 * sum(sum(weight_shape(each)) for each in layer.modules() if is_linear(each))


def _output_width(model: Any) -> int:
    """Number of classes, or size of the vocabulary."""
    return max((weight_shape(each)[0] for each in base_model(model).modules() if is_linear(each)), default=0)
