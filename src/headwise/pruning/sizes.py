"""The size of a model after pruning, without pruning it."""

import copy
from functools import cached_property
from typing import Any

from torch import nn

from headwise.errors import HeadwiseError
from headwise.masks import HeadMask
from headwise.pruning.cutting import shrink


class ModelSizes:
    """Counts the parameters of a model as `shrink` would leave it. Weights are neither copied nor changed.

    Args:
        model: The model.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise.heads import find_heads
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=4,
        ...                     intermediate_size=8)
        >>> model = BertModel(config)
        >>> ModelSizes(model).after(HeadMask.without(find_heads(model), ["encoder.0.1"]))
        (5200, 5130)
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def after(self, mask: HeadMask) -> tuple[int, int] | None:
        """The number of parameters of the whole model and of the model without the heads of a mask.

        Returns:
            The two numbers; None if the model cannot be shrunk by this mask, such as a mask of layers.
        """
        before = count_parameters(self._skeleton)
        if not mask.off:
            return before, before
        try:
            return before, count_parameters(shrink(self._skeleton, mask))
        except HeadwiseError:
            return None

    @cached_property
    def _skeleton(self) -> Any:
        """A copy of the model whose parameters have no data."""
        empty: dict[int, Any] = {
            id(weight): nn.Parameter(weight.detach().to("meta"), requires_grad=False)
            for weight in self.model.parameters()
        }
        return copy.deepcopy(self.model, empty)


def count_parameters(model: nn.Module) -> int:
    """The number of parameters of a model."""
    return sum(weight.numel() for weight in model.parameters())
