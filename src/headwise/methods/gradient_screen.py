"""A screen by gradients: what each player seems worth at random coalitions, for two passes and all players at once.

Biased: a gradient is what turning a gate a little is worth, not what turning it off is worth. It finds the signs of
clear players at a small fraction of what any unbiased method costs, and decides nothing.
"""

from dataclasses import dataclass

import numpy as np

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Problem
from headwise.methods.results import UNDECIDED, make_scores
from headwise.methods.walks import star_weights
from headwise.scores import HeadScores


@dataclass(frozen=True)
class GradientScreen:
    """Mean gradients of the soft value over random coalitions.

    Attributes:
        bases: Coalitions in a round.
    """

    bases: int = 64
    name: str = "gradient-screen"

    def __post_init__(self) -> None:
        if self.bases < 1:
            raise HeadwiseError(f"a round takes at least one coalition, not {self.bases}")

    def start(self, problem: Problem, seed: int) -> "ScreenRounds":
        """Begin work on a problem.

        Raises:
            HeadwiseError: The game has no gradient.
        """
        if not problem.game.differentiable:
            raise HeadwiseError(f"the game {problem.game.name!r} has no gradient: take 'probability'")
        return ScreenRounds(self, problem, seed)


class ScreenRounds:
    """The screen at work."""

    def __init__(self, method: GradientScreen, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        self.engine = problem.engine()
        self.count, self.total, self.squares = 0, np.zeros(len(problem.players)), np.zeros(len(problem.players))

    @property
    def done(self) -> bool:
        """Never: there is always more to average."""
        return False

    @property
    def next_units(self) -> float:
        """A forward and a backward pass for each coalition."""
        return self.engine.most_units(self.method.bases, gradients=True)

    @property
    def word(self) -> str:
        """How many coalitions there were."""
        return f"{self.count} coalitions"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """A round of gradients."""
        n, count, draws = len(self.problem.players), self.method.bases, Draws(self.seed, "stars")
        bases = draws.coalitions(first_draw, count, n, self.problem.smallest, n)
        index = draws.examples(first_draw, count, len(self.problem.examples))
        found = self.engine.gradients(bases, index)
        worth = star_weights(bases, self.problem.smallest) * found.gradients.numpy().astype(
            np.float64
        )  # (bases, players)
        units = np.array(found.cost.units)
        return {"count": np.array(count), "total": worth.sum(0), "squares": (worth**2).sum(0), "units": units}, count

    def absorb(self, arrays: Arrays) -> None:
        """Take in a round's sums."""
        self.count += int(arrays["count"])
        self.total, self.squares = self.total + arrays["total"], self.squares + arrays["squares"]

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean gradients; nothing is decided."""
        n, count = len(self.problem.players), self.count or np.nan  # nothing seen, nothing known
        mean = self.total / count
        stderr = np.sqrt((self.squares / count - mean**2).clip(0) / max(self.count - 1, 1))
        return make_scores(
            self.problem, self.method.name, mean, stderr, np.full(n, self.count), UNDECIDED * n, units, seed,
            confidence="none: gradients are biased",
        )  # fmt: skip
