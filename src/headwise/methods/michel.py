"""Sensitivity to gates (Michel, Levy & Neubig, 2019): unsigned, so it cannot distinguish harmful from helpful."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.games import LikelihoodGame
from headwise.methods.base import Arrays, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import SampleSums
from headwise.scores import HeadScores

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Michel:
    """The mean over examples of |gradient of the loss with respect to the gate|, with all gates on.

    The absolute value is taken per example, so the order and the size of batches do not matter.

    Attributes:
        normalise: Divide by the L2 norm of each layer's heads, as in the paper.
        examples: Number of examples in a round.
    """

    name: ClassVar[str] = "michel"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    normalise: bool = False
    examples: int = 64

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise HeadwiseError(f"a round needs at least one example, not {self.examples}")

    def start(self, problem: Problem, seed: int) -> "MichelRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem."""
        return MichelRounds(self, problem)


class MichelRounds:
    """One pass over the examples."""

    def __init__(self, method: Michel, problem: Problem) -> None:
        self.method, self.problem = method, problem
        self.engine = problem.engine(LikelihoodGame())
        self.sums = SampleSums.start(len(problem.players))

    @property
    def done(self) -> bool:
        """Whether every example was processed."""
        return self.sums.count >= len(self.problem.examples)

    @property
    def next_units(self) -> float:
        """Maximum cost: a forward and a backward pass for each example."""
        remaining = len(self.problem.examples) - self.sums.count
        return self.engine.most_units(min(self.method.examples, remaining), gradients=True)

    @property
    def status(self) -> str:
        """Number of examples so far."""
        return f"{self.sums.count} examples"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The gradients of the next examples."""
        index = np.arange(first_draw, min(first_draw + self.method.examples, len(self.problem.examples)))
        found = self.engine.gradients(np.ones((len(index), len(self.problem.players)), dtype=bool), index)
        size = np.abs(found.gradients.numpy().astype(np.float64))  # (examples, players)
        return {**SampleSums.arrays(size), "units": np.array(found.cost.units)}, len(index)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        self.sums = self.sums.add(arrays)

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean absolute gradients, without decisions."""
        n, mean, stderr = len(self.problem.players), self.sums.mean, self.sums.stderr
        scale = self._norms(mean) if self.method.normalise else np.ones(n)
        return make_scores(
            self.problem, self.method, mean / scale, stderr / scale, np.full(n, self.sums.count), UNDECIDED * n, units,
            seed, confidence="none: unsigned", estimand="sensitivity",
        )  # fmt: skip

    def _norms(self, mean: Array) -> Array:
        """The L2 norm of each player's layer, (players,)."""
        layer = np.array([name.rpartition(".")[0] for name in self.problem.players.names])
        return np.array([np.linalg.norm(mean[layer == each]) or 1.0 for each in layer])
