"""Leave one out: how much the value falls when one player is removed from the full model."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Problem, require_mean_game
from headwise.methods.example_pass import ExamplePass
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import SampleSums
from headwise.scores import HeadScores
from headwise.stats import Decision, chance_below, decide

Array = NDArray[np.float64]

#: Minimum number of examples for decisions: with fewer, no test of a mean is reliable if large effects are rare.
FEWEST = 128
#: A variance estimated from n examples is multiplied by 1 + 4/√n, because many heads have a few rare and large effects.
_ALLOWANCE = 4.0


@dataclass(frozen=True)
class LeaveOneOut:
    """The mean over examples of V(all players) − V(all players but one).

    The estimand is `leave-one-out`, not the Shapley value: a player whose work others can take over has a value near 0.
    Examples are used once each, in a random order that depends on the seed only. Players are decided after the last
    example, never before, so there is a single look at the data.

    Attributes:
        error_rate: Probability of any wrong decision over all players, for examples that are a random sample of the
            language. It is asymptotic: it holds for many examples.
        examples: Number of examples in a round.
    """

    name: ClassVar[str] = "leave-one-out"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    error_rate: float = 0.1
    examples: int = 8

    def __post_init__(self) -> None:
        if not 0 < self.error_rate < 1:
            raise HeadwiseError(f"an error rate must be between 0 and 1, not {self.error_rate}")
        if self.examples < 1:
            raise HeadwiseError(f"a round needs at least one example, not {self.examples}")

    def start(self, problem: Problem, seed: int) -> "LeaveOneOutRounds":
        """Start the method on a problem.

        Raises:
            HeadwiseError: The game is not a mean over examples.
        """
        require_mean_game(problem)
        return LeaveOneOutRounds(self, problem, seed)


class LeaveOneOutRounds(ExamplePass):
    """One pass over the examples; all players are removed in turn from each."""

    def __init__(self, method: LeaveOneOut, problem: Problem, seed: int) -> None:
        super().__init__(problem, problem.engine(), method.examples)
        self.method = method
        self.cubes = np.zeros(len(problem.players))
        self.order: NDArray[np.int64] = np.argsort(
            Draws(seed, "leave-one-out").uniform(0, 1, len(problem.examples))[0], kind="stable"
        )

    @property
    def next_units(self) -> float:
        """Maximum cost of the next round: the full model and one flip of each player for every example."""
        count = self.next_examples
        rows = count * (len(self.problem.players) + 1)
        return self.engine.most_units(rows, shared=count * (1 + float(self.engine.flip_units.sum())))

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The differences of the next examples."""
        n = len(self.problem.players)
        index = self.order[first_draw : first_draw + self.method.examples]
        found = self.engine.flips(np.ones((len(index), n), dtype=bool), index, np.tile(np.arange(n), (len(index), 1)))
        differences = found.base.double().numpy()[:, None] - found.flipped.double().numpy()  # (examples, players)
        sums = {**SampleSums.arrays(differences), "cubes": (differences**3).sum(0)}
        return {**sums, "units": np.array(found.cost.units)}, len(index)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        super().absorb(arrays)
        self.cubes = self.cubes + arrays["cubes"]

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean differences; decisions if every example was used."""
        n = len(self.problem.players)
        decisions = decide_means(self.sums, self.cubes, self.method.error_rate) if self.done else UNDECIDED * n
        return make_scores(
            self.problem, self.method, self.sums.mean, self.sums.stderr, self.counts, decisions, units,
            seed, self.method.error_rate, "holm", estimand="leave-one-out",
        )  # fmt: skip


def decide_means(sums: SampleSums, cubes: Array, error_rate: float) -> tuple[Decision, ...]:
    """Decide the signs of means after the last sample, by Holm's procedure over all players.

    A p-value is the larger one of Student's t-test and of the same test with Hall's correction for skewness (1992),
    `T + γT²/3 + γ²T³/27 + γ/(6n)` in place of `T = mean / standard deviation`. The first alone errs if large effects
    are rare and of one sign, the second alone if samples are mostly 0.

    Args:
        sums: The sums of each player's samples. With fewer than 128 samples, nothing is decided.
        cubes: Sum of the cubes of each player's samples, (players,).
        error_rate: Probability of any wrong decision.

    Example:
        >>> samples = np.random.default_rng(0).normal([-1.0, 0.0, 1.0], 1.0, (200, 3))
        >>> sums = SampleSums.start(3).add(SampleSums.arrays(samples))
        >>> decide_means(sums, (samples**3).sum(0), error_rate=0.1)
        ('harmful', 'undecided', 'helpful')
    """
    n, mean = sums.count, sums.mean
    if n < FEWEST:
        return UNDECIDED * len(mean)
    spread = sums.stderr * np.sqrt(n)
    third = cubes / n - 3 * mean * sums.squares / n + 2 * mean**3
    plain, skew = (
        np.divide(each, spread**power, out=np.zeros_like(mean), where=spread > 0)
        for each, power in ((mean, 1), (third, 3))
    )
    corrected = plain + skew * plain**2 / 3 + skew**2 * plain**3 / 27 + skew / (6 * n)
    error = np.full(len(mean), np.sqrt((1 + _ALLOWANCE / np.sqrt(n)) / n))
    harmful, helpful = (
        np.maximum(*(chance_below(sign * each, error, n - 1) for each in (plain, corrected))) for sign in (1, -1)
    )
    with np.errstate(divide="ignore"):
        return decide(1 / harmful, 1 / helpful, error_rate)  # an e-value of 1/p stands for the p-value p
