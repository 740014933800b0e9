"""Means and standard errors of players from sums over samples, for several methods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headwise.stats import EmpiricalBernstein

Array = NDArray[np.float64]
#: How values are normalised within a layer.
Norm = Literal["l1", "l2", "none"]


@dataclass(frozen=True, eq=False)
class SampleSums:
    """Sums over samples that have one number per player.

    Attributes:
        count: Number of samples.
        total: Sum of each player's numbers, (players,).
        squares: Sum of their squares, (players,).

    Example:
        >>> sums = SampleSums.start(2).add(SampleSums.arrays(np.array([[1.0, 5.0], [3.0, 5.0]])))
        >>> sums.mean, sums.stderr
        (array([2., 5.]), array([1., 0.]))
    """

    count: int
    total: Array
    squares: Array

    @classmethod
    def start(cls, players: int) -> "SampleSums":
        """The sums before any sample."""
        return cls(0, np.zeros(players), np.zeros(players))

    @staticmethod
    def arrays(samples: Array) -> dict[str, NDArray[Any]]:
        """The sums of a round's samples, (samples, players), as the argument of `add`."""
        return {"count": np.array(len(samples)), "total": samples.sum(0), "squares": (samples**2).sum(0)}

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> "SampleSums":
        """The sums after another round."""
        return SampleSums(
            self.count + int(arrays["count"]), self.total + arrays["total"], self.squares + arrays["squares"]
        )

    @property
    def mean(self) -> Array:
        """The mean of each player, (players,); NaN without samples."""
        return self.total / (self.count or np.nan)

    @property
    def stderr(self) -> Array:
        """The standard error of each mean, (players,); NaN without samples."""
        spread = (self.squares / (self.count or np.nan) - self.mean**2).clip(0)
        return np.asarray(np.sqrt(spread / max(self.count - 1, 1)))


def mean_and_error(moments: EmpiricalBernstein) -> tuple[Array, Array]:
    """The means and their standard errors, (players,) each; NaN for players with too few observations."""
    count = moments.count.astype(np.float64)
    mean = np.where(count > 0, moments.mean, np.nan)
    variance = np.divide(moments.squares, count - 1, out=np.full(len(count), np.nan), where=count > 1)
    return mean, np.sqrt(variance / np.maximum(count, 1))


def layer_norms(names: tuple[str, ...], values: Array, norm: Norm) -> Array:
    """The norm of the values in each player's layer, (players,); 1 for a layer in which all values are 0.

    Example:
        >>> layer_norms(("encoder.0.0", "encoder.0.1", "encoder.1.0"), np.array([3.0, 4.0, 0.0]), "l2").tolist()
        [5.0, 5.0, 1.0]
    """
    if norm == "none":
        return np.ones(len(values))
    layers, place = np.unique([name.rpartition(".")[0] for name in names], return_inverse=True)
    power = 1 if norm == "l1" else 2
    totals = np.bincount(place, np.abs(values) ** power, len(layers)) ** (1 / power)  # (layers,)
    return np.asarray(np.where(totals > 0, totals, 1.0)[place])
