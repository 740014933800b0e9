"""Hill climbing over masks, with several players flipped in each step.

At a mask, the gradient of the soft value predicts by how much the value changes when a player is turned off or on
again. This prediction is called the promise of the flip.

1. A promise is a mean over a sample of examples, so it has a standard error. The Benjamini-Hochberg procedure selects
   promises such that the expected share of false ones is limited.
2. The largest selected promises, at most `width`, are flipped together. The next pass measures the new mask.
3. If the value is higher, the new mask is kept and the width is doubled, up to its initial value.
4. Otherwise the step is undone and the width is halved. The promises of the flipped players are updated: after a
   single flip its true effect is known; after several flips, the promise is averaged with the gradient at the rejected
   mask.

With `cross_fit`, promises come from one half of the examples, and a step must hold on the other half: it is kept if the
value rises there by more than one standard error of the change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.errors import require_whole
from headwise.stats import bh, chance_below
from headwise.support.steps import Steps

Array = NDArray[np.float64]
On = NDArray[np.bool_]
#: Called with the number of rounds done and the maximum number of rounds.
StepProgress = Callable[[int, int], None]

#: Maximum expected share of false promises among the selected ones.
_FALSE = 0.25


@dataclass(frozen=True)
class RefinementPlan:
    """Settings of the search.

    Attributes:
        rounds: Maximum number of passes over the examples.
        width: Maximum number of players flipped at once, in the first step.
        examples: Maximum number of examples; if there are more, a random sample is drawn.
        seed: Seed of the sample.
        cross_fit: Choose steps on one half of the examples, and keep those that hold on the other half.

    Raises:
        HeadwiseError: `rounds`, `width` or `examples` is not a whole number, or is too small.
    """

    rounds: int = 12
    width: int = 8
    examples: int = 512
    seed: int = 0
    cross_fit: bool = False

    def __post_init__(self) -> None:
        for name in ("rounds", "width", "examples"):
            require_whole(name, getattr(self, name))


@dataclass(frozen=True)
class Step:
    """A mask that was tried.

    Attributes:
        removed: Number of players that are off.
        value: The mean soft value of the examples under the mask.
        kept: Whether the value is higher than that of the best mask before (with `cross_fit`, by a standard error).
    """

    removed: int
    value: float
    kept: bool


@dataclass(frozen=True)
class Estimates:
    """A mean over examples for every player: the gradient of its gate, or the promise of its flip.

    Attributes:
        mean: The mean, (players,).
        error: Its standard error, (players,).
    """

    mean: Array
    error: Array


@dataclass(frozen=True)
class Measured:
    """The measurement of a mask.

    Attributes:
        values: The soft value of each example, (examples,); with `cross_fit`, of those that steps must hold on.
        slopes: The gradient of the value with respect to each player's gate.
    """

    values: Array
    slopes: Estimates

    @property
    def value(self) -> float:
        """The mean over the examples."""
        return float(self.values.mean())


class Search(Protocol):
    """What `climb` needs to measure masks."""

    @property
    def plan(self) -> RefinementPlan:
        """The settings of the search."""

    def measure(self, on: On) -> Steps[Measured]:
        """The value of a mask and its gradients."""


def climb(search: Search, first: On, progress: StepProgress | None = None) -> Steps[tuple[On, tuple[Step, ...]]]:
    """Search for a better mask until no promise is selected or the rounds are used up.

    It is a task of `run_together`: searches of several languages overlap, and each measurement is a call.

    Args:
        search: Measures masks.
        first: The first mask, (players,).
        progress: Called with the number of rounds done and the maximum number of rounds.

    Returns:
        The best mask, (players,), and all masks that were tried.
    """
    on, best, reached = first, first, (yield from search.measure(first))
    steps = [Step(int((~on).sum()), reached.value, kept=True)]
    width, promises = search.plan.width, _promises(reached, on)
    alone = promises  # promises of single flips: unlike `promises`, not changed by failed steps of several flips
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
        found = yield from search.measure(on)
        change = found.values - reached.values
        needed = float(standard_error(change)) if search.plan.cross_fit else 0.0
        kept = found.value > reached.value + needed
        steps.append(Step(int((~on).sum()), found.value, kept))
        if kept:
            best, reached, width = on, found, min(2 * width, search.plan.width)
            promises = alone = _promises(found, on)
        else:
            width = max(width // 2, 1)
            flipped = on != best
            promises = learn(promises, _promises(found, on), flipped, change)
            alone = learn(alone, alone, flipped, change) if len(chosen) == 1 else alone


def _promises(found: Measured, on: On) -> Estimates:
    """The promise of each flip at a mask: the negative gradient of players that are on, the gradient of the others."""
    return Estimates(np.where(on, -found.slopes.mean, found.slopes.mean), found.slopes.error)


def learn(promises: Estimates, beyond: Estimates, flipped: On, change: Array) -> Estimates:
    """Update promises after some players were flipped and the value did not increase.

    Args:
        promises: The promises before the step.
        beyond: The promises at the rejected mask; for a flipped player, that of flipping it back.
        flipped: Whether each player was flipped, (players,).
        change: The change of the value of each example, (examples,).

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
        # Both means are over the same examples, so their errors are taken as perfectly correlated.
        known, error = (promises.mean - beyond.mean) / 2, (promises.error + beyond.error) / 2
    return Estimates(np.where(flipped, known, promises.mean), np.where(flipped, error, promises.error))


def choose_flips(promises: Estimates, width: int) -> NDArray[np.int64]:
    """Choose the players to flip: the largest promises among those that the Benjamini-Hochberg procedure selects.

    Args:
        promises: The promise of each player's flip.
        width: Maximum number of players.

    Returns:
        The indices of the players, largest promise first.

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
    """The standard error of the mean over the first axis; infinite for a single value."""
    if len(values) < 2:
        return np.full(values.shape[1:], np.inf)
    return np.asarray(values.std(0, ddof=1) / np.sqrt(len(values)))
