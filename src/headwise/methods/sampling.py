"""Draws of several players with given probabilities."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def systematic_sample(chances: Array, size: int, start: Array) -> NDArray[np.int64]:
    """Systematic sampling: players whose intervals contain start, start + 1, …, (samples, size).

    The intervals are consecutive, and the length of a player's interval is its probability.

    Args:
        chances: The probability of each player, at most 1; they sum to the size, (players,).
        size: Number of players in a sample.
        start: A number between 0 and 1 for each sample, (samples, 1).

    Example:
        >>> systematic_sample(np.array([0.5, 1.0, 0.5]), size=2, start=np.array([[0.2], [0.7]]))
        array([[0, 1],
               [1, 2]])
    """
    ends = np.cumsum(chances)
    ends[-1] = size  # rounding
    return np.searchsorted(ends, start + np.arange(size), side="right").clip(max=len(ends) - 1)


def most_drawn(chances: Array, size: int, units: Array) -> float:
    """The largest sum of units over the players of any `systematic_sample`.

    Example:
        >>> most_drawn(np.array([0.5, 1.0, 0.5]), size=2, units=np.array([3.0, 1.0, 2.0]))
        4.0
    """
    # A sample changes only if the start passes the end of a player's interval.
    ends = np.sort(np.append(np.cumsum(chances) % 1, [0.0, 1.0]))
    samples = systematic_sample(chances, size, ((ends[1:] + ends[:-1]) / 2)[:, None])
    return float(units[samples].sum(1).max())


def capped_shares(weights: Array, total: float) -> Array:
    """Probabilities in proportion to weights that sum to a total, each at most 1.

    Example:
        >>> capped_shares(np.array([8.0, 1.0, 1.0]), total=2)
        array([1. , 0.5, 0.5])
    """
    if total >= len(weights):
        return np.ones_like(weights)
    full = np.zeros(len(weights), dtype=bool)
    while True:
        chances = np.where(full, 1.0, weights * (total - full.sum()) / weights[~full].sum())
        if not (chances > 1).any():
            return chances
        full |= chances > 1
