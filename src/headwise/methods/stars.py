"""Stars: values of single flips at random coalitions, with gradients of the gates as a control variate.

A draw is a base: a random coalition and a random example. The gradient of the soft value at a base predicts the
marginal of every player for the cost of two passes. At one base of each block some players are flipped, which gives
their true marginals and the errors of the predictions. The estimate is the mean of the predictions plus the mean of the
errors, each divided by the probability of the flip.

A prediction is a limited gradient times a slope (see `slopes`). Limits, slopes and probabilities of players come from
earlier rounds, and the probability of a base from the block's gradients, so every round is unbiased for any of their
values. Players with less reliable predictions and undecided players get more flips, and every player gets some. If
predictions save less than gradients cost, rounds have no gradients, and stars is plain sampling of flips. A small share
of rounds still has gradients, in case more flips show that they help. The first rounds are small, because slopes start
at 0, and so that a small budget is used almost completely.

Each player's rounds are averaged with its probability of a flip as weight. The weights also come from earlier rounds,
so the weighted sum of errors has mean zero. Dividing by the sum of weights causes a bias that falls with the number of
rounds, while the standard error falls with its square root.

Scores also have shrunk values for ranking (see `corrections`). Decisions use the unbiased ones.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.engine import EngineCost
from headwise.errors import HeadwiseError
from headwise.games import ProbabilityGame
from headwise.games.means import hard_game
from headwise.games.pair import PairGame
from headwise.methods.base import Arrays, Problem, require_mean_game
from headwise.methods.corrections import CORRECTIONS, Corrections, sum_corrections
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.marginals import flip_signs, star_weights
from headwise.methods.sampling import capped_shares, most_drawn, systematic_sample
from headwise.methods.slopes import PRIOR, Slopes, sum_flips
from headwise.scores import HeadScores
from headwise.stats import Decision, SignTest, decide
from headwise.stats.asymptotic import asymptotic_radius

Array = NDArray[np.float64]
Confidence = Literal["betting", "asymptotic"]

#: Share of the flips that is distributed equally over all players.
_EVEN = 0.25
#: Share of the probability of being chosen for flips that is distributed equally over the bases of a block.
ANY = 0.2
#: Minimum number of flips of a player for a reliable variance.
_FEWEST_FLIPS = 32
#: A variance estimated from f flips is multiplied by 1 + 4/√f: one standard error of the variance of marginals with a
#: kurtosis of 17, because many heads have a few rare and large marginals.
_ALLOWANCE = 4.0
#: Share of the units used for gradients even if they do not pay.
_EXPLORED = 0.05
#: Number of standard errors above 0 from which the hard value contradicts a harmful player.
_AGAINST = 2.0


@dataclass(frozen=True)
class Stars:
    """The default method: unbiased, and efficient if gradients predict marginals well.

    Attributes:
        error_rate: Probability of any wrong decision over all players.
        confidence: `asymptotic` is anytime-valid for large numbers of observations, and benefits from gradients.
            `betting` is valid for any distribution and any number of observations, but needs more of them: no such
            bound can distinguish a value from 0 with fewer than ln(2·players/error_rate) / |value| flips of the
            player, since rarer events could still change its sign. Values of heads are often below 1/1000.
        bases: Number of bases with flips in a round, one per block.
        gradients: Number of bases with a gradient in a block.
        flips: Number of players flipped at a base.
        confirm: For soft games, leave a harmful player undecided if it is helpful by accuracy.
    """

    name: ClassVar[str] = "stars"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 4

    error_rate: float = 0.1
    confidence: Confidence = "asymptotic"
    bases: int = 16
    gradients: int = 4
    flips: int = 36
    confirm: bool = True

    def __post_init__(self) -> None:
        if self.confidence not in get_args(Confidence):
            raise HeadwiseError(f"confidence must be one of {', '.join(get_args(Confidence))}, not {self.confidence!r}")
        if not 0 < self.error_rate < 1:
            raise HeadwiseError(f"an error rate must be between 0 and 1, not {self.error_rate}")
        if wrong := [name for name in ("bases", "gradients", "flips") if getattr(self, name) < 1]:
            raise HeadwiseError(f"{wrong[0]} of stars must be at least 1, not {getattr(self, wrong[0])}")

    def start(self, problem: Problem, seed: int, flippable: NDArray[np.int64] | None = None) -> "StarRounds":
        """Start the method on a problem.

        Args:
            problem: The problem.
            seed: Seed of its draws.
            flippable: The players that are flipped and decided, in ascending order; all by default. Coalitions consist
                of all players in any case, so the estimand does not depend on it. Other players have no value.

        Raises:
            HeadwiseError: The game is not a mean over examples.
        """
        require_mean_game(problem)
        return StarRounds(self, problem, seed, flippable)


class StarRounds:
    """The state of stars."""

    def __init__(self, method: Stars, problem: Problem, seed: int, flippable: NDArray[np.int64] | None = None) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        n = len(problem.players)
        self.flippable = np.arange(n) if flippable is None else flippable
        self.slopes, self.corrections = Slopes.start(n), Corrections.start(n)
        self.blocks, self.units = 0, 0.0
        self._decided: tuple[Decision, ...] | None = None
        self._planned: int | None = None
        # Weights of blocks and their squares, (players,); weighted sums of blocks of the value and of the hard value.
        self.weight, self.weight_squares = np.zeros(n), np.zeros(n)
        self.totals, self.squares, self.crosses = np.zeros((3, 2, n))
        self.test = self._start_test() if method.confidence == "betting" else None
        soft = problem.game if problem.game.differentiable else ProbabilityGame()
        both = PairGame(problem.game, hard_game(problem.game))
        self.gradient_engine, self.flip_engine = problem.engine(soft), problem.engine(both)

    @property
    def done(self) -> bool:
        """Whether every player that is flipped is decided."""
        return self.blocks > 0 and not self._undecided().any()

    @property
    def next_units(self) -> float:
        """Maximum cost of the next round: gradients, bases and flips of any players that may be drawn."""
        stars, rows = self._blocks, self._blocks * (self._flips + 1)
        chances, units = self.flip_chances()[self.flippable], self.flip_engine.flip_units[self.flippable]
        flips = most_drawn(chances, self._flips, units)
        gradients = self.gradient_engine.most_units(stars * self._gradients, gradients=True) if self._gradients else 0.0
        return gradients + self.flip_engine.most_units(rows, shared=stars * (1 + flips))

    @property
    def status(self) -> str:
        """Number of decided players."""
        undecided = self._undecided()
        return f"{len(undecided) - undecided.sum()} of {len(undecided)} decided"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """A round: gradients at all bases if they pay, and flips at one base of each block."""
        count = self._blocks * max(self._gradients, 1)
        bases, index = self.draw_bases(first_draw, count)
        weights = star_weights(bases, self.problem.smallest)  # (bases, players)
        gradients, units = None, 0.0
        if self._gradients:
            slopes = self.gradient_engine.gradients(bases, index)
            gradients, units = weights * slopes.gradients.numpy().astype(np.float64), slopes.cost.units
        limited = np.zeros(bases.shape) if gradients is None else self.slopes.limited(gradients)
        stars, odds = self._choose_bases(first_draw, limited)
        players = self._choose_players(first_draw)  # (stars, flips)
        marginals, cost = self._flip(bases[stars], index[stars], players, weights[stars])
        sums = sum_flips(self.slopes, bases, gradients, stars, players, marginals)
        arrays = {**sums, **self._reduce(bases, limited, stars, odds, players, marginals)}
        latest = limited if gradients is None else self.slopes.add(sums).limited(gradients)  # as in `sums`
        arrays[CORRECTIONS] = sum_corrections(bases, latest, stars, odds, players, marginals[..., 0])
        return {**arrays, "units": np.array(units + cost.units)}, count

    def draw_bases(self, first_draw: int, count: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Coalitions (bases, players) and the example of each, (bases,)."""
        draws, n = Draws(self.seed, "stars"), len(self.problem.players)
        bases = draws.coalitions(first_draw, count, n, self.problem.smallest, n)
        return bases, draws.examples(first_draw, count, len(self.problem.examples))

    def absorb(self, arrays: Arrays) -> None:
        """Add the sums of a round."""
        self.slopes, self.corrections = self.slopes.add(arrays), self.corrections.add(arrays)
        blocks, chance = int(arrays["blocks"]), arrays["chance"]
        self.blocks, self.units = self.blocks + blocks, self.units + float(arrays["units"])
        self.weight, self.weight_squares = self.weight + chance * blocks, self.weight_squares + chance**2 * blocks
        self.totals = self.totals + chance * arrays["totals"]
        self.crosses = self.crosses + chance**2 * arrays["totals"]
        self.squares = self.squares + chance**2 * arrays["squares"]
        if self.test is not None:
            self.test = self.test.update(arrays["players"], arrays["observed"])
        self._decided = self._planned = None

    def scores(self, units: float, seed: int) -> HeadScores:
        """The estimates so far."""
        value, stderr = self.estimates()
        bounded = self.method.confidence == "asymptotic" or self.test is not None
        return make_scores(
            self.problem, self.method, value[0], stderr[0], self.slopes.flips, self.decisions(), units, seed,
            self.method.error_rate if bounded else None, self.method.confidence if bounded else "none",
            shrunk=self.corrections.shrunk(self.slopes),
        )  # fmt: skip

    def estimates(self) -> tuple[Array, Array]:
        """Values and standard errors, (2, players) each: of the game, and of accuracy."""
        if not self.blocks:
            return np.full_like(self.totals, np.nan), np.full_like(self.totals, np.nan)
        weight = np.where(self.weight > 0, self.weight, np.nan)  # NaN for players that are not flipped
        mean = self.totals / weight
        spread = (self.squares - 2 * mean * self.crosses + mean**2 * self.weight_squares).clip(0)
        shown = spread / weight**2 * self.blocks / max(self.blocks - 1, 1)
        # Shrunk towards the usual error: few flips of a player may show no variance by chance.
        flips = self.slopes.flips
        usual = np.stack([self.slopes.usual(hard) for hard in (False, True)]) / flips.clip(1)
        return mean, np.sqrt((flips * shown + PRIOR * usual) / (flips + PRIOR))

    def radius(self) -> Array:
        """Anytime-valid asymptotic bound on the error of the values, for all players together, (players,)."""
        if not self.blocks:
            return np.full(len(self.problem.players), np.inf)
        flips = self.slopes.flips
        count = self.weight**2 / np.where(self.weight > 0, self.weight_squares, np.nan)  # effective number of blocks
        variance = count * self.estimates()[1][0] ** 2 * (1 + _ALLOWANCE / np.sqrt(flips.clip(1)))
        found = asymptotic_radius(count, variance, self.method.error_rate / len(self.flippable))
        return np.where(flips >= _FEWEST_FLIPS, found, np.inf)

    def decisions(self) -> tuple[Decision, ...]:
        """The decisions so far."""
        if self._decided is None:
            self._decided = self._decide()
        return self._decided

    def _decide(self) -> tuple[Decision, ...]:
        n = len(self.problem.players)
        (value, hard), (_, hard_error) = self.estimates()
        if self.method.confidence == "asymptotic":
            if not self.blocks:
                return UNDECIDED * n
            radius = self.radius()
            found: list[Decision] = [
                "harmful" if high < 0 else "helpful" if low > 0 else "undecided"
                for low, high in zip(value - radius, value + radius, strict=True)
            ]
        elif self.test is None or not self.blocks:
            return UNDECIDED * n
        else:
            found = list(decide(*self.test.e_values(best=True), self.method.error_rate))
        if self.method.confirm:
            against = hard > _AGAINST * hard_error
            found = ["undecided" if each == "harmful" and no else each for each, no in zip(found, against, strict=True)]
        return tuple(found)

    @property
    def _blocks(self) -> int:
        """Number of blocks of the next round: at most about a quarter of all blocks so far.

        Little is known about gradients in the first rounds, and a small budget is used almost completely.
        """
        return min(self.method.bases, 4 + self.blocks // 4)

    @property
    def _gradients(self) -> int:
        """Number of bases with a gradient in a block of the next round; 0 if gradients cost more than they save.

        A small share of the units is always used for gradients, one in each block, so that a wrong choice is corrected
        later: only the gradient of a base with flips shows how good predictions are.
        """
        if self._planned is None:
            each, spent = self.method.gradients, 2 * float(self.slopes.sums["bases"][:, 0].sum())
            pays = self._error_by_units(each) < self._error_by_units(0)
            self._planned = each if pays else int(spent <= _EXPLORED * self.units)
        return self._planned

    def _error_by_units(self, gradients: int) -> float:
        """Expected squared error times units of rounds with or without gradients, summed over players."""
        chosen = self.flippable
        (value, _), (error, _) = (each[:, chosen] for each in self.estimates())
        chances = self._chances(gradients > 0)[chosen]
        flips = self.slopes.unexplained(gradients=gradients > 0)[chosen] / chances
        means = (self.slopes.explained()[chosen] if gradients else 0.0) - (value**2 - error**2).clip(0)
        units = 2 * gradients + 1 + chances @ self.flip_engine.flip_units[chosen]
        return float((flips + means / max(gradients, 1)).clip(0).sum() * units)

    def flip_chances(self) -> Array:
        """The probability that each player is flipped at a base, (players,); they sum to the flips of a base."""
        return self._chances(self._gradients > 0)

    def _chances(self, gradients: bool) -> Array:
        wanted = np.sqrt(self.slopes.unexplained(gradients=gradients) / self.flip_engine.flip_units)[self.flippable]
        undecided = self._undecided()
        # The undecided players get their share of all players as an extra share of the flips. If only a few are
        # undecided, more flips would decide hardly any of them.
        apart = undecided.mean()
        alone = wanted * undecided / (wanted * undecided).sum() if apart else 0.0
        shares = apart * alone + (1 - apart) * wanted / wanted.sum()
        found = np.zeros(len(self.problem.players))
        found[self.flippable] = capped_shares(_EVEN / len(shares) + (1 - _EVEN) * shares, self._flips)
        return found

    def _undecided(self) -> NDArray[np.bool_]:
        """Which of the players that are flipped are undecided."""
        decisions = self.decisions()
        return np.array([decisions[player] == "undecided" for player in self.flippable])

    def _choose_bases(self, first_draw: int, gradients: Array) -> tuple[NDArray[np.int64], Array]:
        """The base of each block with flips, and its probability relative to a uniform choice, (stars,) each.

        Betting needs marginals within the game's bounds, so it uses a uniform choice: dividing marginals by other
        relative probabilities than 1 could exceed the bounds.
        """
        blocks = self._blocks
        each = len(gradients) // blocks
        flipped = np.isin(np.arange(gradients.shape[1]), self.flippable)
        size = np.abs(gradients * flipped).sum(1).reshape(blocks, each)
        if self.method.confidence == "betting":
            size = np.ones_like(size)
        total = size.sum(1, keepdims=True)
        chance = ANY / each + (1 - ANY) * np.where(total > 0, size / np.where(total > 0, total, 1.0), 1 / each)
        start = Draws(self.seed, "star bases").uniform(first_draw, blocks, 1)  # (blocks, 1)
        place = (np.cumsum(chance, axis=1) <= start).sum(1).clip(max=each - 1)  # (blocks,)
        return np.arange(blocks) * each + place, chance[np.arange(blocks), place] * each

    def _choose_players(self, first_draw: int) -> NDArray[np.int64]:
        """The players to flip at each base, (stars, flips), with probabilities that do not depend on the base."""
        start = Draws(self.seed, "star flips").uniform(first_draw, self._blocks, 1)  # (stars, 1)
        chances = self.flip_chances()[self.flippable]
        return np.asarray(self.flippable[systematic_sample(chances, self._flips, start)])

    def _flip(
        self, bases: NDArray[np.bool_], index: NDArray[np.int64], players: NDArray[np.int64], weights: Array
    ) -> tuple[Array, EngineCost]:
        """Weighted marginals of value and hard value, (stars, flips, 2), and their cost; 0 if the weight is 0."""
        weight = np.take_along_axis(weights, players, axis=1)  # (stars, flips)
        found = self.flip_engine.flips(bases, index, np.where(weight > 0, players, -1))
        differences = (found.flipped - found.base[:, None]).numpy().astype(np.float64)
        scale = weight * np.take_along_axis(flip_signs(bases), players, axis=1)
        return np.where(weight[..., None] > 0, differences * scale[..., None], 0.0), found.cost

    def _reduce(
        self,
        bases: NDArray[np.bool_],
        gradients: Array,
        stars: NDArray[np.int64],
        odds: Array,
        players: NDArray[np.int64],
        marginals: Array,
    ) -> Arrays:
        """A round's estimates from gradients (bases, players) and marginals at stars (stars, flips, 2)."""
        chance, row = self.flip_chances(), np.arange(len(stars))[:, None]
        totals, squares = [], []
        for which, hard in enumerate((False, True)):
            off, on = self.slopes.of(hard)
            explained = np.where(bases, on, off) * gradients
            corrected = explained.reshape(len(stars), -1, gradients.shape[1]).mean(1)  # (stars, players)
            correction = marginals[..., which] - np.take_along_axis(explained[stars], players, axis=1)
            np.add.at(corrected, (row, players), correction / (odds[:, None] * chance[players]))
            totals.append(corrected.sum(0))
            squares.append((corrected**2).sum(0))
        return {
            "blocks": np.array(len(stars)),
            "chance": chance,
            "totals": np.stack(totals),
            "squares": np.stack(squares),
            "players": players.ravel(),
            "observed": marginals[..., 0].ravel(),
        }

    def _start_test(self) -> SignTest | None:
        """A sign test; None for games without bounds, for which it is not valid."""
        bounds = self.problem.game.bounds
        if bounds is None:
            return None
        n, m = len(self.problem.players), self.problem.smallest
        largest = (bounds[1] - bounds[0]) * float(star_weights(np.ones((1, n), dtype=bool), m).max())
        return SignTest.start(n, -largest, largest)

    @property
    def _flips(self) -> int:
        return min(self.method.flips, len(self.flippable))
