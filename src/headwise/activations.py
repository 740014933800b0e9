"""Run a model over batches of examples to read its activations: batches with their tokens, and evaluation mode."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.architectures import Stack
from headwise.errors import HeadwiseError


@dataclass(frozen=True)
class TokenBatch:
    """A batch of examples, with the positions that are tokens rather than padding.

    Attributes:
        inputs: The keyword arguments of the model's `forward`.
        tokens: For each stack, whether each position is a token, (rows, positions). The sites of a decoder, also its
            cross-attention, run on the tokens of the target.
        examples: The number of each row's example, (rows,).
    """

    inputs: Mapping[str, Any]
    tokens: Mapping[Stack, Tensor]
    examples: Tensor

    def select(self, activations: Tensor, stack: Stack) -> Tensor:
        """The activations of tokens, (tokens, features), of all positions, (rows, positions, features).

        Raises:
            HeadwiseError: The model packs its rows into one, as flash attention does.
        """
        tokens = self.tokens[stack]
        if activations.shape[:-1] != tokens.shape:
            raise HeadwiseError(
                "reading activations needs a batch of shape (rows, tokens, features), but the model packs its rows "
                "into one, as flash attention does: load it with attn_implementation='sdpa'"
            )
        return activations[tokens.to(activations.device)]

    def examples_of(self, stack: Stack) -> Tensor:
        """The number of the example of each token that `select` returns, (tokens,)."""
        tokens = self.tokens[stack]
        return self.examples[:, None].expand_as(tokens)[tokens]


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Disable gradients of weights, which halves the cost of a backward pass."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set a model to evaluation mode, and restore its mode afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def device_of(model: nn.Module) -> torch.device:
    """The device of a model."""
    return next(model.parameters()).device
