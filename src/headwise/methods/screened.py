"""A gradient screen chooses some of the players, and stars decides only those.

Held & Yang recommend to find sensitive heads by gradients first and to estimate Shapley values only for them. The
players that the screen does not keep are never flipped, but they are in coalitions like all others. The game and its
estimand are therefore those of `stars`, and values of the two methods can be compared. The draws of the screen are not
used again, so the values of the players that are kept are as unbiased as those of `stars`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.games import ProbabilityGame
from headwise.methods.base import Arrays, Problem, Rounds
from headwise.methods.gradient_screen import GradientScreen
from headwise.methods.head_scores import make_scores
from headwise.methods.stars import Stars
from headwise.scores import HeadScores

By = Literal["lowest", "sensitive"]


@dataclass(frozen=True)
class Screened:
    """Stars on the players that are most likely harmful, or most sensitive, by their mean gradients.

    A player that the screen does not keep stays undecided. Its value is that of the screen, which is biased, and it has
    no standard error.

    Attributes:
        units: Budget, needed in advance to set the cost of the screen.
        screen: Share of the budget for the screen, which has at least one round.
        keep: Share of the players that are kept.
        by: Which players are kept: `lowest`, those with the lowest mean gradients, to find harmful players; or
            `sensitive`, those with the largest absolute mean gradients, which are often helpful players.
        error_rate: Probability of any wrong decision over all players that are kept.
        bases: Number of coalitions in a round of the screen.

    Example:
        >>> Screened(units=6000, keep=0.25).name
        'screened'
    """

    name: ClassVar[str] = "screened"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True  # where there is a standard error
    needs_units: ClassVar[bool] = True
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    units: float = 10_000.0
    screen: float = 0.1
    keep: float = 0.5
    by: By = "lowest"
    error_rate: float = 0.1
    bases: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.screen < 1:
            raise HeadwiseError(f"screen of screened must be a share of the budget between 0 and 1, not {self.screen}")
        if not 0 < self.keep <= 1:
            raise HeadwiseError(f"keep of screened must be a share of the players above 0, at most 1, not {self.keep}")
        if self.by not in get_args(By):
            raise HeadwiseError(f"by of screened must be one of {', '.join(get_args(By))}, not {self.by!r}")
        GradientScreen(self.bases), Stars(self.error_rate)  # these check the other options

    def start(self, problem: Problem, seed: int) -> "ScreenedRounds":
        """Start the method on a problem.

        Raises:
            HeadwiseError: The game is not a mean over examples.
        """
        return ScreenedRounds(self, problem, seed)


class ScreenedRounds:
    """The state: first the rounds of the screen, then those of stars."""

    def __init__(self, method: Screened, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        soft = problem if problem.game.differentiable else replace(problem, game=ProbabilityGame())
        self.screen = GradientScreen(method.bases).start(soft, seed)
        self.stars = Stars(method.error_rate).start(problem, seed)
        self.kept: NDArray[np.int64] | None = None  # until the screen has finished
        self.units = 0.0

    @property
    def done(self) -> bool:
        """Whether every player that is kept is decided."""
        return self._current.done

    @property
    def next_units(self) -> float:
        """Maximum cost of the next round."""
        return self._current.next_units

    @property
    def status(self) -> str:
        """The state of the screen or of stars."""
        if self.kept is None:
            return f"screen: {self.screen.status}"
        return f"{self.stars.status}, {len(self.problem.players) - len(self.kept)} screened out"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """A round of the screen or of stars."""
        return self._current.draw(first_draw)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round; when the share of the screen is spent, choose the players to keep."""
        self._current.absorb(arrays)
        self.units += float(arrays["units"])
        if self.kept is None and self.units + self.screen.next_units > self.method.screen * self.method.units:
            mean = self.screen.sums.mean
            self.kept = largest(-mean if self.method.by == "lowest" else np.abs(mean), self.method.keep)
            self.stars = Stars(self.method.error_rate).start(self.problem, self.seed, self.kept)

    def scores(self, units: float, seed: int) -> HeadScores:
        """The estimates of stars for the players that are kept, and of the screen for the others."""
        found, sums, n = self.stars.scores(units, seed), self.screen.sums, len(self.problem.players)
        kept = np.zeros(n, dtype=bool)
        if self.kept is not None:
            kept[self.kept] = True
        known = kept & (np.array(found.count) > 0)
        origin = found.provenance
        return make_scores(
            self.problem, self.method, np.where(known, found.values(), sums.mean),
            np.where(known, found.stderr, np.nan), np.where(known, found.count, sums.count), found.decision, units,
            seed, origin.error_rate, f"{origin.confidence}, for {kept.sum()} players that a screen kept",
        )  # fmt: skip

    @property
    def _current(self) -> Rounds:
        return self.screen if self.kept is None else self.stars


def largest(values: NDArray[np.float64], share: float) -> NDArray[np.int64]:
    """The indices of the largest values, in ascending order: a share of them, at least one.

    Example:
        >>> largest(np.array([0.1, 0.4, 0.3, 0.2]), 0.5).tolist()
        [1, 2]
    """
    # In floating point 0.07 · 100 is 7.000…01, but the number of players is 7.
    count = max(1, int(np.ceil(share * len(values) - 1e-9)))
    return np.sort(np.argsort(-values, kind="stable")[:count])
