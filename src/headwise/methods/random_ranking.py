"""A random ranking, as the baseline for all rankings."""

from dataclasses import dataclass
from typing import ClassVar

from headwise.draws import Draws
from headwise.methods.base import Problem
from headwise.methods.fixed_ranking import FixedRanking


@dataclass(frozen=True)
class RandomRanking:
    """Uniform values from 0 to 1, the same for every language with the same seed."""

    name: ClassVar[str] = "random"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def start(self, problem: Problem, seed: int) -> FixedRanking:
        """Start the method on a problem."""
        values = Draws(seed, "random ranking").uniform(0, 1, len(problem.players))[0]
        return FixedRanking(self, problem, values, ("none: random", "random"))
