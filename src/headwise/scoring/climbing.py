"""Climbing from mask to mask: flips that promise most are made together, and what did not hold is learnt from.

At a mask, the gradient of the soft value says what every player would change by going, or by coming back. A promise
rests on some examples only, so it comes with a standard error, and of many promises some are large by chance: those
are considered of which no more than a share can be expected to be false. The largest of them are flipped, and the next
pass shows whether they held. If not, the step is taken back, but not what it has shown: the gradients on the other side
say what each of these flips is worth from there, the mean of both sides is nearly right, and of a single flip the worth
is known. Then half as many are flipped, and twice as many again after a step that held.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.errors import require_whole
from headwise.stats import bh, chance_below

Array = NDArray[np.float64]
On = NDArray[np.bool_]
#: Called with the rounds done and the most that there can be.
StepProgress = Callable[[int, int], None]

#: Expected share of promises that are false among those that are considered.
_FALSE = 0.25


@dataclass(frozen=True)
class RefinementPlan:
    """How to refine.

    Attributes:
        rounds: Passes over the examples, at most.
        width: PlayerKind flipped at once, at first.
        examples: At most so many examples, drawn by the seed.
        seed: Seed of the draw.

    Raises:
        HeadwiseError: A number is not whole, or too small.
    """

    rounds: int = 12
    width: int = 8
    examples: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "width", "examples"):
            require_whole(name, getattr(self, name))


@dataclass(frozen=True)
class Step:
    """A mask that was tried.

    Attributes:
        removed: PlayerKind that are off.
        value: The soft value of the examples under it.
        kept: Whether it was better than what was there before.
    """

    removed: int
    value: float
    kept: bool


@dataclass(frozen=True)
class Estimates:
    """Something that is known of every player, as a mean over examples: its slope, or what its flip promises to add.

    Attributes:
        mean: What is known, (players,).
        error: The standard error of it, (players,).
    """

    mean: Array
    error: Array


@dataclass(frozen=True)
class Measured:
    """What is known of a mask.

    Attributes:
        values: The soft value of each example, (examples,).
        slopes: What the gate of each player adds.
    """

    values: Array
    slopes: Estimates

    @property
    def value(self) -> float:
        """The mean over the examples."""
        return float(self.values.mean())


class Search(Protocol):
    """What a climb asks about masks."""

    @property
    def plan(self) -> RefinementPlan:
        """How to go about it."""

    def measure(self, on: On) -> Measured:
        """What a mask is worth, and what each player is under it."""


def climb(search: Search, first: On, progress: StepProgress | None = None) -> tuple[On, tuple[Step, ...]]:
    """Flip what promises most until nothing does: the best mask, (players,), and all that were tried."""
    on, best, reached = first, first, search.measure(first)
    steps = [Step(int((~on).sum()), reached.value, kept=True)]
    width, promises = search.plan.width, _promises(reached, on)
    alone = promises  # what each flip promises by itself, where among others it did not hold
    while True:
        if progress is not None:
            progress(len(steps), search.plan.rounds)
        chosen = choose_flips(promises, width)
        if not len(chosen):
            chosen = choose_flips(alone, 1)
        if not len(chosen) or len(steps) == search.plan.rounds:
            return best, tuple(steps)
        on = best.copy()
        on[chosen] ^= True
        found = search.measure(on)
        kept = found.value > reached.value
        steps.append(Step(int((~on).sum()), found.value, kept))
        if kept:
            best, reached, width = on, found, min(2 * width, search.plan.width)
            promises = alone = _promises(found, on)
        else:
            width = max(width // 2, 1)
            change, flipped = found.values - reached.values, on != best
            promises = learn(promises, _promises(found, on), flipped, change)
            alone = learn(alone, alone, flipped, change) if len(chosen) == 1 else alone


def _promises(found: Measured, on: On) -> Estimates:
    """What each flip promises at a mask: a player that is on would go, one that is off would come back."""
    return Estimates(np.where(on, -found.slopes.mean, found.slopes.mean), found.slopes.error)


def learn(promises: Estimates, beyond: Estimates, flipped: On, change: Array) -> Estimates:
    """What flips promise after some of them were made together and did not hold.

    Args:
        promises: What they promised before.
        beyond: What the flip of each player promises after them: of one that was flipped, the way back.
        flipped: The players that were flipped, (players,).
        change: What the value of each example changed by, (examples,).

    Example:
        >>> before, beyond = (Estimates(np.array(mean), np.ones(2)) for mean in ([4.0, 2.0], [6.0, -1.0]))
        >>> learn(before, beyond, np.array([True, True]), change=np.array([-1.0, 0.0])).mean
        array([-1. ,  1.5])
        >>> learn(before, beyond, np.array([True, False]), change=np.array([-1.0, 0.0])).mean
        array([-0.5,  2. ])
    """
    if flipped.sum() == 1:
        known, error = change.mean(), standard_error(change)
    else:
        # The same examples on both sides: their errors go together.
        known, error = (promises.mean - beyond.mean) / 2, (promises.error + beyond.error) / 2
    return Estimates(np.where(flipped, known, promises.mean), np.where(flipped, error, promises.error))


def choose_flips(promises: Estimates, width: int) -> NDArray[np.int64]:
    """Which players to flip: those that promise most, among as many promises as are not likely to be chance.

    Args:
        promises: What the flip of each player promises.
        width: At most so many players.

    Returns:
        The players, the most promising first.

    Example:
        >>> choose_flips(Estimates(np.array([0.5, 2.0, 3.0, -3.0]), np.array([0.1, 0.1, 5.0, 0.1])), width=2)
        array([1, 0])
        >>> choose_flips(Estimates(np.array([0.1, 0.05]), np.array([0.1, 0.1])), width=2)
        array([], dtype=int64)
    """
    wanted = np.where(bh(chance_below(-promises.mean, promises.error), _FALSE), promises.mean, 0.0)
    order = np.argsort(-wanted, kind="stable")[:width]
    chosen: NDArray[np.int64] = order[wanted[order] > 0]
    return chosen


def standard_error(values: Array) -> Array:
    """The standard error of the mean over the first axis; of a single value it is not known, so without bound."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.inf)
    return np.asarray(values.std(0, ddof=1) / np.sqrt(len(values)))
