"""Rankings that do not use the model: the shared state of methods with a single round at no cost."""

import numpy as np
from numpy.typing import NDArray

from headwise.methods.base import Arrays, Method, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores


class FixedRanking:
    """The state of a method whose values are known at once.

    Args:
        method: The method.
        problem: The problem.
        values: The value of each player, (players,).
        about: What the values are, for the provenance: confidence and estimand.
    """

    def __init__(self, method: Method, problem: Problem, values: NDArray[np.float64], about: tuple[str, str]) -> None:
        self.method, self.problem, self.values, self.about = method, problem, values, about
        self.found: Arrays | None = None

    @property
    def done(self) -> bool:
        """Whether the players are ranked."""
        return self.found is not None

    @property
    def next_units(self) -> float:
        """0: the model is not used."""
        return 0.0

    @property
    def status(self) -> str:
        """The constant `ranked`."""
        return "ranked"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:  # noqa: ARG002 - there is one round
        """The values of all players."""
        return {"value": self.values, "units": np.array(0.0)}, 1

    def absorb(self, arrays: Arrays) -> None:
        """Add the values."""
        self.found = arrays

    def scores(self, units: float, seed: int) -> HeadScores:
        """The values, without decisions."""
        n, (confidence, estimand) = len(self.problem.players), self.about
        value = np.full(n, np.nan) if self.found is None else self.found["value"]
        return make_scores(
            self.problem, self.method, value, np.full(n, np.nan), np.zeros(n), UNDECIDED * n, units, seed,
            confidence=confidence, estimand=estimand,
        )  # fmt: skip
