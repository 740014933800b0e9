"""Truncated Monte Carlo with bandit stopping, as described by Held & Yang."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Problem
from headwise.methods.coalitions import value_coalitions
from headwise.methods.head_scores import make_scores
from headwise.methods.moments import mean_and_error
from headwise.methods.permutation import draw_orders, walk_masks
from headwise.scores import HeadScores
from headwise.stats import Decision, EmpiricalBernstein

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tmab:
    """Random permutations over a fixed sample, until an empirical Bernstein bound decides every player's sign.

    Held & Yang, "Shapley Head Pruning: Identifying and Removing Interference in Multilingual Transformers" (EACL 2023),
    section 3.2. The value of a coalition is its metric on one sample of examples. A permutation is followed from the
    full model down to the smallest coalition of the estimand, and the marginal of each player is one observation. A
    player stops once `σ·sqrt(2·ln(3/δ)/t) + 3·R·ln(3/δ)/t < |mean|`. Stopped players are removed without computing
    their marginal, but the marginal of the next player still needs the value of the coalition before it.

    As in the paper, the bound is checked after every observation, which its guarantee does not cover, and it is not
    corrected for the number of players. `permutation` and `stars` are valid in both respects. The released code
    differs from the paper; this implements the paper.

    Attributes:
        sample: Number of examples in the sample; all examples if there are fewer. The sample depends only on the seed
            and the size of the data set.
        value_range: R.
        error_rate: δ, for each player separately.

    Example:
        >>> Tmab(sample=256).name
        'tmab'
    """

    name: ClassVar[str] = "tmab"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    sample: int = 512
    value_range: float = 1.0
    error_rate: float = 0.1

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise HeadwiseError(f"a sample needs at least one example, not {self.sample}")

    def start(self, problem: Problem, seed: int) -> "TmabRounds":
        """Start the method on a problem."""
        return TmabRounds(self, problem, seed)


class TmabRounds:
    """The state of the method: a round is one permutation.

    Args:
        method: The options.
        problem: The problem.
        seed: Seed of the draws.
    """

    def __init__(self, method: Tmab, problem: Problem, seed: int) -> None:
        self.method, self.problem = method, problem
        self.draws = Draws(seed, "tmab")
        self.engine = problem.engine()
        self.sample = draw_sample(seed, method.sample, len(problem.examples))
        self.moments = EmpiricalBernstein.start(len(problem.players))

    @property
    def stopped(self) -> NDArray[np.bool_]:
        """Whether the sign of each player is decided, (players,). It stays decided, without further observations."""
        radius = self.moments.radius(self.method.value_range, self.method.error_rate)
        return np.asarray(radius < np.abs(self.moments.mean))

    @property
    def done(self) -> bool:
        """Whether all signs are decided."""
        return bool(self.stopped.all())

    @property
    def next_units(self) -> float:
        """Maximum cost: every coalition that the next permutation may need, on every example of the sample."""
        active = int((~self.stopped).sum())
        sizes = len(self.problem.players) - self.problem.smallest + 1
        return self.engine.most_units(min(sizes, 2 * active) * len(self.sample))

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Compute the marginals of one permutation."""
        smallest = self.problem.smallest
        [order] = draw_orders(self.draws, first_draw, 1, len(self.problem.players))
        joiners = order[smallest:]
        active = np.flatnonzero(~self.stopped[joiners])  # the i-th step is from smallest + i players to one more
        needed = np.union1d(active, active + 1)
        values = np.full(len(joiners) + 1, np.nan)
        masks = walk_masks(order[None], smallest)[0, needed]
        values[needed], cost = value_coalitions(
            self.engine, self.problem.game, masks, np.tile(self.sample, (len(needed), 1))
        )
        marginals = values[active + 1] - values[active]
        return {"players": joiners[active], "marginals": marginals, "units": np.array(cost.units)}, 1

    def absorb(self, arrays: Arrays) -> None:
        """Add the marginals of a permutation."""
        self.moments = self.moments.update(arrays["players"], arrays["marginals"])

    @property
    def status(self) -> str:
        """Number of decided players."""
        return f"{int(self.stopped.sum())} decided"

    def scores(self, units: float, seed: int) -> HeadScores:
        """The means so far."""
        mean, stderr = mean_and_error(self.moments)
        return make_scores(
            self.problem,
            self.method,
            mean,
            stderr,
            self.moments.count,
            tuple(_decision(*each) for each in zip(self.stopped.tolist(), mean.tolist(), strict=True)),
            units,
            seed,
            self.method.error_rate,
            "bernstein",
        )


def draw_sample(seed: int, size: int, total: int) -> NDArray[np.int64]:
    """A sorted random sample of examples without replacement; all examples if there are at most `size`.

    Example:
        >>> draw_sample(seed=7, size=3, total=10)
        array([0, 3, 4])
    """
    chance = Draws(seed, "sample").uniform(0, 1, total)[0]
    return np.sort(np.argsort(chance, kind="stable")[:size])


def _decision(stopped: bool, mean: float) -> Decision:
    if not stopped:
        return "undecided"
    return "harmful" if mean < 0 else "helpful"
