"""A test of a mean difference over few units, such as languages."""

from collections.abc import Sequence

import numpy as np

#: With at most this number of differences, all combinations of signs are enumerated.
_EXACT = 14


def sign_flip_p_value(differences: Sequence[float], resamples: int = 10_000, seed: int = 0) -> float:
    """The two-sided P-value of a mean difference by flipping signs.

    If there is no effect, each difference is as likely as its negative. The P-value is the share of all combinations of
    signs whose mean is at least as far from 0 as the mean found. With n differences it is at least 2/2ⁿ, so fewer than
    6 are never significant at 0.05.

    Args:
        differences: The differences, which must be independent and symmetric around 0 if there is no effect.
        resamples: Number of random combinations if there are more than 14 differences.
        seed: Seed of the random combinations.

    Example:
        >>> sign_flip_p_value([1.0, 2.0, 1.5, 0.5, 1.0, 3.0])
        0.03125
        >>> sign_flip_p_value([1.0, -1.0, 0.0])
        1.0
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        return 1.0
    found, tolerance = abs(values.sum()), 1e-9 * float(np.abs(values).sum())
    if len(values) <= _EXACT:
        signs = 1 - 2 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1)
        return float((np.abs(signs @ values) >= found - tolerance).mean())
    signs = 1 - 2 * np.random.default_rng(seed % 2**64).integers(2, size=(resamples, len(values)))
    return float((1 + (np.abs(signs @ values) >= found - tolerance).sum()) / (1 + resamples))
