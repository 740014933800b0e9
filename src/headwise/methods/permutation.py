"""Plain Monte Carlo over permutations: players join one after the other, and each marginal is an observation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Problem, require_mean_game
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import mean_and_error
from headwise.scores import HeadScores
from headwise.stats import Decision, EmpiricalBernstein, SignTest, decide

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Permutation:
    """One random order of the players and one random example per walk (Castro et al., 2009).

    A walk visits the coalitions of the first k players of its order, from the estimand's smallest size to all players,
    on a single example. The step from k to k + 1 players is one observation of the player that joins. All sizes are
    equally frequent, and all coalitions of a size are equally likely, so the mean is an unbiased estimate of the
    estimand. More walks always improve the values, so the method runs until its budget is spent.

    Attributes:
        antithetic: Also walk each order with the joining players reversed, on the same example. The mean of a player's
            two marginals is one observation, with less variance if early and late marginals differ.
        walks: Number of orders in a round.
        error_rate: Probability of any wrong decision.

    Example:
        >>> Permutation(antithetic=True).name
        'permutation'
    """

    name: ClassVar[str] = "permutation"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    antithetic: bool = False
    walks: int = 8
    error_rate: float = 0.1

    def __post_init__(self) -> None:
        if self.walks < 1:
            raise HeadwiseError(f"a round needs at least one walk, not {self.walks}")

    def start(self, problem: Problem, seed: int) -> "PermutationRounds":
        """Start the method on a problem.

        Raises:
            HeadwiseError: The game is not a mean over examples.
        """
        require_mean_game(problem, instead="tmab")
        return PermutationRounds(self, problem, seed)


class PermutationRounds:
    """The state of permutation sampling.

    Args:
        method: The options.
        problem: The problem.
        seed: Seed of the draws.
    """

    def __init__(self, method: Permutation, problem: Problem, seed: int) -> None:
        self.method, self.problem = method, problem
        self.draws = Draws(seed, "permutation")
        self.engine = problem.engine()
        self.moments = EmpiricalBernstein.start(len(problem.players))
        self.test = _start_test(problem)

    @property
    def done(self) -> bool:
        """False: more walks always improve the values."""
        return False

    @property
    def next_units(self) -> float:
        """Maximum cost: one pass for every row, without shared layers."""
        sizes = len(self.problem.players) - self.problem.smallest + 1
        return self.engine.most_units(self.method.walks * (1 + self.method.antithetic) * sizes)

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Compute the values of the coalitions of some walks."""
        walks, smallest = self.method.walks, self.problem.smallest
        orders = draw_orders(self.draws, first_draw, walks, len(self.problem.players))
        examples = self.draws.examples(first_draw, walks, len(self.problem.examples))
        if self.method.antithetic:
            both = np.concatenate([orders, reversed_joiners(orders, smallest)])
            found, units = self._walk(both, np.tile(examples, 2))
            forth, back = np.split(found, 2)  # (walks, joiners) each
            marginals = (forth + back[:, ::-1]) / 2
        else:
            marginals, units = self._walk(orders, examples)
        arrays = {"players": orders[:, smallest:].ravel(), "marginals": marginals.ravel()}
        return arrays | {"units": np.array(units)}, walks

    def _walk(self, orders: NDArray[np.int64], examples: NDArray[np.int64]) -> tuple[Array, float]:
        """The marginals of the players that join on each walk, (walks, joiners), and their cost in units."""
        masks = walk_masks(orders, self.problem.smallest)  # (walks, sizes, players)
        walks, sizes, players = masks.shape
        found = self.engine.values(masks.reshape(-1, players), np.repeat(examples, sizes))
        return np.diff(found.values.double().numpy().reshape(walks, sizes), axis=1), found.cost.units

    def absorb(self, arrays: Arrays) -> None:
        """Add the marginals of some walks."""
        players, marginals = arrays["players"], arrays["marginals"]
        self.moments = self.moments.update(players, marginals)
        if self.test is not None:
            self.test = self.test.update(players, marginals)

    @property
    def decision(self) -> tuple[Decision, ...]:
        """The decision for each player so far."""
        if self.test is None:
            return UNDECIDED * len(self.problem.players)
        return decide(*self.test.e_values(best=True), error_rate=self.method.error_rate)

    @property
    def status(self) -> str:
        """Number of decided players."""
        return f"{len(self.problem.players) - self.decision.count('undecided')} decided"

    def scores(self, units: float, seed: int) -> HeadScores:
        """The means so far."""
        mean, stderr = mean_and_error(self.moments)
        error_rate, confidence = (self.method.error_rate, "betting") if self.test is not None else (None, "none")
        return make_scores(
            self.problem,
            self.method,
            mean,
            stderr,
            self.moments.count,
            self.decision,
            units,
            seed,
            error_rate,
            confidence,
        )


def _start_test(problem: Problem) -> SignTest | None:
    """A sign test; None for games without bounds, for which it is not valid."""
    if problem.game.bounds is None:
        return None
    reach = problem.game.bounds[1] - problem.game.bounds[0]
    return SignTest.start(len(problem.players), -reach, reach)


def draw_orders(draws: Draws, first: int, count: int, players: int) -> NDArray[np.int64]:
    """Random orders of the players, one per draw, (count, players).

    Example:
        >>> draw_orders(Draws(7), first=0, count=2, players=4)
        array([[3, 2, 0, 1],
               [0, 1, 3, 2]])
    """
    return np.argsort(draws.uniform(first, count, players), axis=1, kind="stable")


def walk_masks(orders: NDArray[np.int64], smallest: int) -> NDArray[np.bool_]:
    """The coalitions of the first smallest..all players of each order, (orders, sizes, players).

    Example:
        >>> walk_masks(np.array([[2, 0, 1]]), smallest=1).astype(int)
        array([[[0, 0, 1],
                [1, 0, 1],
                [1, 1, 1]]])
    """
    place = np.argsort(orders, axis=1)  # (orders, players): when each player joins
    sizes = np.arange(smallest, orders.shape[1] + 1)
    return place[:, None, :] < sizes[:, None]


def reversed_joiners(orders: NDArray[np.int64], smallest: int) -> NDArray[np.int64]:
    """Orders with the same first `smallest` players, after which the others join in reverse, (orders, players).

    A player that joined k others now joins smallest + players - 1 - k, so all sizes are still equally likely.

    Example:
        >>> reversed_joiners(np.array([[3, 1, 0, 2]]), smallest=1)
        array([[3, 2, 0, 1]])
    """
    return np.concatenate([orders[:, :smallest], orders[:, smallest:][:, ::-1]], axis=1)
