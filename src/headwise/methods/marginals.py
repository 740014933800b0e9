"""Weights of marginals: how flips at a coalition are weighted for an estimand."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def star_weights(bases: NDArray[np.bool_], smallest: int) -> Array:
    """The weight of the flip of each player at each base, (bases, players).

    Bases are drawn with a size that is uniform on smallest..players. The flip of a player that is on is its marginal
    to the base without it. The flip of a player that is off is its marginal to the base itself. A marginal to a
    coalition of k players then has the same probability for every k from `smallest` on: (n + 1) / (n·(n - m + 1)) for
    n players and m = smallest. It comes from a base of k players without the player, or from a base of k + 1 players
    with it. Marginals to m - 1 players occur too, and get a weight of 0. With the weight
    n·(n - m + 1) / ((n + 1)·(n - m)) for all others, the mean over bases is an unbiased estimate of the average over
    sizes. For m = 0 this weight is 1, and no marginal gets a weight of 0.

    Example:
        >>> star_weights(np.array([[True, True, False], [True, True, True]]), smallest=2)
        array([[0. , 0. , 1.5],
               [1.5, 1.5, 1.5]])
    """
    n, m = bases.shape[1], smallest
    weight = n * (n - m + 1) / ((n + 1) * (n - m))
    joined = bases.sum(1, keepdims=True) - bases  # size of the coalition that the player joins, (bases, players)
    return np.where(joined >= m, weight, 0.0)


def flip_signs(bases: NDArray[np.bool_]) -> Array:
    """+1 if a flip switches a player on, -1 if it switches it off: times the difference of values, the marginal."""
    return np.where(bases, -1.0, 1.0)
