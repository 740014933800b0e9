"""Exact values by enumeration: every coalition of a few players on every example."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.engine import EngineCost
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores
from headwise.stats import Decision

Array = NDArray[np.float64]

#: Maximum number of players, with 65,536 coalitions.
MOST_PLAYERS = 16
#: Number of rows per call to the engine.
_ROWS = 2**16
#: Values below this share of the largest value of a coalition are rounding errors: models compute in 32 bits.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Exact:
    """All coalitions of at most 16 players on all examples, without sampling: the reference for other methods.

    Example:
        >>> Exact().name
        'exact'
    """

    name: ClassVar[str] = "exact"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    def start(self, problem: Problem, seed: int) -> "ExactRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem.

        Raises:
            HeadwiseError: The problem has too many players.
        """
        if len(problem.players) > MOST_PLAYERS:
            raise HeadwiseError(
                f"{len(problem.players)} players have too many coalitions to enumerate: use at most {MOST_PLAYERS}, "
                "for instance layers, or another method"
            )
        return ExactRounds(self, problem)


class ExactRounds:
    """The state of the enumeration, which has one round.

    Args:
        method: The method.
        problem: The problem.
    """

    def __init__(self, method: Exact, problem: Problem) -> None:
        self.method, self.problem, self.engine = method, problem, problem.engine()
        self.values: Array | None = None

    @property
    def done(self) -> bool:
        """Whether the round is complete."""
        return self.values is not None

    @property
    def next_units(self) -> float:
        """Maximum cost: every coalition on every example."""
        return self.engine.most_units(2 ** len(self.problem.players) * len(self.problem.examples))

    def draw(self, first_draw: int) -> tuple[Arrays, int]:  # noqa: ARG002 - nothing is drawn
        """Compute the value of every coalition."""
        game, cost = self.problem.game, EngineCost()
        masks = all_coalitions(len(self.problem.players))
        found = []
        for examples in _chunks(len(self.problem.examples), max(1, _ROWS // len(masks))):
            # Sorted by example, because rows of one example share most layers.
            rows = self.engine.values(np.tile(masks, (len(examples), 1)), np.repeat(examples, len(masks)))
            found.append(rows.values.reshape(len(examples), len(masks), game.statistics))
            cost += rows.cost
        statistics = torch.cat(found).numpy()  # (examples, coalitions, statistics)
        values = [game.corpus(statistics[:, each].astype(np.float64)) for each in range(len(masks))]
        return {"values": np.array(values), "units": np.array(cost.units)}, 0

    def absorb(self, arrays: Arrays) -> None:
        """Add the values of all coalitions."""
        self.values = np.asarray(arrays["values"])

    @property
    def status(self) -> str:
        """Number of coalitions."""
        return f"{2 ** len(self.problem.players)} coalitions"

    def scores(self, units: float, seed: int) -> HeadScores:
        """The exact values; NaN before the round."""
        n, smallest = len(self.problem.players), self.problem.smallest
        if self.values is None:
            unknown = np.full(n, np.nan)
            return make_scores(self.problem, self.method, unknown, unknown, np.zeros(n), UNDECIDED * n, units, seed)
        value = average_marginals(self.values, smallest)
        joined = int((all_coalitions(n - 1).sum(1) >= smallest).sum())
        decision = tuple(_sign(each, float(np.abs(self.values).max())) for each in value.tolist())
        return make_scores(
            self.problem, self.method, value, np.zeros(n), np.full(n, joined), decision, units, seed, 0.0, "exact"
        )


def all_coalitions(players: int) -> NDArray[np.bool_]:
    """Every set of players, (2**players, players): row r contains player i if bit i of r is set.

    Example:
        >>> all_coalitions(2).astype(int)
        array([[0, 0],
               [1, 0],
               [0, 1],
               [1, 1]])
    """
    return (np.arange(2**players)[:, None] >> np.arange(players) & 1).astype(bool)


def average_marginals(values: Array, smallest: int = 0) -> Array:
    """Mean marginal of each player over coalitions of at least `smallest` players, (players,); sizes have equal weight.

    Args:
        values: The values of all coalitions, in the order of `all_coalitions`.
        smallest: The size of the smallest coalition that a player joins; 0 gives the Shapley value.

    Example:
        >>> average_marginals(np.array([0.0, 1.0, 2.0, 5.0])).tolist()
        [2.0, 3.0]
    """
    n = len(values).bit_length() - 1
    number = np.arange(2**n)
    sizes = all_coalitions(n).sum(1)
    found = []
    for player in range(n):
        without = number[(number >> player & 1) == 0]
        marginals = values[without | 1 << player] - values[without]
        by_size = [marginals[sizes[without] == size].mean() for size in range(smallest, n)]
        found.append(np.mean(by_size))
    return np.array(found)


def _chunks(total: int, size: int) -> Iterable[NDArray[np.int64]]:
    for start in range(0, total, size):
        yield np.arange(start, min(start + size, total))


def _sign(value: float, scale: float) -> Decision:
    if not abs(value) > _ROUNDING * scale:  # also true for NaN
        return "undecided"
    return "harmful" if value < 0 else "helpful"
