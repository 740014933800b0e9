"""What each example adds to the difference between a system and its base, by the jackknife."""

from collections.abc import Callable, Sequence

import numpy as np

from headwise.errors import HeadwiseError
from headwise.stats.streams import Array


def example_gains(base: Array, systems: Sequence[Array], value: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The gain of every system over the base, and what each example contributes to it.

    The contribution of example i to a gain G is the jackknife's pseudo-value n·G − (n − 1)·G₍₋ᵢ₎, with G₍₋ᵢ₎ the gain
    without the example. For a metric that is a mean over examples it is the change of the example. For ratios, such as
    accuracy over tokens, the contributions have almost the mean G, and their variance divided by n is the variance of
    the gain.

    Args:
        base: What each example adds to the base's metric, (examples, statistics).
        systems: The same for every system, (examples, statistics) each, with the examples in the same order.
        value: The metric of summed statistics, (..., statistics) to (...); higher is better.

    Returns:
        The gains, (systems,), and the contributions, (examples, systems).

    Raises:
        HeadwiseError: There are fewer than two examples, or the systems were not measured on the same ones.

    Example:
        >>> right = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
        >>> better = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
        >>> gains, each = example_gains(right, [better], lambda totals: totals[..., 0] / totals[..., 1])
        >>> gains.round(6).tolist(), each[:, 0].round(6).tolist()
        ([0.0], [0.0, 1.0, -1.0])
    """
    if base.ndim != 2 or len(base) < 2:
        raise HeadwiseError(f"a jackknife needs statistics of at least two examples, found the shape {base.shape}")
    for system in systems:
        if system.shape != base.shape:
            raise HeadwiseError(f"paired systems need the same examples: shapes {base.shape} and {system.shape}")
    stacked = np.stack([base, *systems], axis=1).astype(np.float64)  # (examples, systems + 1, statistics)
    n, totals = len(base), stacked.sum(0)
    whole, without = value(totals), value(totals - stacked)  # (systems + 1,), (examples, systems + 1)
    gains = whole[1:] - whole[0]
    each = n * gains - (n - 1) * (without[:, 1:] - without[:, :1])
    return np.asarray(gains), np.asarray(np.where((stacked[:, 1:] == stacked[:, :1]).all((0, 2)), 0.0, each))
