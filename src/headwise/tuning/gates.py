"""Gates that the training loop trains together with the weights of a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.errors import HeadwiseError
from headwise.files import hash_json
from headwise.gates import gated
from headwise.hard_concrete import HardConcrete, decided_gates
from headwise.heads import HeadMap, base_model, find_heads
from headwise.masks import HeadMask

#: The weights that are trained: all, or those of the layers of one stack.
Part = Literal["all", "encoder", "decoder"]


class TrainedGates:
    """Hard Concrete gates on the heads of a model, with an L0 penalty. Gates are sampled once for each batch.

    Args:
        model: The model.
        lam: Weight of the penalty.
        log_alpha: `ln α` of each head's gate at the start, (heads,); NaN for a gate that stays 1.
        learning_rate: Peak learning rate of the gates.
    """

    def __init__(self, model: nn.Module, lam: float, log_alpha: NDArray[np.float64], learning_rate: float) -> None:
        self.model, self.lam, self.learning_rate = model, lam, learning_rate
        self.heads = find_heads(model)
        start = torch.from_numpy(log_alpha).float()
        self.place = (~start.isnan()).nonzero()[:, 0]  # the heads whose gates are trained
        self.count = len(start)
        self.module = HardConcrete(len(self.place))
        with torch.no_grad():
            self.module.log_alpha.copy_(start[self.place])

    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters by name."""
        return {f"gates.{name}": each for name, each in self.module.named_parameters()}

    def penalty(self) -> Tensor:
        """The weighted penalty."""
        return self.lam * self.module.penalty()

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Run the model under a new sample of the gates."""
        with gated(self.model, self._all(self.module.train()()), heads=self.heads):
            yield

    @contextmanager
    def decided(self) -> Iterator[None]:
        """Run the model under gates of 0 and 1."""
        with torch.no_grad():
            gates = self._all(self.module.eval()())
        with gated(self.model, gates, heads=self.heads):
            yield

    def log_alpha(self) -> NDArray[np.float64]:
        """`ln α` of each head's gate, (heads,); NaN for gates that stay 1."""
        found = torch.full((self.count,), torch.nan)
        found[self.place] = self.module.log_alpha.detach()
        return found.double().numpy()

    def identity(self) -> dict[str, Any]:
        """What identifies a run with these gates, besides what a run without gates depends on."""
        return {"gates": hash_json([self.lam, self.learning_rate, [str(each) for each in self.log_alpha().tolist()]])}

    def _all(self, gates: Tensor) -> Tensor:
        """Gates of all heads, (heads,), from those that are trained."""
        return gates.new_ones(self.count).index_copy(0, self.place, gates)


def mask_of_gates(heads: HeadMap, log_alpha: NDArray[np.float64]) -> HeadMask:
    """The mask of trained gates: a head is off if its gate is more probably 0 than 1.

    Args:
        heads: The head map of the model.
        log_alpha: `ln α` of each head's gate; NaN for gates that stay 1.
    """
    on = decided_gates(torch.from_numpy(log_alpha)).numpy() | np.isnan(log_alpha)
    return HeadMask.without(heads, [name for name, each in zip(heads.players(), on, strict=True) if not each])


@contextmanager
def training_only(model: nn.Module, heads: HeadMap, part: Part) -> Iterator[None]:
    """Freeze all weights except those of the layers of one stack, and undo that at the end.

    Raises:
        HeadwiseError: The model has no such stack.
    """
    if part == "all":
        yield
        return
    base = base_model(model)
    modules = [base.get_submodule(layer.path) for layer in heads.layers if layer.stack == part]
    if not modules:
        raise HeadwiseError(f"train: {heads.model} has no {part}: choose 'all' or another part")
    kept = {id(weight) for module in modules for weight in module.parameters()}
    frozen = [weight for weight in model.parameters() if weight.requires_grad and id(weight) not in kept]
    for weight in frozen:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in frozen:
            weight.requires_grad_(True)
