"""Prediction of flips by gradients, learned from past flips: a slope and a limit for every player."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Weight of the average over all players against a player's own flips, in flips.
PRIOR = 8.0
#: Limit of gradients, in root mean squares of the player's marginals: a larger gradient is an outlier.
LIMIT = 16.0
#: Largest slope that few flips can give: gradients that are much smaller than marginals do not predict them.
STEEPEST = 10.0
#: Sums over all flips: count, squares of marginals x and of hard marginals h. Over flips with a gradient: count and
#: products with the limited gradient g. Over all bases with a gradient: count, and squared limited gradients.
_SUMS = ("flips", "xx", "hh", "known", "xg", "hg", "gg", "bases", "energy")


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes and limits of each player's gradients, estimated from past flips.

    Gradients are limited before use, because nearly empty coalitions can have gradients thousands of times larger than
    any marginal (the derivative of a layer norm whose input is nearly constant). A limited gradient times its slope
    is the prediction of a marginal. Every player has one slope for bases in which it is off and one for bases in which
    it is on. Both are shrunk towards the slope of all players, which is shrunk towards 0, so without flips all slopes
    are 0.

    Attributes:
        sums: Sums by name, (2, players) each: over bases in which the player was off, and in which it was on.

    Example:
        >>> slopes = Slopes.start(players=2)
        >>> slopes.of()
        array([[0., 0.],
               [0., 0.]])
    """

    sums: Mapping[str, Array]

    @classmethod
    def start(cls, players: int) -> "Slopes":
        """The slopes before any flip."""
        return cls({name: np.zeros((2, players)) for name in _SUMS})

    def add(self, sums: Mapping[str, Array]) -> "Slopes":
        """The slopes after another round with these sums."""
        return Slopes({name: total + sums[name] for name, total in self.sums.items()})

    @property
    def flips(self) -> Array:
        """Number of flips of each player, (players,)."""
        found: Array = self.sums["flips"].sum(0)
        return found

    def limits(self) -> Array:
        """The limit of the gradients of each player, (players,); 0 before the first flip.

        It is a multiple of the root mean square of its marginals, with one average marginal of all players added.
        """
        found: Array = LIMIT * np.sqrt(self._squares())
        return found

    def limited(self, gradients: Array) -> Array:
        """Gradients (bases, players), clipped to the limits."""
        limits = self.limits()
        return np.clip(gradients, -limits, limits)

    def of(self, hard: bool = False) -> Array:
        """The slopes of the value or the hard value, for players that are off and that are on, (2, players)."""
        crossed, squared = self.sums["hg" if hard else "xg"], self.sums["gg"]
        scale = np.maximum(self.sums["energy"] / self.sums["bases"].clip(1), self._squares() / STEEPEST**2)
        usual = _alike(crossed, scale).sum(1, keepdims=True) / (_alike(squared, scale).sum(1, keepdims=True) + PRIOR)
        weight = squared + PRIOR * scale
        found: Array = np.divide(crossed + PRIOR * scale * usual, weight, out=np.zeros_like(weight), where=weight > 0)
        return found

    def explained(self, hard: bool = False) -> Array:
        """Mean square of the predictions, (players,)."""
        found: Array = (self.of(hard) ** 2 * self.sums["energy"]).sum(0) / self.sums["bases"].sum(0).clip(1)
        return found

    def unexplained(self, hard: bool = False, gradients: bool = True) -> Array:
        """Mean squared error of the predictions of a marginal, (players,), shrunk towards `usual`.

        Args:
            hard: Use the hard value.
            gradients: Whether there are gradients; without them, the predictions are 0.
        """
        left = self._left(hard, gradients)
        found: Array = (self.flips * left + PRIOR * self.usual(hard, gradients)) / (self.flips + PRIOR)
        return found.clip(found.max() * 1e-6) if found.any() else np.ones_like(found)

    def usual(self, hard: bool = False, gradients: bool = True) -> Array:
        """Mean squared error of the predictions expected from the size of a player's gradients, (players,).

        It uses gradients, which every base has for every player, instead of the player's own flips: if a hard value
        rarely changes, the flips of most players have not changed it yet, but some will.
        """
        scale = self.sums["energy"].sum(0) / self.sums["bases"].sum(0).clip(1)
        total = _alike(self.flips * self._left(hard, gradients), scale).sum()
        found: Array = scale * total / max(self.flips.sum(), 1.0)
        return found

    def _squares(self) -> Array:
        """Mean square of a player's marginals, with one average marginal of all players added, (players,)."""
        squares = self.sums["xx"].sum(0)
        found: Array = (squares + squares.sum() / max(self.flips.sum(), 1.0)) / (self.flips + 1)
        return found

    def _left(self, hard: bool, gradients: bool) -> Array:
        """Mean squared error of the predictions, only from the player's own flips, (players,)."""
        slope, s = self.of(hard), self.sums
        squares, crossed = (s["hh"], s["hg"]) if hard else (s["xx"], s["xg"])
        gain = (2 * slope * crossed - slope**2 * s["gg"]).sum(0) / s["known"].sum(0).clip(1)
        found: Array = (squares.sum(0) / self.flips.clip(1) - gradients * gain).clip(0)
        return found


def _alike(sums: Array, scale: Array) -> Array:
    """Sums divided by each player's scale, so that all players have the same weight; 0 for players without gradient."""
    found: Array = np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0)
    return found


def sum_flips(
    slopes: Slopes,
    bases: NDArray[np.bool_],
    gradients: Array | None,
    stars: NDArray[np.int64],
    players: NDArray[np.int64],
    marginals: Array,
) -> dict[str, Array]:
    """The sums of a round, to be added to the slopes of earlier rounds.

    Args:
        slopes: The slopes so far; with the round's own marginals, they determine the limits of gradients.
        bases: The players that are on at each base, (bases, players).
        gradients: Weighted gradients at the bases, (bases, players); None for a round without gradients.
        stars: Indices of the bases with flips, (stars,).
        players: The players flipped at each of these, (stars, flips).
        marginals: Weighted marginals of the value and of the hard value, (stars, flips, 2).
    """
    n = bases.shape[1]
    place = np.take_along_axis(bases[stars], players, axis=1) * n + players  # (stars, flips), in (2, players)

    def by_player(each: Array) -> Array:
        found: Array = np.bincount(place.ravel(), each.ravel(), 2 * n).reshape(2, n).astype(np.float64)
        return found

    x, h = marginals[..., 0], marginals[..., 1]
    sums = {name: np.zeros((2, n)) for name in _SUMS}
    sums |= {"flips": by_player(np.ones_like(x)), "xx": by_player(x * x), "hh": by_player(h * h)}
    if gradients is None:
        return sums
    limited = slopes.add(sums).limited(gradients)
    g = np.take_along_axis(limited[stars], players, axis=1)
    states = np.stack([~bases, bases])  # (2, bases, players)
    products = {"xg": by_player(x * g), "hg": by_player(h * g), "gg": by_player(g * g)}
    whole = {"bases": states.sum(1).astype(np.float64), "energy": (states * limited**2).sum(1)}
    return {**sums, **products, **whole, "known": sums["flips"]}
