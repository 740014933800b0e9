"""Streams of observations: one per player, of different lengths, arriving in batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.errors import HeadwiseError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Largest rounding error by which an observation may leave its range, as a share of the range.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Streams:
    """The state of every player's stream; `update` of a subclass returns the next state.

    Attributes:
        count: Observations of each player so far, (players,).
    """

    count: Indices


def in_turns(players: ArrayLike, values: ArrayLike, count: int) -> Iterator[tuple[Indices, Array]]:
    """Split observations into turns: each player has at most one per turn, and its observations keep their order.

    Results computed turn by turn therefore do not depend on how the observations were batched.

    Args:
        players: The player of each observation, (observations,).
        values: The observations, (observations,).
        count: Number of players.

    Yields:
        The players of a turn and their observations.

    Raises:
        HeadwiseError: The two differ in length, or an index is out of range.

    Example:
        >>> [(who.tolist(), x.tolist()) for who, x in in_turns([0, 1, 0], [0.1, 0.2, 0.3], count=2)]
        [([0, 1], [0.1, 0.2]), ([0], [0.3])]
    """
    who, x = np.asarray(players, dtype=np.int64), np.asarray(values, dtype=np.float64)
    if who.ndim != 1 or who.shape != x.shape:
        raise HeadwiseError(f"observations need one player each, found shapes {who.shape} and {x.shape}")
    if not len(who):
        return
    if not (who.min() >= 0 and who.max() < count):
        raise HeadwiseError(f"players are numbered from 0 to {count - 1}, found {who.min()} to {who.max()}")
    order = np.argsort(who, kind="stable")
    grouped = who[order]
    turn = np.arange(len(who)) - np.searchsorted(grouped, grouped)  # number of earlier observations of the same player
    by_turn = order[np.argsort(turn, kind="stable")]
    ends = np.cumsum(np.bincount(turn))
    for start, end in pairwise([0, *ends.tolist()]):
        chosen = by_turn[start:end]
        yield who[chosen], x[chosen]


def inside(x: Array, low: Array, high: Array) -> Array:
    """The observations, clipped to their range to remove rounding errors.

    Raises:
        HeadwiseError: An observation is out of its range or not a number, so no bound would hold.
    """
    slack = _ROUNDING * (high - low)
    fits = (low - slack <= x) & (x <= high + slack)
    if not fits.all():
        at = int(np.argmin(fits))
        raise HeadwiseError(f"an observation of {x[at]} is outside the stated range [{low[at]}, {high[at]}]")
    return np.clip(x, low, high)


def per_player(value: ArrayLike, players: int) -> Array:
    """One number for all players, or one number per player, as an array (players,)."""
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (players,)).copy()
