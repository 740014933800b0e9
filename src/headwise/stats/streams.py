"""Streams of observations: one per player, each of its own length, arriving in batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.errors import HeadwiseError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# How far rounding may carry an observation out of its range, as a share of the range.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Streams:
    """What is remembered of every player's stream; `update` of a subclass makes the next one.

    Attributes:
        count: Observations of each player so far, (players,).
    """

    count: Indices


def in_turns(players: ArrayLike, values: ArrayLike, count: int) -> Iterator[tuple[Indices, Array]]:
    """Deal observations out in turns: in each, a player has at most one, and every player keeps its order.

    Whatever is computed turn by turn therefore does not depend on how the observations came in batches.

    Args:
        players: Whose each observation is, (observations,).
        values: The observations, (observations,).
        count: How many players there are.

    Yields:
        The players of a turn, each once, and their observations.

    Raises:
        HeadwiseError: The two do not fit each other, or an index is no player's.

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
    turn = np.arange(len(who)) - np.searchsorted(grouped, grouped)  # how many of its player's came before
    by_turn = order[np.argsort(turn, kind="stable")]
    ends = np.cumsum(np.bincount(turn))
    for start, end in pairwise([0, *ends.tolist()]):
        chosen = by_turn[start:end]
        yield who[chosen], x[chosen]


def inside(x: Array, low: Array, high: Array) -> Array:
    """The observations, with rounding errors at the ends of their range taken off.

    Raises:
        HeadwiseError: One is out of its range, or not a number: no bound would hold.
    """
    slack = _ROUNDING * (high - low)
    fits = (low - slack <= x) & (x <= high + slack)
    if not fits.all():
        at = int(np.argmin(fits))
        raise HeadwiseError(f"an observation of {x[at]} is outside the stated range [{low[at]}, {high[at]}]")
    return np.clip(x, low, high)


def per_player(value: ArrayLike, players: int) -> Array:
    """A number for all players, or one for each, as an array (players,)."""
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (players,)).copy()
