"""A screen by gradients: estimates of all players' marginals at a random coalition for the cost of two passes.

It is biased: a gradient is the effect of a small change of a gate, not of switching it off. It finds the signs of
clear players at a small fraction of the cost of any unbiased method, and makes no decisions.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.marginals import star_weights
from headwise.methods.moments import SampleSums
from headwise.scores import HeadScores


@dataclass(frozen=True)
class GradientScreen:
    """Mean gradients of the soft value over random coalitions.

    Attributes:
        bases: Number of coalitions in a round.
    """

    name: ClassVar[str] = "gradient-screen"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    bases: int = 64

    def __post_init__(self) -> None:
        if self.bases < 1:
            raise HeadwiseError(f"a round needs at least one coalition, not {self.bases}")

    def start(self, problem: Problem, seed: int) -> "ScreenRounds":
        """Start the method on a problem.

        Raises:
            HeadwiseError: The game has no gradient.
        """
        if not problem.game.differentiable:
            raise HeadwiseError(f"the game {problem.game.name!r} has no gradient: use 'probability'")
        return ScreenRounds(self, problem, seed)


class ScreenRounds:
    """The state of the screen."""

    def __init__(self, method: GradientScreen, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        self.engine = problem.engine()
        self.sums = SampleSums.start(len(problem.players))

    @property
    def done(self) -> bool:
        """False: more coalitions always improve the means."""
        return False

    @property
    def next_units(self) -> float:
        """Maximum cost: a forward and a backward pass for each coalition."""
        return self.engine.most_units(self.method.bases, gradients=True)

    @property
    def status(self) -> str:
        """Number of coalitions so far."""
        return f"{self.sums.count} coalitions"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """A round of gradients."""
        n, count, draws = len(self.problem.players), self.method.bases, Draws(self.seed, "stars")
        bases = draws.coalitions(first_draw, count, n, self.problem.smallest, n)
        index = draws.examples(first_draw, count, len(self.problem.examples))
        found = self.engine.gradients(bases, index)
        weighted = star_weights(bases, self.problem.smallest) * found.gradients.numpy().astype(
            np.float64
        )  # (bases, players)
        return {**SampleSums.arrays(weighted), "units": np.array(found.cost.units)}, count

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        self.sums = self.sums.add(arrays)

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean gradients, without decisions."""
        n, mean, stderr = len(self.problem.players), self.sums.mean, self.sums.stderr
        return make_scores(
            self.problem, self.method, mean, stderr, np.full(n, self.sums.count), UNDECIDED * n, units, seed,
            confidence="none: gradients are biased",
        )  # fmt: skip
