"""The empirical Bernstein bound that Held & Yang use to stop sampling a head."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from headwise.stats.streams import Array, Streams, in_turns


@dataclass(frozen=True, eq=False)
class EmpiricalBernstein(Streams):
    """Running moments of every player, and the empirical Bernstein radius around its mean.

    `radius` is the bound of the paper. It holds for a number of observations that was *fixed in advance*. The paper
    checks it after every observation and stops once zero is outside; its guarantee does not cover this. `SignTest`
    may be checked after every observation, and needs far fewer observations.

    Attributes:
        count: Number of observations of each player, (players,).
        mean: Their mean, (players,); 0 without observations.
        squares: Sum of their squared distances from the mean, (players,).

    Example:
        >>> bound = EmpiricalBernstein.start(players=2).update([0, 0, 1], [0.25, 0.75, 0.5])
        >>> bound.mean.tolist(), bound.variance.tolist()
        ([0.5, 0.5], [0.0625, 0.0])
        >>> bound.radius(value_range=1.0, error_rate=0.1).round(2).tolist()
        [5.56, 10.2]
    """

    mean: Array
    squares: Array

    @classmethod
    def start(cls, players: int) -> Self:
        """The state before any observation."""
        return cls(np.zeros(players, dtype=np.int64), np.zeros(players), np.zeros(players))

    def update(self, players: ArrayLike, values: ArrayLike) -> Self:
        """The state after more observations.

        Args:
            players: The player of each observation, (observations,).
            values: The observations, (observations,).
        """
        count, mean, squares = self.count.copy(), self.mean.copy(), self.squares.copy()
        for who, x in in_turns(players, values, len(count)):
            count[who] += 1
            distance = x - mean[who]
            mean[who] += distance / count[who]
            squares[who] += distance * (x - mean[who])  # Welford: no cancellation, unlike sums of squares
        return type(self)(count, mean, squares)

    @property
    def variance(self) -> Array:
        """σ², the mean squared distance from the mean, (players,)."""
        return self.squares / np.maximum(self.count, 1)

    def radius(self, value_range: ArrayLike, error_rate: ArrayLike) -> Array:
        """`σ·sqrt(2·ln(3/δ)/t) + 3·R·ln(3/δ)/t`, (players,); infinite before the first observation.

        Args:
            value_range: R, the largest minus the smallest possible observation (1 in the paper).
            error_rate: δ, the probability that the error of the mean is larger.
        """
        t = np.maximum(self.count, 1)
        odds = np.log(3 / np.asarray(error_rate, dtype=np.float64))
        radius = np.sqrt(self.variance * 2 * odds / t) + 3 * np.asarray(value_range) * odds / t
        return np.where(self.count > 0, radius, np.inf)
