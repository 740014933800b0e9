"""Shrunk values of stars: predictions by gradients plus corrections by flips that are drawn towards zero.

The value of stars is the mean of the predictions plus a correction: the mean of their errors, known from flips. With
few flips the correction of most players is mostly noise. Here the predictions use the latest slopes, and the correction
of each player is drawn towards zero by what is usual over players (see `headwise.stats.shrinkage`). The result is
biased, and its error is smaller where gradients predict flips well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.methods.slopes import PRIOR, Slopes
from headwise.stats.shrinkage import shrink_to_zero

Array = NDArray[np.float64]

#: Name of the sums in the rounds of stars.
CORRECTIONS = "corrections"
#: Sums over bases: limited gradients g. Sums over flips, with u one divided by the relative probability of the base:
#: u·x, u·g, and the squares and products u²·x², u²·x·g and u²·g².
_SUMS = 6
#: Number of parts that rounds are dealt out to.
_PARTS = 5
#: The variance of a correction given f flips is multiplied by 1 + 3/√f: it is estimated from these flips, and the prior
#: from the flips of all players.
_ALLOWANCE = 3.0


@dataclass(frozen=True, eq=False)
class _Part:
    """Sums over some of the rounds.

    Attributes:
        slopes: The sums for slopes.
        sums: The sums of `sum_corrections`, (6, 2, players): for bases in which a player is off, and is on.
        weight: Sum over blocks of the probability that a player is flipped, (players,).
        plain: The same over the blocks without gradients, (players,).
    """

    slopes: Slopes
    sums: Array
    weight: Array
    plain: Array


@dataclass(frozen=True, eq=False)
class Corrections:
    """Sums over rounds from which shrunk values are computed.

    Rounds are dealt out to parts. The predictions of the flips of a part use the slopes of the other parts, so that
    the errors of predictions are not made smaller by fitting slopes to the same flips.

    Attributes:
        parts: The sums of each part.
        rounds: Number of rounds.
        complete: Whether every round had sums. Rounds recorded by earlier versions of headwise have none.
    """

    parts: tuple[_Part, ...]
    rounds: int = 0
    complete: bool = True

    @classmethod
    def start(cls, players: int) -> "Corrections":
        """The sums before any round."""
        none = np.zeros(players)
        return cls((_Part(Slopes.start(players), np.zeros((_SUMS, 2, players)), none, none),) * _PARTS)

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> "Corrections":
        """The sums after another round."""
        if CORRECTIONS not in arrays:
            return replace(self, complete=False)
        place = self.rounds % _PARTS
        old, blocks = self.parts[place], arrays["chance"] * int(arrays["blocks"])
        plain = old.plain if arrays["bases"].any() else old.plain + blocks
        new = _Part(old.slopes.add(arrays), old.sums + arrays[CORRECTIONS], old.weight + blocks, plain)
        return replace(self, parts=(*self.parts[:place], new, *self.parts[place + 1 :]), rounds=self.rounds + 1)

    def shrunk(self, slopes: Slopes) -> tuple[Array, Array] | None:
        """Shrunk values and their standard errors, (players,) each; None without complete sums.

        Args:
            slopes: The slopes after all rounds.
        """
        weight = np.sum([part.weight for part in self.parts], axis=0)
        if not self.complete or not weight.any():
            return None
        weight = np.where(weight > 0, weight, np.nan)  # NaN for players that are not flipped
        plain = np.sum([part.plain for part in self.parts], axis=0) / weight
        bases = slopes.sums["bases"].sum(0).clip(1)
        gradient = np.sum([part.sums[0] for part in self.parts], axis=0) / bases  # (2, players)
        screen, correction, squares = np.zeros((3, len(weight)))
        for place, part in enumerate(self.parts):
            slope = _joined((*self.parts[:place], *self.parts[place + 1 :])).of()
            _, x, g, xx, xg, gg = part.sums
            predicted = (slope * gradient).sum(0)
            screen = screen + predicted * part.weight / weight
            correction = correction + ((x - slope * g).sum(0) - predicted * part.plain) / weight
            squares = squares + (xx - 2 * slope * xg + slope**2 * gg).sum(0).clip(0)
        flips = slopes.flips
        # Shrunk towards the usual error, as in `StarRounds.estimates`.
        variance = (flips * squares / weight**2 + PRIOR * slopes.usual() / flips.clip(1)) / (flips + PRIOR)
        found = shrink_to_zero(correction, np.sqrt(variance), np.sqrt(slopes.unexplained()))
        kept = np.divide(found.mean, correction, out=np.zeros_like(correction), where=correction != 0)
        spread = (slopes.explained() - (slopes.of() * gradient).sum(0) ** 2).clip(0) / (bases - 1).clip(1)
        rough = 1 + _ALLOWANCE / np.sqrt(flips.clip(1))
        return screen + found.mean, np.sqrt((1 - kept * plain) ** 2 * spread + rough * found.error**2)


def _joined(parts: Sequence[_Part]) -> Slopes:
    """The slopes of several parts."""
    found = parts[0].slopes
    for part in parts[1:]:
        found = found.add(part.slopes.sums)
    return found


def sum_corrections(
    bases: NDArray[np.bool_],
    gradients: Array,
    stars: NDArray[np.int64],
    odds: Array,
    players: NDArray[np.int64],
    marginals: Array,
) -> Array:
    """The sums of a round for `Corrections.add`, (6, 2, players).

    Args:
        bases: The players that are on at each base, (bases, players).
        gradients: Limited gradients at the bases, (bases, players); 0 for a round without gradients.
        stars: Indices of the bases with flips, (stars,).
        odds: The probability of each of these relative to a uniform choice, (stars,).
        players: The players flipped at each of these, (stars, flips).
        marginals: Their marginals, (stars, flips).
    """
    n = bases.shape[1]
    place = (np.take_along_axis(bases[stars], players, axis=1) * n + players).ravel()  # in (2, players)
    x = marginals / odds[:, None]
    g = np.take_along_axis(gradients[stars], players, axis=1) / odds[:, None]
    flips = [np.bincount(place, each.ravel(), 2 * n).reshape(2, n) for each in (x, g, x * x, x * g, g * g)]
    states = np.stack([~bases, bases])  # (2, bases, players)
    return np.stack([(states * gradients).sum(1), *flips])
