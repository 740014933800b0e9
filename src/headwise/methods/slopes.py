"""What a gradient stands for: learned from flips, for every player by itself, and apart where it is on and off."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Flips that what is usual counts for beside a player's own.
PRIOR = 8.0
#: Over flips: how many, and products of marginal x, gradient g and hard marginal h. Over all bases, those without flips
#: too: how many, and squared gradients.
_SUMS = ("flips", "xx", "xg", "gg", "hg", "hh", "bases", "energy")


@dataclass(frozen=True, eq=False)
class Slopes:
    """How many times its gradient a player is worth, as flips have shown so far.

    Where a gate is off, the gradient there promises more than turning it on will keep, and more so of some players than
    of others. So each player has two slopes, each drawn to what is usual of all players in that state as long as its
    own flips are few. All players count alike in what is usual, not by the size of their gradients: the few that have
    by far the largest are the ones whose gradients keep least.

    Attributes:
        sums: Sums by name, (2, players) each: where the player was off, and where it was on.

    Example:
        >>> slopes = Slopes.start(players=2)
        >>> slopes.of()
        array([[1., 1.],
               [1., 1.]])
    """

    sums: Mapping[str, Array]

    @classmethod
    def start(cls, players: int) -> "Slopes":
        """Nothing known."""
        return cls({name: np.zeros((2, players)) for name in _SUMS})

    def add(self, sums: Mapping[str, Array]) -> "Slopes":
        """What is known after another round with these sums."""
        return Slopes({name: total + sums[name] for name, total in self.sums.items()})

    @property
    def flips(self) -> Array:
        """Flips of each player, (players,)."""
        found: Array = self.sums["flips"].sum(0)
        return found

    def of(self, hard: bool = False) -> Array:
        """What a gradient of 1 stands for, by value or by hard value: where players are off, where on, (2, players)."""
        crossed, squared = self.sums["hg" if hard else "xg"], self.sums["gg"]
        scale = self.sums["energy"] / self.sums["bases"].clip(1)  # of a squared gradient
        seen = _alike(squared, scale).sum(1, keepdims=True)  # (2, 1)
        usual = np.where(seen > 0, _alike(crossed, scale).sum(1, keepdims=True) / np.where(seen > 0, seen, 1.0), 1.0)
        weight = squared + PRIOR * scale
        found: Array = np.where(weight > 0, crossed + PRIOR * scale * usual, usual) / np.where(weight > 0, weight, 1.0)
        return found

    def unexplained(self, hard: bool = False) -> Array:
        """Variance of what gradients leave unexplained, (players,): a player's own, drawn to what is usual."""
        found: Array = (self._left(hard) + PRIOR * self.usual(hard)) / (self.flips + PRIOR)
        return found.clip(found.max() * 1e-6) if found.any() else np.ones_like(found)

    def usual(self, hard: bool = False) -> Array:
        """The variance that one would expect to be unexplained by the size of a player's gradients, (players,).

        By gradients, which every base shows of every player, and not by the player's own flips: where a hard value
        hardly ever changes, those of most players have shown nothing yet, which does not mean that nothing will come.
        """
        scale = self.sums["energy"].sum(0) / self.sums["bases"].sum(0).clip(1)
        found: Array = scale * _alike(self._left(hard), scale).sum() / max(self.flips.sum(), 1.0)
        return found

    def _left(self, hard: bool) -> Array:
        """The sum of squares that gradients leave, (players,)."""
        slope, s = self.of(hard), self.sums
        squares, crossed = (s["hh"], s["hg"]) if hard else (s["xx"], s["xg"])
        found: Array = (squares - 2 * slope * crossed + slope**2 * s["gg"]).sum(0).clip(0)
        return found


def _alike(sums: Array, scale: Array) -> Array:
    """Sums by players' own scales, so that none counts more than another; 0 for those without any gradient."""
    found: Array = np.divide(sums, scale, out=np.zeros_like(sums), where=scale > 0)
    return found


def sum_flips(
    bases: NDArray[np.bool_], gradients: Array, stars: NDArray[np.int64], players: NDArray[np.int64], marginals: Array
) -> dict[str, Array]:
    """The sums of a round.

    Args:
        bases: Who is on at each base, (bases, players).
        gradients: Weighted gradients there, (bases, players).
        stars: The bases with flips, (stars,).
        players: Who is flipped at each of these, (stars, flips).
        marginals: Weighted marginals by value and by hard value, (stars, flips, 2).
    """
    n = bases.shape[1]
    place = np.take_along_axis(bases[stars], players, axis=1) * n + players  # (stars, flips), in (2, players)
    x, h = marginals[..., 0], marginals[..., 1]
    g = np.take_along_axis(gradients[stars], players, axis=1)
    products = {"flips": np.ones_like(x), "xx": x * x, "xg": x * g, "gg": g * g, "hg": h * g, "hh": h * h}
    sums = {name: np.bincount(place.ravel(), each.ravel(), 2 * n).reshape(2, n) for name, each in products.items()}
    states = np.stack([~bases, bases])  # (2, bases, players)
    return {**sums, "bases": states.sum(1).astype(np.float64), "energy": (states * gradients**2).sum(1)}
