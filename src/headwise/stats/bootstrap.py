"""The bootstrap over examples: the interval of a metric, and the test of a difference between two systems."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.errors import HeadwiseError
from headwise.stats.streams import Array

# Number of counts in memory for a chunk of resamples: 32 MB.
_CHUNK = 4_000_000


@dataclass(frozen=True)
class PairedTest:
    """The difference between a system and its base.

    Attributes:
        difference: The metric of the system minus that of the base, on all examples.
        low: Lower end of the percentile interval of the difference.
        high: Its upper end.
        p_value: Two-sided, `min(1, 2·(1 + flips)/(1 + resamples))`, where a flip is a resample whose difference is
            zero or has the other sign. The added ones keep it above zero. It is 1 if there is no difference.
        resamples: Number of resamples.
    """

    difference: float
    low: float
    high: float
    p_value: float
    resamples: int


def paired_bootstrap(
    base: Array,
    systems: Sequence[Array],
    value: Callable[[Array], Array],
    resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[PairedTest, ...]:
    """Compare systems with one base on the same resamples of the same examples.

    Each resample draws n of the n examples with replacement, and measures every system and the base on them. The
    p-value counts the resamples in which the difference does not have the sign that it has on all examples.

    Args:
        base: What each example adds to the base's metric, (examples, statistics).
        systems: The same for every other system, (examples, statistics) each, with the examples in the same order.
        value: The metric of summed statistics, (..., statistics) to (...).
        resamples: Number of resamples.
        confidence: Share of the resampled differences inside the interval.
        seed: Seed of the draws; the same seed and number of examples give the same draws.

    Returns:
        One test per system.

    Raises:
        HeadwiseError: There are no examples, or the systems were not measured on the same ones.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> better = np.array([[1.0, 1.0]] * 75 + [[0.0, 1.0]] * 25)
        >>> [test] = paired_bootstrap(right, [better], lambda totals: totals[..., 0] / totals[..., 1], resamples=1000)
        >>> round(test.difference, 2), 0.05 < test.low < test.high < 0.25, test.p_value < 0.01
        (0.15, True, True)
    """
    _check(base, systems, resamples)
    stacked = np.stack([base, *systems], axis=1).astype(np.float64)  # (examples, systems + 1, statistics)
    drawn = _drawn(stacked, value, resamples, seed)  # (resamples, systems + 1)
    whole = value(stacked.sum(axis=0))  # (systems + 1,)
    differences = drawn[:, 1:] - drawn[:, :1]  # (resamples, systems)
    return tuple(
        difference_test(float(whole[k + 1] - whole[0]), differences[:, k], confidence)
        for k in range(differences.shape[1])
    )


def bootstrap_interval(
    statistics: Array, value: Callable[[Array], Array], resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """The 95% percentile interval of a metric when examples are drawn with replacement.

    Args:
        statistics: What each example adds to the metric, (examples, statistics).
        value: The metric of summed statistics, (..., statistics) to (...).
        resamples: Number of resamples.
        seed: Seed of the draws.

    Raises:
        HeadwiseError: There are no examples or no resamples.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> low, high = bootstrap_interval(right, lambda totals: totals[..., 0] / totals[..., 1])
        >>> 0.45 < low < 0.55 < 0.65 < high < 0.75
        True
    """
    low, high = bootstrap_bands([statistics], value, resamples, seed=seed)
    return float(low[0]), float(high[0])


def bootstrap_bands(
    systems: Sequence[Array],
    value: Callable[[Array], Array],
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Array, Array]:
    """The percentile intervals of the metrics of several systems, all on the same resamples of the same examples.

    Args:
        systems: What each example adds to the metric of each system, (examples, statistics) each.
        value: The metric of summed statistics, (..., statistics) to (...).
        resamples: Number of resamples.
        confidence: Share of the resampled metrics inside an interval.
        seed: Seed of the draws; the same seed and number of examples give the same draws.

    Returns:
        The lower and the upper ends, (systems,) each.

    Raises:
        HeadwiseError: There are no systems or no examples, or the systems were not measured on the same ones.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> low, high = bootstrap_bands([right, np.ones((100, 2))], lambda totals: totals[..., 0] / totals[..., 1])
        >>> bool(0.45 < low[0] < 0.55 < 0.65 < high[0] < 0.75), float(low[1]), float(high[1])
        (True, 1.0, 1.0)
    """
    drawn = bootstrap_values(systems, value, resamples, seed)  # (resamples, systems)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high


def bootstrap_values(
    systems: Sequence[Array], value: Callable[[Array], Array], resamples: int = 1000, seed: int = 0
) -> Array:
    """The metrics of several systems on the same resamples of the same examples, (resamples, systems).

    Any function of several metrics can be computed for each resample. Calls with the same seed and number of examples
    use the same resamples.

    Args:
        systems: What each example adds to the metric of each system, (examples, statistics) each.
        value: The metric of summed statistics, (..., statistics) to (...).
        resamples: Number of resamples.
        seed: Seed of the draws.

    Raises:
        HeadwiseError: There are no systems or no examples, or the systems were not measured on the same ones.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> drawn = bootstrap_values([right, np.ones((100, 2))], lambda totals: totals[..., 0] / totals[..., 1])
        >>> drawn.shape, bool(abs(drawn[:, 0].mean() - 0.6) < 0.01), float(drawn[:, 1].min())
        ((1000, 2), True, 1.0)
    """
    if not systems:
        raise HeadwiseError("a bootstrap needs at least one system")
    _check(systems[0], systems, resamples)
    return _drawn(np.stack(systems, axis=1).astype(np.float64), value, resamples, seed)


def _drawn(stacked: Array, value: Callable[[Array], Array], resamples: int, seed: int) -> Array:
    """The metric of every system (examples, systems, statistics) on every resample, (resamples, systems)."""
    n, systems, statistics = stacked.shape
    flat = stacked.reshape(n, -1)
    return np.concatenate(
        [
            value((counts @ flat).reshape(-1, systems, statistics))  # (chunk, systems)
            for counts in _resamples(n, resamples, np.random.default_rng(seed))
        ]
    )


def _resamples(n: int, resamples: int, generator: np.random.Generator) -> Iterator[Array]:
    """How often each example is drawn in each resample, (chunk, examples), a chunk at a time."""
    rows = max(1, _CHUNK // n)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        draws = generator.integers(n, size=(size, n))
        # Counting draws is several times faster than Generator.multinomial, with the same distribution.
        cells = (draws + n * np.arange(size)[:, None]).ravel()
        yield np.bincount(cells, minlength=size * n).reshape(size, n).astype(np.float64)


def difference_test(difference: float, drawn: Array, confidence: float = 0.95) -> PairedTest:
    """The test of a difference whose value in every resample is known.

    Args:
        difference: The difference on all examples.
        drawn: The difference in every resample, (resamples,).
        confidence: Share of the resampled differences inside the interval.

    Example:
        >>> round(difference_test(1.0, np.array([0.5, 1.5, 2.0, -0.5] * 25)).p_value, 2)
        0.51
    """
    flips = int((drawn * np.sign(difference) <= 0).sum())
    p_value = min(1.0, 2 * (1 + flips) / (1 + len(drawn)))
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return PairedTest(difference, float(low), float(high), p_value, len(drawn))


def _check(base: Array, systems: Sequence[Array], resamples: int) -> None:
    if base.ndim != 2 or not len(base):
        raise HeadwiseError(f"a bootstrap needs statistics of at least one example, found the shape {base.shape}")
    for system in systems:
        if system.shape != base.shape:
            raise HeadwiseError(f"paired systems need the same examples: shapes {base.shape} and {system.shape}")
    if resamples < 1:
        raise HeadwiseError(f"a bootstrap needs at least one resample, not {resamples}")
