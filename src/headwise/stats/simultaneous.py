"""Bounds on the gains of one system in several languages that hold for all of them together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.errors import HeadwiseError
from headwise.stats.bootstrap import bootstrap_values
from headwise.stats.streams import Array


@dataclass(frozen=True)
class SimultaneousGains:
    """The gains of a system over its base in several languages.

    Attributes:
        gains: The gain in each language.
        lower: A lower bound of each gain. All bounds hold together with the stated confidence.
    """

    gains: tuple[float, ...]
    lower: tuple[float, ...]


def lower_bounds(
    bases: Sequence[Array],
    systems: Sequence[Array],
    value: Callable[[Array], Array],
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> SimultaneousGains:
    """Lower bounds of the gains in all languages that hold together.

    The bounds are `gain − c·sd`, with `sd` the standard deviation of resampled gains in the language. `c` is the
    quantile of the largest standardised error over languages (max-t bootstrap). Languages with the same number of
    examples use the same resamples, so that correlated errors of aligned examples are taken into account.

    Args:
        bases: What each example adds to the base's metric, (examples, statistics), for each language.
        systems: The same for the system.
        value: The metric of summed statistics, (..., statistics) to (...); higher is better.
        confidence: Probability that all gains are at least as high as their bounds.
        resamples: Number of resamples.
        seed: Seed of the resamples.

    Raises:
        HeadwiseError: There are no languages, or they do not fit each other.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> better = np.array([[1.0, 1.0]] * 75 + [[0.0, 1.0]] * 25)
        >>> found = lower_bounds([right, right], [better, right], lambda totals: totals[..., 0] / totals[..., 1])
        >>> [round(gain, 2) for gain in found.gains], 0.05 < found.lower[0] < 0.12, found.lower[1]
        ([0.15, 0.0], True, 0.0)
    """
    if not bases or len(bases) != len(systems):
        raise HeadwiseError(f"there must be one base and one system per language, not {len(bases)} and {len(systems)}")
    if not 0 < confidence < 1:
        raise HeadwiseError(f"a confidence is between 0 and 1, not {confidence}")
    gains, spreads, errors = [], [], []
    for base, system in zip(bases, systems, strict=True):
        drawn = bootstrap_values([base, system], value, resamples, seed)
        whole = value(np.stack([base, system]).astype(np.float64).sum(1))
        gain, resampled = float(whole[1] - whole[0]), drawn[:, 1] - drawn[:, 0]
        spread = float(resampled.std())
        gains.append(gain)
        spreads.append(spread)
        errors.append((resampled - gain) / spread if spread else np.zeros(resamples))
    reach = float(np.quantile(np.max(errors, axis=0), confidence))
    lower = tuple(gain - reach * spread for gain, spread in zip(gains, spreads, strict=True))
    return SimultaneousGains(tuple(gains), lower)


def last_safe(
    bases: Sequence[Array],
    path: Sequence[Sequence[Array]],
    value: Callable[[Array], Array],
    margin: float,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> int:
    """How many steps of a path are safe: no language loses more than a margin.

    The steps are tested in their order, each with simultaneous lower bounds, until one fails. The probability that a
    step that loses more than the margin in some language is called safe is at most one minus the confidence, for all
    steps together (fixed-sequence procedure): only the first unsafe step counts, because nothing after it is tested if
    it fails. The path must be chosen on other examples.

    Args:
        bases: What each example adds to the metric without a mask, (examples, statistics), for each language.
        path: For each step, the same under the mask of the step, for each language.
        value: The metric of summed statistics; higher is better.
        margin: The largest loss that is allowed, in the units of the metric.
        confidence: One minus the probability of calling any unsafe step safe.
        resamples: Number of resamples.
        seed: Seed of the resamples.

    Returns:
        The number of safe steps from the start of the path; 0 if the first one is not safe.
    """
    if margin < 0:
        raise HeadwiseError(f"margin must be at least 0, not {margin}")
    for number, systems in enumerate(path):
        if min(lower_bounds(bases, systems, value, confidence, resamples, seed).lower) < -margin:
            return number
    return len(path)
