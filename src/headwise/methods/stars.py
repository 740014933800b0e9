"""Stars: base coalitions with single flips, and the gradient of all gates as what the flips correct.

A draw is a coalition and an example of its own. At every base the gradient of the soft value says what each player is
worth there, for two passes and all players at once, nearly right. At some bases single players are flipped to see what
they are really worth, and how far the gradient was off. The estimate is the mean of the gradients plus the mean of
what the flips correct, each flip weighed by one over the chance that it was made. That chance depends on earlier
rounds alone, so every round is an unbiased estimate however flips are allocated: more to players whose gradients are
less reliable, most of all to those that are still undecided as long as these are many, and some to every player in
every round. Were the decided ones left out, their values would stay as rough as they were when they were decided.

For each player, rounds are averaged with its chance of a flip as their weight: a round with few flips of it says less.
The weights, too, come from earlier rounds alone, so that the weighted sum of errors has mean zero at all times.
Dividing it by the sum of the weights, which is not quite the same in every run, leaves a bias that falls with the
number of rounds while the standard error falls with its square root; at more than a few rounds it cannot be seen.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.engine import Cost
from headwise.errors import HeadwiseError
from headwise.games import AccuracyGame, ProbabilityGame
from headwise.games.pair import PairGame
from headwise.methods.base import Arrays, Problem
from headwise.methods.results import UNDECIDED, make_scores
from headwise.methods.walks import flip_signs, star_weights
from headwise.scores import HeadScores
from headwise.stats import Decision, SignTest, decide
from headwise.stats.asymptotic import asymptotic_radius

Array = NDArray[np.float64]
Confidence = Literal["betting", "asymptotic"]

#: Share of the flips that all players get alike, whatever is known of them.
_EVEN = 0.25
#: Flips of all players together that a player's own few are mixed with.
_PRIOR = 8.0
#: Flips of a player before its variance is to be trusted.
_FEWEST_FLIPS = 32
#: Standard errors by which the hard value may speak against a harmful player.
_AGAINST = 2.0


@dataclass(frozen=True)
class Stars:
    """The default method: unbiased, and cheap where gradients tell most of the truth.

    Attributes:
        error_rate: Chance of any wrong decision over all players.
        confidence: `asymptotic` holds at all times as observations grow, with gradients doing their share of the work.
            `betting` holds for any distribution and any number of them, and pays for it: no bound of that kind can
            tell a value from 0 by fewer than ln(2·players/error_rate) / |value| flips of the player, since events
            as rare as that could still turn its sign. Values of heads are often below 1/1000.
        bases: Bases with flips in a round.
        gradients: Bases with a gradient for each one with flips.
        flips: Players flipped at a base.
        confirm: Whether a harmful player must not be helpful by accuracy, where the game is a soft one.
    """

    error_rate: float = 0.1
    confidence: Confidence = "asymptotic"
    bases: int = 16
    gradients: int = 5
    flips: int = 24
    confirm: bool = True
    name: str = "stars"

    def __post_init__(self) -> None:
        if self.confidence not in get_args(Confidence):
            raise HeadwiseError(f"confidence is one of {', '.join(get_args(Confidence))}, not {self.confidence!r}")
        if not 0 < self.error_rate < 1:
            raise HeadwiseError(f"an error rate is between 0 and 1, not {self.error_rate}")

    def start(self, problem: Problem, seed: int) -> "StarRounds":
        """Begin work on a problem.

        Raises:
            HeadwiseError: The game is no mean over examples.
        """
        if problem.game.statistics > 1:
            raise HeadwiseError(
                f"the game {problem.game.name!r} is no mean over examples, so one says nothing: take 'probability'"
            )
        return StarRounds(self, problem, seed)


#: Sums over flips that are kept for each player: how often, and products of value, gradient and hard value.
_SUMS = ("count", "xg", "gg", "xx", "hg")


class StarRounds:
    """Stars at work."""

    def __init__(self, method: Stars, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        n = len(problem.players)
        self.sums = {name: np.zeros(n) for name in _SUMS}
        self.blocks = 0
        self._decided: tuple[Decision, ...] | None = None
        # Weights of blocks and their squares, (players,); weighted sums of blocks, by value and by hard value.
        self.weight, self.weight_squares = np.zeros(n), np.zeros(n)
        self.totals, self.squares, self.crosses = np.zeros((3, 2, n))
        self.test = self._start_test()
        soft = problem.game if problem.game.differentiable else ProbabilityGame()
        hard = AccuracyGame() if problem.game.differentiable else problem.game
        self.gradient_engine, self.flip_engine = problem.engine(soft), problem.engine(PairGame(problem.game, hard))

    @property
    def done(self) -> bool:
        """Whether every player is decided."""
        return self.blocks > 0 and "undecided" not in self.decisions()

    @property
    def next_units(self) -> float:
        """What the next round may cost: gradients, bases, flips, and bases run again where a star fills a batch."""
        rate = self.flip_chances()
        again = 2 + (self._flips + 1) * int(self.problem.examples.lengths.max()) / 2048
        return self.method.bases * (2 * self.method.gradients + again + float(rate @ self.flip_engine.flip_units) * 1.2)

    @property
    def word(self) -> str:
        """How many players are decided."""
        decided = sum(decision != "undecided" for decision in self.decisions())
        return f"{decided} of {len(self.problem.players)} decided"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """A round: gradients at all bases, flips at the first of each block."""
        method, n = self.method, len(self.problem.players)
        count = method.bases * method.gradients
        draws = Draws(self.seed, "stars")
        bases = draws.coalitions(first_draw, count, n, self.problem.smallest, n)
        index = draws.examples(first_draw, count, len(self.problem.examples))
        # From nothing, so that a resumed run sums the same numbers.
        self.gradient_engine.cost = self.flip_engine.cost = Cost()
        _, slopes = self.gradient_engine.gradients(bases, index)
        weights = star_weights(bases, self.problem.smallest)  # (bases, players)
        gradients = weights * slopes.numpy().astype(np.float64)
        stars = slice(None, None, method.gradients)
        players = self._choose(first_draw)  # (stars, flips)
        found = self.flip_engine.flips(bases[stars], index[stars], self._counting(players, weights[stars]))
        differences = (found.flipped - found.base[:, None]).nan_to_num(0.0).numpy().astype(np.float64)
        row = np.arange(method.bases)[:, None]
        scale = (weights[stars] * flip_signs(bases[stars]))[row, players]  # (stars, flips)
        arrays = self._reduce(gradients, players, differences * scale[..., None])
        units = self.gradient_engine.cost.units + self.flip_engine.cost.units
        return {**arrays, "units": np.array(units)}, count

    def absorb(self, arrays: Arrays) -> None:
        """Take in the sums of a round."""
        for name in _SUMS:
            self.sums[name] = self.sums[name] + arrays[name]
        blocks, chance = int(arrays["blocks"]), arrays["chance"]
        self.blocks += blocks
        self.weight, self.weight_squares = self.weight + chance * blocks, self.weight_squares + chance**2 * blocks
        self.totals = self.totals + chance * arrays["totals"]
        self.crosses = self.crosses + chance**2 * arrays["totals"]
        self.squares = self.squares + chance**2 * arrays["squares"]
        if self.test is not None:
            self.test = self.test.update(arrays["players"], arrays["observed"])
        self._decided = None

    def scores(self, units: float, seed: int) -> HeadScores:
        """The estimates so far."""
        value, stderr = self.estimates()
        return make_scores(
            self.problem, self.method.name, value[0], stderr[0], self.sums["count"], self.decisions(), units, seed,
            self.method.error_rate, self.method.confidence,
        )  # fmt: skip

    def estimates(self) -> tuple[Array, Array]:
        """Values and standard errors, (2, players) each: of the game, and of accuracy."""
        if not self.blocks:
            return np.full_like(self.totals, np.nan), np.full_like(self.totals, np.nan)
        mean = self.totals / self.weight
        spread = (self.squares - 2 * mean * self.crosses + mean**2 * self.weight_squares).clip(0)
        return mean, np.sqrt(spread) / self.weight * np.sqrt(self.blocks / max(self.blocks - 1, 1))

    def decisions(self) -> tuple[Decision, ...]:
        """What is decided so far."""
        if self._decided is None:
            self._decided = self._decide()
        return self._decided

    def _decide(self) -> tuple[Decision, ...]:
        n = len(self.problem.players)
        (value, hard), (stderr, hard_error) = self.estimates()
        if self.method.confidence == "asymptotic":
            if not self.blocks:
                return UNDECIDED * n
            count = self.weight**2 / self.weight_squares  # blocks of equal weight that would say as much
            radius = asymptotic_radius(count, count * stderr**2, self.method.error_rate / n)
            radius = np.where(self.sums["count"] >= _FEWEST_FLIPS, radius, np.inf)
            found: list[Decision] = [
                "harmful" if high < 0 else "helpful" if low > 0 else "undecided"
                for low, high in zip(value - radius, value + radius, strict=True)
            ]
        elif self.test is None or not self.blocks:
            return UNDECIDED * n
        else:
            found = list(decide(*self.test.e_values(best=True), self.method.error_rate, "holm"))
        if self.method.confirm:
            against = hard > _AGAINST * hard_error
            found = ["undecided" if each == "harmful" and no else each for each, no in zip(found, against, strict=True)]
        return tuple(found)

    def flip_chances(self) -> Array:
        """The chance of each player to be flipped at a base, (players,); they sum to the flips of a base."""
        n = len(self.problem.players)
        wanted = np.sqrt(self._residual() / self.flip_engine.flip_units)
        undecided = np.array([decision == "undecided" for decision in self.decisions()])
        # As much for them alone as they are of all: where few are left, more flips would decide hardly any of them.
        apart = undecided.mean()
        alone = wanted * undecided / (wanted * undecided).sum() if apart else 0.0
        shares = apart * alone + (1 - apart) * wanted / wanted.sum()
        return capped_shares(_EVEN / n + (1 - _EVEN) * shares, self._flips)

    def _choose(self, first_draw: int) -> NDArray[np.int64]:
        """The players to flip at each base, (stars, flips): each with its chance, whatever the base is."""
        ends = np.cumsum(self.flip_chances())
        ends[-1] = self._flips  # rounding
        start = Draws(self.seed, "star flips").uniform(first_draw, self.method.bases, 1)  # (stars, 1)
        return np.searchsorted(ends, start + np.arange(self._flips), side="right").clip(max=len(ends) - 1)

    def _counting(self, players: NDArray[np.int64], weights: Array) -> NDArray[np.int64]:
        """The flips that have to be made: those without weight count as nothing, whatever they would show."""
        return np.where(np.take_along_axis(weights, players, axis=1) > 0, players, -1)

    def _reduce(self, gradients: Array, players: NDArray[np.int64], marginals: Array) -> Arrays:
        """A round's sums: gradients (bases, players), marginals by value and hard value (stars, flips, 2)."""
        method, n = self.method, len(self.problem.players)
        blocks = gradients.reshape(method.bases, method.gradients, n)
        at_star = np.take_along_axis(blocks[:, 0], players, axis=1)  # (stars, flips)
        chance = self.flip_chances()
        totals, squares = [], []
        for which in (0, 1):
            slope = self._slope(which)
            corrected = slope * blocks.mean(1)  # (stars, players)
            correction = (marginals[..., which] - slope[players] * at_star) / chance[players]
            np.add.at(corrected, (np.arange(method.bases)[:, None], players), correction)
            totals.append(corrected.sum(0))
            squares.append((corrected**2).sum(0))
        x, h = marginals[..., 0], marginals[..., 1]
        products = {"count": np.ones_like(x), "xg": x * at_star, "gg": at_star**2, "xx": x * x, "hg": h * at_star}
        sums = {name: np.bincount(players.ravel(), each.ravel(), n) for name, each in products.items()}
        return {
            **sums,
            "blocks": np.array(method.bases),
            "chance": chance,
            "totals": np.stack(totals),
            "squares": np.stack(squares),
            "players": players.ravel(),
            "observed": x.ravel(),
        }

    def _slope(self, which: int) -> Array:
        """What a gradient of 1 stands for, by value or by hard value, from earlier rounds: (players,)."""
        xg, gg = self.sums["hg" if which else "xg"], self.sums["gg"]
        if gg.sum() == 0:
            return np.ones_like(gg)
        mean = gg.sum() / max(self.sums["count"].sum(), 1)
        found: Array = (xg + _PRIOR * mean * xg.sum() / gg.sum()) / (gg + _PRIOR * mean)
        return found

    def _residual(self) -> Array:
        """Variance of what gradients leave unexplained, (players,)."""
        slope, s = self._slope(0), self.sums
        left = (s["xx"] - 2 * slope * s["xg"] + slope**2 * s["gg"]).clip(0)
        if left.sum() == 0:
            return np.ones_like(left)
        # The share that is unexplained is much the same for all players, the variance itself is not.
        usual = left.sum() / s["xx"].sum() * s["xx"] / s["count"].clip(1)
        found: Array = (left + _PRIOR * usual) / (s["count"] + _PRIOR)
        return found.clip(found.max() * 1e-6)

    def _start_test(self) -> SignTest | None:
        """A test of signs; none for games without bounds, which nothing holds for."""
        bounds = self.problem.game.bounds
        if bounds is None:
            return None
        n, m = len(self.problem.players), self.problem.smallest
        most = (bounds[1] - bounds[0]) * float(star_weights(np.ones((1, n), dtype=bool), m).max())
        return SignTest.start(n, -most, most)

    @property
    def _flips(self) -> int:
        return min(self.method.flips, len(self.problem.players))


def capped_shares(weights: Array, total: float) -> Array:
    """Chances in proportion to weights that sum to a total, none above 1.

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
