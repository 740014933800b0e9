"""Sensitivity to gates (Michel, Levy & Neubig, 2019): unsigned, so it cannot distinguish harmful from helpful."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwise.errors import HeadwiseError
from headwise.games import LikelihoodGame
from headwise.methods.base import Arrays, Problem
from headwise.methods.example_pass import ExamplePass
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import SampleSums, layer_norms
from headwise.scores import HeadScores


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


class MichelRounds(ExamplePass):
    """One pass over the examples."""

    def __init__(self, method: Michel, problem: Problem) -> None:
        super().__init__(problem, problem.engine(LikelihoodGame()), method.examples)
        self.method = method

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The gradients of the next examples."""
        index = self.index(first_draw)
        found = self.engine.gradients(self.all_on(index), index)
        size = np.abs(found.gradients.numpy().astype(np.float64))  # (examples, players)
        return {**SampleSums.arrays(size), "units": np.array(found.cost.units)}, len(index)

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean absolute gradients, without decisions."""
        names, mean, stderr = self.problem.players.names, self.sums.mean, self.sums.stderr
        scale = layer_norms(names, mean, "l2") if self.method.normalise else np.ones(len(names))
        return make_scores(
            self.problem, self.method, mean / scale, stderr / scale, self.counts, UNDECIDED * len(names), units, seed,
            confidence="none: unsigned", estimand="sensitivity",
        )  # fmt: skip
