"""Values of multiple choice: an example is several sequences, and their log-likelihoods are its logits."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.base import Engine, Gradients, Values
from headwise.engine.cost import EngineCost
from headwise.engine.examples import ExampleSet
from headwise.games.base import Answers, Game


@dataclass(frozen=True)
class ChoiceEngine:
    """Values of examples from the log-likelihoods of their choices.

    A unit is a pass of one example, that is, of all its choices.

    Attributes:
        sequences: An engine for the log-likelihood of `examples.sequences`.
        game: The game of the examples.
        examples: Examples of multiple choice.
    """

    sequences: Engine
    game: Game
    examples: ExampleSet

    def values(self, on: NDArray[Any], index: NDArray[np.int64]) -> Values:
        """The values of rows; see `Engine.values`."""
        rows, numbers = self._expand(index)
        found = self.sequences.values(on[rows], numbers)
        measured = self.game.measure(self._answers(found.values, index))
        return Values(measured[:, 0] if self.game.statistics == 1 else measured, _cost(found.cost, index))

    def gradients(self, on: NDArray[Any], index: NDArray[np.int64]) -> Gradients:
        """The values of rows and their gradients, by the chain rule through the log-likelihoods of the choices."""
        rows, numbers = self._expand(index)
        found = self.sequences.gradients(on[rows], numbers)
        likelihoods = found.values.clone().requires_grad_()
        with torch.enable_grad():
            values = self.game.measure(self._answers(likelihoods, index))[:, 0]
            (weights,) = torch.autograd.grad(values.sum(), likelihoods)  # (sequences,)
        gradients = torch.zeros(len(index), on.shape[1])
        gradients.index_add_(0, torch.from_numpy(rows), weights[:, None] * found.gradients)
        return Gradients(values.detach(), gradients, _cost(found.cost, index))

    def most_units(self, rows: int, shared: float | None = None, gradients: bool = False) -> float:
        """An upper bound on the units that one call may cost; see `Engine.most_units`."""
        least, most = int(self._counts.min()), int(self._counts.max())
        if least < most:  # examples share work unevenly
            return self.sequences.most_units(rows, None, gradients)
        return self.sequences.most_units(rows * most, None if shared is None else shared * most, gradients) / most

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """Number of choices of each example, (examples,)."""
        return np.array([len(each.choices) for each in self.examples.choices], dtype=np.int64)

    @cached_property
    def _lengths(self) -> Tensor:
        """What the log-likelihood of each sequence is divided by, (sequences,)."""
        return torch.tensor([length for each in self.examples.choices for length in each.lengths])

    def _expand(self, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row and the number of each sequence of some examples, (sequences,) each."""
        counts = self._counts[index]
        rows = np.repeat(np.arange(len(index)), counts)
        within = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        return rows, (np.cumsum(self._counts) - self._counts)[index][rows] + within

    def _answers(self, likelihoods: Tensor, index: NDArray[np.int64]) -> Answers:
        """The choices as classes, with the log-likelihoods of their sequences as logits."""
        _, numbers = self._expand(index)
        counts = torch.from_numpy(self._counts[index])
        places = torch.arange(int(self._counts.max()))
        logits = torch.full((len(index), len(places)), -torch.inf)
        present = places < counts[:, None]  # (rows, most choices)
        logits = logits.masked_scatter(present, likelihoods / self._lengths[torch.from_numpy(numbers)])
        each = torch.arange(len(index))
        gold = self.examples.gold[torch.from_numpy(index)]
        return Answers(logits, each, torch.zeros_like(each), torch.ones_like(each), gold)


def _cost(cost: EngineCost, index: NDArray[np.int64]) -> EngineCost:
    """The cost of examples from that of their sequences."""
    share = len(index) / max(1, cost.rows)
    return replace(cost, rows=len(index), units=cost.units * share)
