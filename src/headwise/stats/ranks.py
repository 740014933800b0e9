"""Agreement of two sets of values: ranks, signs, and the heads that they select."""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.errors import HeadwiseError
from headwise.stats.streams import Array

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Correlation:
    """A correlation and its interval.

    Attributes:
        rho: The correlation; NaN if either side is constant.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    rho: float
    low: float
    high: float


@dataclass(frozen=True)
class SignAgreement:
    """How often two sets of values agree in sign.

    Attributes:
        share: Share of the compared players that have the same sign in both; NaN if none were compared.
        compared: Number of compared players.
    """

    share: float
    compared: int


def ranks(values: ArrayLike) -> Array:
    """Ranks from 1; equal values get their mean rank, (values,).

    Raises:
        HeadwiseError: A value is not a number.

    Example:
        >>> ranks([0.3, 0.1, 0.3]).tolist()
        [2.5, 1.0, 2.5]
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or np.isnan(vector).any():
        raise HeadwiseError("ranks need a list of numbers, none of them missing")
    from scipy.stats import rankdata  # type: ignore[import-untyped]  # here: it takes about a second to import

    return np.asarray(rankdata(vector))


def spearman(a: ArrayLike, b: ArrayLike, confidence: float = 0.95) -> Correlation:
    """Spearman's rank correlation of two sets of values for the same players.

    The interval is Fisher's, `tanh(artanh ρ ± z·sqrt((1 + ρ²/2)/(n − 3)))`, with the standard error of Bonett & Wright
    (2000). It treats the players as a sample. With fewer than 4 players it is [−1, 1], and at ρ = ±1 it has no width.

    Raises:
        HeadwiseError: The two differ in length.

    Example:
        >>> found = spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
        >>> round(found.rho, 2), round(found.low, 2), round(found.high, 2)
        (0.8, -0.46, 0.99)
    """
    n, rho = np.size(a), float(spearman_matrix([a, b])[0, 1])
    if math.isnan(rho) or n < 4:
        return Correlation(rho, -1.0, 1.0)
    if abs(rho) == 1:
        return Correlation(rho, rho, rho)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return Correlation(rho, math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach))


def spearman_matrix(vectors: Sequence[ArrayLike]) -> Array:
    """Spearman's rank correlation of every pair of vectors, (vectors, vectors); NaN where one is constant.

    Raises:
        HeadwiseError: The vectors differ in length, or have fewer than 2 values.

    Example:
        >>> spearman_matrix([[1, 2, 3], [10, 20, 30], [3, 2, 1]]).tolist()
        [[1.0, 1.0, -1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    lengths = {np.size(vector) for vector in vectors}
    if len(lengths) != 1 or min(lengths) < 2:
        raise HeadwiseError(f"a correlation needs vectors of the same length, at least 2, found {sorted(lengths)}")
    # Not scipy.stats.spearmanr: it returns a number for two vectors, and warns about constant ones.
    centred = np.stack([ranks(vector) for vector in vectors])  # (vectors, players)
    centred -= centred.mean(axis=1, keepdims=True)
    products = centred @ centred.T
    scale = np.sqrt(np.outer(products.diagonal(), products.diagonal()))
    rho = np.divide(products, scale, out=np.full(scale.shape, np.nan), where=scale > 0)
    return np.asarray(np.clip(rho, -1, 1))


def permutation_p_value(a: ArrayLike, b: ArrayLike, resamples: int = 10_000, seed: int = 0) -> float:
    """Two-sided p-value of Spearman's rank correlation: how often shuffled values correlate at least as much.

    It is `(1 + count)/(1 + resamples)`, and 1 if either side is constant. It is also valid for few values, for which
    Fisher's interval is only approximate.

    Raises:
        HeadwiseError: The two differ in length, or there are no resamples.

    Example:
        >>> permutation_p_value([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7]) < 0.01
        True
    """
    if np.size(a) != np.size(b) or resamples < 1:
        sizes = f"lengths {np.size(a)} and {np.size(b)}, and {resamples} resamples"
        raise HeadwiseError(f"a p-value needs vectors of the same length and at least one resample, found {sizes}")
    left, right = ranks(a) - (np.size(a) + 1) / 2, ranks(b) - (np.size(b) + 1) / 2
    shuffled = np.random.default_rng(seed % 2**64).permuted(
        np.tile(left, (resamples, 1)), axis=1
    )  # (resamples, values)
    # Ranks are multiples of 1/2, so sums are exact and ties are counted correctly.
    count = int((np.abs(shuffled @ right) >= abs(left @ right)).sum())
    return (1 + count) / (1 + resamples)


def jaccard(a: Collection[Hashable], b: Collection[Hashable]) -> float:
    """Size of the intersection ÷ size of the union of two sets; 1 if both are empty.

    Example:
        >>> jaccard({"encoder.0.1", "encoder.2.3"}, {"encoder.0.1"})
        0.5
    """
    union = set(a) | set(b)
    return len(set(a) & set(b)) / len(union) if union else 1.0


def clear(values: ArrayLike, stderr: ArrayLike, times: float = 3.0) -> Flags:
    """Which values are further from zero than `times` standard errors, (players,); False without a standard error.

    Example:
        >>> clear([0.4, -0.4, 0.4], [0.1, 0.2, float("nan")]).tolist()
        [True, False, False]
    """
    return np.asarray(np.abs(np.asarray(values)) > times * np.asarray(stderr), dtype=np.bool_)


def sign_agreement(a: ArrayLike, b: ArrayLike, where: ArrayLike) -> SignAgreement:
    """How often two sets of values agree in sign, over some of the players.

    Args:
        a: Values of every player, (players,).
        b: Other values of the same players, (players,); zero agrees with zero only.
        where: Which players to compare, such as `clear(b, stderr)` if `b` is the reference.

    Raises:
        HeadwiseError: The three differ in length.

    Example:
        >>> sign_agreement([0.4, -0.4, 0.1], [0.5, 0.5, -0.1], where=[True, True, False])
        SignAgreement(share=0.5, compared=2)
    """
    left, right, chosen = np.asarray(a), np.asarray(b), np.asarray(where, dtype=np.bool_)
    if not left.shape == right.shape == chosen.shape:
        raise HeadwiseError(
            f"signs need arrays of the same shape, found {left.shape}, {right.shape} and {chosen.shape}"
        )
    same = np.sign(left[chosen]) == np.sign(right[chosen])
    return SignAgreement(float(same.mean()) if len(same) else math.nan, len(same))
