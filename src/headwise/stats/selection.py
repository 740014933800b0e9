"""Choosing the best of several systems on the same examples that they are measured on, without optimism."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.errors import HeadwiseError
from headwise.stats.bootstrap import bootstrap_values
from headwise.stats.multiple import chance_below
from headwise.stats.streams import Array


@dataclass(frozen=True)
class Selection:
    """The system that was chosen.

    Attributes:
        chosen: Its number; None if the base is at least as good.
        gain: The expected gain over the base: the gain on the examples minus the optimism of choosing the best.
        low: Lower end of its interval.
        high: Upper end of its interval.
        chance_of_loss: The probability that the system is not better than the base.
        optimism: By how much the gain of the best of all systems is too high on average.
        gains: The gain of every system on the examples.
    """

    chosen: int | None
    gain: float
    low: float
    high: float
    chance_of_loss: float
    optimism: float
    gains: tuple[float, ...]


def select_system(
    base: Array,
    systems: Sequence[Array],
    value: Callable[[Array], Array],
    risk: float = 0.2,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Selection:
    """Choose the system with the highest gain over a base, or the base.

    The highest of several gains is too high on average. The bootstrap estimates by how much: in each resample of the
    examples the best system is chosen, and its gain there is compared with its gain on all examples (Efron's optimism).
    The expected gain is the highest gain minus this optimism. The interval and the probability of a loss are those of a
    normal distribution around it, with the standard deviation of the chosen system's resampled gains.

    The base is kept unless the expected gain is above 0 and the probability of a loss is at most `risk`.

    Args:
        base: What each example adds to the base's metric, (examples, statistics).
        systems: The same for every system, (examples, statistics) each, with the examples in the same order.
        value: The metric of summed statistics, (..., statistics) to (...); higher is better.
        risk: Maximum probability of a loss.
        resamples: Number of resamples.
        confidence: Probability that the gain is inside the interval.
        seed: Seed of the resamples.

    Raises:
        HeadwiseError: There are no systems or no examples, they do not fit each other, or the risk is not between 0
            and 1.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> better = np.array([[1.0, 1.0]] * 75 + [[0.0, 1.0]] * 25)
        >>> found = select_system(right, [right, better], lambda totals: totals[..., 0] / totals[..., 1])
        >>> found.chosen, 0.1 < found.gain <= 0.151, found.low > 0, found.chance_of_loss < 0.01
        (1, True, True, True)
        >>> select_system(right, [right], lambda totals: totals[..., 0] / totals[..., 1]).chosen is None
        True
    """
    if not 0 < risk < 1:
        raise HeadwiseError(f"risk must be between 0 and 1, not {risk}")
    if not systems:
        raise HeadwiseError("there are no systems to choose from")
    from scipy.special import ndtri  # type: ignore[import-untyped]  # here: scipy takes long to import

    drawn = bootstrap_values([base, *systems], value, resamples, seed)
    resampled = drawn[:, 1:] - drawn[:, :1]  # (resamples, systems)
    whole = value(np.stack([base, *systems]).astype(np.float64).sum(1))  # (systems + 1,)
    gains = whole[1:] - whole[0]
    best = resampled.argmax(1)
    optimism = float((np.take_along_axis(resampled, best[:, None], axis=1)[:, 0] - gains[best]).mean().clip(0))
    top = int(gains.argmax())
    gain, spread = float(gains[top]) - optimism, float(resampled[:, top].std())
    reach = float(ndtri((1 + confidence) / 2)) * spread
    loss = float(chance_below([-gain], [spread])[0]) if spread else float(gain <= 0)
    kept = gain > 0 and loss <= risk
    found = tuple(gains.tolist())
    if not kept:
        return Selection(None, 0.0, 0.0, 0.0, 0.0, optimism, found)
    return Selection(top, gain, gain - reach, gain + reach, loss, optimism, found)
