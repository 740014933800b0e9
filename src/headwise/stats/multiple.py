"""Decisions about many players at once, at one stated error rate.

"The mean of a player is below zero" and "its mean is above zero" are two claims, so n players have 2·n claims. A wrong
decision accepts a claim that does not hold. For a mean of exactly zero both claims are wrong.

The e-value of a claim that does not hold has an expectation of at most 1, so an e-value of 1/α is as rare as a p-value
of α.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.errors import HeadwiseError
from headwise.stats.streams import Array

Decision = Literal["harmful", "helpful", "undecided"]
Flags = NDArray[np.bool_]


def decide(e_harmful: ArrayLike, e_helpful: ArrayLike, error_rate: float = 0.1) -> tuple[Decision, ...]:
    """Decide by Holm's procedure which players are harmful and which are helpful; the others are undecided.

    The probability of any wrong decision is at most the error rate (FWER) under any dependence between players. It
    holds for all looks together if the e-values are the largest so far (`SignTest.e_values(best=True)`), because the
    reciprocal of such an e-value is an anytime-valid p-value (Ville). A decided player needs no further observations.

    Args:
        e_harmful: Evidence that the mean of each player is below zero, (players,).
        e_helpful: Evidence that the mean of each player is above zero, (players,).
        error_rate: The error rate for all players together.

    Returns:
        The decision for each player. A player with evidence for both claims is undecided.

    Raises:
        HeadwiseError: The two lists differ in length, an e-value is negative or missing, or the error rate is not
            between 0 and 1.

    Example:
        >>> decide([500.0, 0.1, 2.0], [0.0, 70.0, 0.5], error_rate=0.1)
        ('harmful', 'helpful', 'undecided')
    """
    harmful, helpful = np.asarray(e_harmful, dtype=np.float64), np.asarray(e_helpful, dtype=np.float64)
    if harmful.shape != helpful.shape or harmful.ndim != 1:
        raise HeadwiseError(
            f"e-values must be two lists of the same length, found shapes {harmful.shape} and {helpful.shape}"
        )
    below, above = np.split(holm(p_values(np.concatenate([harmful, helpful])), error_rate), 2)  # (players,) each
    return tuple(_decision(bool(down), bool(up)) for down, up in zip(below, above, strict=True))


def holm(p_values: ArrayLike, error_rate: float) -> Flags:
    """Holm's step-down procedure: the k-th smallest of m p-values against `error_rate/(m - k + 1)`, until one fails.

    Controls the FWER under any dependence. scipy has no Holm procedure.

    Example:
        >>> holm([0.01, 0.04, 0.03], error_rate=0.06).tolist()
        [True, True, True]
    """
    p = _checked(p_values, error_rate)
    order = np.argsort(p, kind="stable")
    passed = np.logical_and.accumulate(p[order] <= error_rate / np.arange(len(p), 0, -1))
    rejected = np.zeros(len(p), dtype=np.bool_)
    rejected[order] = passed
    return rejected


def bh(p_values: ArrayLike, error_rate: float) -> Flags:
    """The Benjamini-Hochberg procedure: the k smallest of m p-values, for the largest k with all ≤ `k·error_rate/m`.

    Controls the FDR if claims are independent or positively dependent.

    Example:
        >>> bh([0.01, 0.04, 0.6, 0.9], error_rate=0.1).tolist()
        [True, True, False, False]
    """
    # Not scipy.stats.false_discovery_control: its adjusted p-values have rounding errors at the threshold, and
    # scipy.stats takes about a second to import.
    p = _checked(p_values, error_rate)
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= error_rate * np.arange(1, len(p) + 1) / len(p))
    rejected = np.zeros(len(p), dtype=np.bool_)
    rejected[order[: passed[-1] + 1 if len(passed) else 0]] = True
    return rejected


def p_values(e_values: ArrayLike) -> Array:
    """The reciprocal of each e-value, at most 1: a p-value, even if the e-value is the largest of a stream so far.

    Example:
        >>> p_values([20.0, 0.5]).tolist()
        [0.05, 1.0]
    """
    return np.asarray(1 / np.maximum(np.asarray(e_values, dtype=np.float64), 1))


def chance_below(mean: ArrayLike, stderr: ArrayLike, degrees: int | None = None) -> Array:
    """One-sided p-value for a mean below zero, valid for one look; 0.5 if the mean or its standard error is unknown.

    Args:
        mean: Means.
        stderr: Their standard errors.
        degrees: Degrees of freedom of the standard errors, for Student's t; None for the normal distribution.

    Example:
        >>> chance_below([-2.0, 0.0, 1.0, -3.0], [1.0, 1.0, 1.0, float("nan")]).round(3)
        array([0.023, 0.5  , 0.841, 0.5  ])
        >>> chance_below([-2.0, 0.0], [1.0, 1.0], degrees=9).round(3)
        array([0.038, 0.5  ])
    """
    # Imported here to keep the import of headwise.stats fast.
    from scipy.special import ndtr, stdtr  # type: ignore[import-untyped]

    with np.errstate(divide="ignore", invalid="ignore"):
        evidence = np.nan_to_num(np.asarray(mean, dtype=np.float64) / np.asarray(stderr, dtype=np.float64))
    return np.asarray(ndtr(evidence) if degrees is None else stdtr(degrees, evidence))


def _checked(values: ArrayLike, error_rate: float) -> Array:
    if not 0 < error_rate < 1:
        raise HeadwiseError(f"an error rate must be between 0 and 1, not {error_rate}")
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or not (checked >= 0).all():
        raise HeadwiseError("evidence must be a list of numbers, none of them negative or missing")
    return checked


def _decision(harmful: bool, helpful: bool) -> Decision:
    if harmful == helpful:
        return "undecided"
    return "harmful" if harmful else "helpful"
