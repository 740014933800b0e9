"""Adaptive shrinkage: many estimates are drawn towards zero, by an amount that is learned from all of them.

The true effects are assumed to be draws from one mixture of normal distributions with mean zero (Stephens, 2017, "False
discovery rates: a new deal"). The weights of the mixture are fitted to the estimates, so small and noisy estimates
are drawn to zero, while effects that are clear are kept almost unchanged.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.errors import HeadwiseError

Array = NDArray[np.float64]

#: Ratio of the standard deviations of neighbouring components of the mixture.
_RATIO = 2.0
#: Maximum number of steps of expectation-maximisation, and the change of the weights at which it ends.
_STEPS, _CHANGE = 300, 1e-4


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Effects given their estimates.

    Attributes:
        mean: The expected effect, (effects,).
        error: Its standard error: the standard deviation of the effect given the estimate, (effects,).
    """

    mean: Array
    error: Array


def shrink_to_zero(estimate: ArrayLike, stderr: ArrayLike, scale: ArrayLike = 1.0) -> Shrunk:
    """Draw estimates towards zero by empirical Bayes.

    Effect `i` is `scale[i]` times a draw from a mixture of a point at zero and normal distributions around zero. The
    weights of the mixture maximise the likelihood of all estimates and of one additional estimate of zero.

    Args:
        estimate: Unbiased estimates, (effects,). NaN if there is none; its effect is NaN too.
        stderr: Their standard errors, (effects,).
        scale: The size that is expected of each effect relative to the others, (effects,).

    Raises:
        HeadwiseError: The numbers of estimates and of standard errors are different.

    Example:
        >>> found = shrink_to_zero([8.0, 0.5, -0.2, 0.1, -0.4, 0.3], np.full(6, 0.5))
        >>> found.mean.round(1).tolist()
        [8.0, 0.0, -0.0, 0.0, -0.0, 0.0]
        >>> bool((found.error[1:] < 0.5).all())
        True
    """
    x, s = np.asarray(estimate, dtype=np.float64), np.asarray(stderr, dtype=np.float64)
    if x.shape != s.shape or x.ndim != 1:
        raise HeadwiseError(f"there must be one standard error per estimate, found shapes {x.shape} and {s.shape}")
    size = np.broadcast_to(np.asarray(scale, dtype=np.float64), x.shape)
    known = np.isfinite(x) & np.isfinite(s) & (s > 0) & (size > 0)
    # Without an error, the estimate is the effect.
    mean, error = np.array(x), np.where(np.isfinite(x), np.where(s > 0, s, 0.0), np.nan)
    if known.any():
        found = _posterior(x[known], s[known], size[known])
        mean[known], error[known] = found.mean, found.error
    return Shrunk(mean, error)


def _posterior(x: Array, s: Array, scale: Array) -> Shrunk:
    prior = (_grid(x / scale, s / scale) * scale[:, None]) ** 2  # variance of each component, (effects, components)
    total = prior + s[:, None] ** 2
    likelihood = -0.5 * (np.log(total) + x[:, None] ** 2 / total)
    weight = _fit(likelihood, _null(total))
    member = _normalised(likelihood + np.log(weight))  # probability of each component, (effects, components)
    kept = prior / total
    means, variances = kept * x[:, None], kept * s[:, None] ** 2
    mean = (member * means).sum(1)
    variance = (member * (variances + means**2)).sum(1) - mean**2
    return Shrunk(mean, np.sqrt(variance.clip(0)))


def _grid(x: Array, s: Array) -> Array:
    """Standard deviations of the components in scales, the first one 0, (components,)."""
    low, high = s.min() / 10, max(2 * np.abs(x).max(), s.min())
    count = int(np.ceil(np.log(high / low) / np.log(_RATIO))) + 1
    return np.concatenate([[0.0], low * _RATIO ** np.arange(count)])


def _null(total: Array) -> Array:
    """The log-likelihood of an estimate of zero with a usual error under each component, (components,)."""
    found: Array = -0.5 * np.log(np.median(total, axis=0))
    return found


def _fit(likelihood: Array, null: Array) -> Array:
    """The weights of the components by expectation-maximisation, (components,)."""
    logs = np.concatenate([likelihood, null[None]])
    effects = np.exp(logs - logs.max(1, keepdims=True))  # (effects + 1, components)
    weight: Array = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(_STEPS):
        found = (weight * ((1 / (effects @ weight)) @ effects)).clip(1e-12)
        change = np.abs(found / found.sum() - weight).max()
        weight = np.asarray(found / found.sum())
        if change < _CHANGE:
            break
    return weight


def _normalised(logs: Array) -> Array:
    """Probabilities proportional to the exponentials of each row."""
    found: Array = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))
