"""How many bytes a token takes in a batch: an upper estimate, so that batches keep within a limit."""

from typing import Any

from headwise.engine.cost import is_linear
from headwise.heads import HeadMap, base_model, weight_shape

_FLOAT = 4


def value_bytes(model: Any, heads: HeadMap) -> int:
    """Bytes of a token's activations when only values are wanted: one layer's at a time, and the output's."""
    return _FLOAT * (_layer_floats(model, heads) + 3 * _output_width(model))


def gradient_bytes(model: Any, heads: HeadMap) -> int:
    """Bytes of a token's activations when gradients are wanted too: every layer keeps its own."""
    return _FLOAT * (len(heads.layers) * _layer_floats(model, heads) + 3 * _output_width(model))


def _layer_floats(model: Any, heads: HeadMap) -> int:
    """Every linear map's input and output, and as much again for norms, activations and sums."""
    if not heads.layers:  # a model of unknown structure: as many maps as a usual layer has, each as wide as the widest
        return 16 * max((sum(weight_shape(each)) for each in base_model(model).modules() if is_linear(each)), default=1)
    layer = base_model(model).get_submodule(heads.layers[0].path)
    return 2 * sum(sum(weight_shape(each)) for each in layer.modules() if is_linear(each))


def _output_width(model: Any) -> int:
    """Classes, or pieces of the vocabulary."""
    return max((weight_shape(each)[0] for each in base_model(model).modules() if is_linear(each)), default=0)
