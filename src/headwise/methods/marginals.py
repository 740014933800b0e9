"""Marginals and their weights: which flips of a coalition count for an estimand, and for how much."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def star_weights(bases: NDArray[np.bool_], smallest: int) -> Array:
    """What the flip of each player at each base counts for, (bases, players).

    Bases are drawn with a size that is uniform on smallest..players. The flip of a player that is on is its marginal
    to the base without it; of one that is off, to the base itself. A marginal to a coalition of k players then comes
    up with the same chance for every k from `smallest` on: (n + 1) / (n·(n - m + 1)) for n players and m = smallest,
    by a base of k players without the one and by a base of k + 1 with it. Those to m - 1 players, which come up
    too, do not count. So one weight, n·(n - m + 1) / ((n + 1)·(n - m)), makes the mean over bases an unbiased
    estimate of the average over sizes; for m = 0 it is 1, and nothing is left out.

    Example:
        >>> star_weights(np.array([[True, True, False], [True, True, True]]), smallest=2)
        array([[0. , 0. , 1.5],
               [1.5, 1.5, 1.5]])
    """
    n, m = bases.shape[1], smallest
    weight = n * (n - m + 1) / ((n + 1) * (n - m))
    joined = bases.sum(1, keepdims=True) - bases  # players in the coalition that the player joins, (bases, players)
    return np.where(joined >= m, weight, 0.0)


def flip_signs(bases: NDArray[np.bool_]) -> Array:
    """+1 where a flip turns a player on, -1 where it turns it off: what makes a difference of values a marginal."""
    return np.where(bases, -1.0, 1.0)
