"""A random ranking, as the baseline for all rankings."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headwise.draws import Draws
from headwise.methods.base import Arrays, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores


@dataclass(frozen=True)
class RandomRanking:
    """Uniform values from 0 to 1, the same for every language with the same seed."""

    name: ClassVar[str] = "random"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def start(self, problem: Problem, seed: int) -> "RandomRounds":
        """Start the method on a problem."""
        return RandomRounds(self, problem, seed)


class RandomRounds:
    """The state of the method, which has one round."""

    def __init__(self, method: RandomRanking, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        self.value: Arrays | None = None

    @property
    def done(self) -> bool:
        """Whether the values are drawn."""
        return self.value is not None

    @property
    def next_units(self) -> float:
        """0: the model is not used."""
        return 0.0

    @property
    def status(self) -> str:
        """The constant `drawn`."""
        return "drawn"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The values of all players."""
        value = Draws(self.seed, "random ranking").uniform(first_draw, 1, len(self.problem.players))[0]
        return {"value": value, "units": np.array(0.0)}, 1

    def absorb(self, arrays: Arrays) -> None:
        """Add the values."""
        self.value = arrays

    def scores(self, units: float, seed: int) -> HeadScores:
        """The values, without decisions."""
        n = len(self.problem.players)
        value = np.full(n, np.nan) if self.value is None else self.value["value"]
        return make_scores(
            self.problem, self.method, value, np.full(n, np.nan), np.zeros(n), UNDECIDED * n, units, seed,
            confidence="none: random", estimand="random",
        )  # fmt: skip
