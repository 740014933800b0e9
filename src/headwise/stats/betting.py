"""Tests by betting for the sign of a bounded mean, valid at any stopping time.

After Waudby-Smith & Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from headwise.errors import HeadwiseError
from headwise.stats.streams import Array, Streams, in_turns, inside, per_player

# Bets, as shares of the largest one that cannot lose everything. With a factor of 2 between bets, the nearest bet has
# at least eight ninths of the best bet's growth. The smallest bet is optimal for means that need millions of
# observations to distinguish from zero.
_BETS = np.concatenate([[0.99], 0.5 ** np.arange(1.0, 11.0)])  # (bets,)

# Initial wealth of each bet, proportional to 1, 1/2, 1/3, ... An even split would slow down the large bets most, which
# decide early.
_SHARES = 1 / np.arange(1, len(_BETS) + 1) / (1 / np.arange(1, len(_BETS) + 1)).sum()  # (bets,)

# The exponential of a larger number overflows.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class SignTest(Streams):
    """Evidence that each player's mean is below or above zero, valid at any stopping time.

    To test "the mean is at most 0", a gambler starts with 1 and bets a share of its wealth on each observation x. Its
    wealth is a product of `1 + bet·x` and does not grow in expectation if the claim is true: it is an e-value, and the
    probability that it *ever* reaches `1/α` is at most α (Ville). The best bet depends on the mean and the variance, so
    the 1 is split between gamblers with a grid of bets. Their total wealth is an e-value too, is within a small factor
    of the best gambler's, and needs no tuning. The same number of gamblers bet on `-x`.

    The range of the observations should be as tight as is *known*. No bet may lose everything on the worst possible
    observation, so a wide range keeps the bets small even if such observations never occur.

    Assumption: given all earlier observations of all players, each observation has the same mean. This holds if
    examples are drawn *with* replacement. Observations of different players may depend on each other. Sampling of a
    player may stop at any time for a reason that depends on earlier observations only.

    Attributes:
        count: Number of observations of each player, (players,).
        low: Smallest possible observation, below 0, (players,).
        high: Largest possible observation, above 0, (players,).
        wealth: Logarithm of each gambler's wealth, (2, players, bets); the first half bets on a mean below zero.
        best: Logarithm of the largest total wealth of each side so far, at least 0, (2, players).

    Example:
        >>> test = SignTest.start(players=2, low=-1, high=1)
        >>> test = test.update([0] * 20 + [1] * 20, [-0.5] * 20 + [0.5, -0.5] * 10)
        >>> harmful, helpful = test.e_values()
        >>> (harmful > 20).tolist(), (helpful > 20).tolist()
        ([True, False], [False, False])
    """

    low: Array
    high: Array
    wealth: Array
    best: Array

    @classmethod
    def start(cls, players: int, low: ArrayLike, high: ArrayLike) -> Self:
        """The state before any observation.

        Args:
            players: Number of players.
            low: Smallest possible observation, one number or one per player.
            high: Largest possible observation, one number or one per player.

        Raises:
            HeadwiseError: Zero is not inside the range.
        """
        smallest, largest = per_player(low, players), per_player(high, players)
        fits = np.isfinite(largest - smallest) & (smallest < 0) & (largest > 0)
        if not fits.all():
            at = int(np.argmin(fits))
            raise HeadwiseError(
                f"a sign test needs a finite range with zero inside, not [{smallest[at]}, {largest[at]}]"
            )
        count = np.zeros(players, dtype=np.int64)
        wealth = np.tile(np.log(_SHARES), (2, players, 1))
        return cls(count, smallest, largest, wealth, np.zeros((2, players)))

    def update(self, players: ArrayLike, values: ArrayLike) -> Self:
        """The state after more observations.

        Args:
            players: The player of each observation, (observations,).
            values: The observations, (observations,), in order for each player.

        Raises:
            HeadwiseError: An observation is out of its range.
        """
        count, wealth, best = self.count.copy(), self.wealth.copy(), self.best.copy()
        for who, x in in_turns(players, values, len(count)):
            kept = inside(x, self.low[who], self.high[who])
            # At least -1, so that 1 + bet·gain stays above zero for bets below 1; (2, turn's players).
            gain = np.stack([-kept / self.high[who], kept / -self.low[who]])
            grown = wealth[:, who] + np.log1p(gain[..., None] * _BETS)  # (2, turn's players, bets)
            count[who] += 1
            wealth[:, who] = grown
            best[:, who] = np.maximum(best[:, who], _log_sum(grown))
        return type(self)(count, self.low, self.high, wealth, best)

    def e_values(self, best: bool = False) -> tuple[Array, Array]:
        """The evidence for a mean below zero and for one above, (players,) each.

        Args:
            best: Return the largest value so far instead of the current one. Its reciprocal, at most 1, is an
                anytime-valid p-value, as Holm's procedure needs it.
        """
        log = self.best if best else _log_sum(self.wealth)
        harmful, helpful = np.exp(np.minimum(log, _LARGEST_EXPONENT))
        return harmful, helpful


def _log_sum(wealth: Array) -> Array:
    """Logarithm of the sum of wealths given as logarithms, over the last axis."""
    largest = wealth.max(axis=-1)
    return np.asarray(largest + np.log(np.exp(wealth - largest[..., None]).sum(axis=-1)))
