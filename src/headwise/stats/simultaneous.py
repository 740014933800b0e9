"""Bounds on the gains of one system in several languages that hold for all of them together."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.errors import HeadwiseError
from headwise.stats.changes import example_gains
from headwise.stats.streams import Array

#: Number of additional examples with the largest loss. Without them, a language in which no loss happened to be seen
#: would have a bound without any uncertainty.
_ADDED = 2


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
) -> SimultaneousGains:
    """Lower bounds of the gains in all languages that hold together.

    The bound of a language is that of Student's t for the mean contribution of its examples (`example_gains`), with
    Bonferroni's correction over languages, which holds for any dependence between them. Gains often consist of few and
    large changes. Then a plain bound fails if rare losses happen not to be in the sample. Therefore two examples are
    added to each language that lose as much as the example with the largest change in any language.

    Args:
        bases: What each example adds to the base's metric, (examples, statistics), for each language.
        systems: The same for the system.
        value: The metric of summed statistics, (..., statistics) to (...); higher is better.
        confidence: Probability that all gains are at least as high as their bounds.

    Raises:
        HeadwiseError: There are no languages or fewer than two examples, or they do not fit each other.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> better = np.array([[1.0, 1.0]] * 75 + [[0.0, 1.0]] * 25)
        >>> found = lower_bounds([right, right], [better, right], lambda totals: totals[..., 0] / totals[..., 1])
        >>> [round(gain, 2) for gain in found.gains], 0 < found.lower[0] < 0.1, -0.06 < found.lower[1] < -0.02
        ([0.15, 0.0], True, True)
    """
    if not bases or len(bases) != len(systems):
        raise HeadwiseError(f"there must be one base and one system per language, not {len(bases)} and {len(systems)}")
    if not 0 < confidence < 1:
        raise HeadwiseError(f"a confidence is between 0 and 1, not {confidence}")
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # here: scipy takes long to import

    found = [example_gains(base, [system], value) for base, system in zip(bases, systems, strict=True)]
    largest = max(float(np.abs(each).max()) for _, each in found)
    # If no example changed at all, one that loses everything is the largest loss.
    largest = largest or max(abs(float(value(base.astype(np.float64).sum(0)))) for base in bases)
    lower = []
    for _, each in found:
        padded = np.append(each[:, 0], [-largest] * _ADDED)
        reach = float(stdtrit(len(padded) - 1, 1 - (1 - confidence) / len(bases)))
        lower.append(float(padded.mean() - reach * padded.std(ddof=1) / np.sqrt(len(padded))))
    return SimultaneousGains(tuple(float(gains[0]) for gains, _ in found), tuple(lower))


def count_safe(
    bases: Sequence[Array],
    path: Iterable[Sequence[Array]],
    value: Callable[[Array], Array],
    margin: float,
    confidence: float = 0.95,
) -> int:
    """How many systems of a path are safe: no language loses more than a margin, by `lower_bounds`.

    The systems are tested in their order until the first one fails; the others are not measured. The probability of
    calling any unsafe system safe is at most one minus the confidence for the whole path (fixed-sequence procedure),
    because the first unsafe one would have to pass. The path must be chosen on other examples.

    Args:
        bases: What each example adds to the base's metric, (examples, statistics), for each language.
        path: The same for each system.
        value: The metric of summed statistics; higher is better.
        margin: The largest loss that is allowed, in the units of the metric.
        confidence: One minus the probability of calling an unsafe system safe.

    Raises:
        HeadwiseError: The margin is below 0, or see `lower_bounds`.
    """
    if margin < 0:
        raise HeadwiseError(f"margin must be at least 0, not {margin}")
    count = 0
    for systems in path:
        if min(lower_bounds(bases, systems, value, confidence).lower) < -margin:
            break
        count += 1
    return count
