"""Deciding about many players at once, at one stated error rate.

A player's mean below zero and its mean above zero are two claims, so n players make 2·n, and deciding a player wrongly
is making a claim that does not hold (for a mean of exactly zero, either).

An e-value is never above 1 in expectation unless the claim holds: evidence of 1/α is as rare as a p-value of α.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from headwise.errors import HeadwiseError
from headwise.stats.streams import Array

Decision = Literal["harmful", "helpful", "undecided"]
Correction = Literal["bonferroni", "holm", "closed", "e-bh"]
Flags = NDArray[np.bool_]


def decide(
    e_harmful: ArrayLike, e_helpful: ArrayLike, error_rate: float = 0.1, correction: Correction = "bonferroni"
) -> tuple[Decision, ...]:
    """Which players are harmful and which helpful; the others stay undecided.

    | correction | what is at most the error rate | e-values to give | under peeking |
    |---|---|---|---|
    | `bonferroni` | chance of any wrong decision | largest so far | holds over all looks together |
    | `holm` | the same, decides more | largest so far | the same: `1/e` is a p-value at all times (Ville) |
    | `closed` | the same, decides more at one look | present | holds over all looks together |
    | `e-bh` | expected share of wrong among all decisions | present | holds at the look at which one stops |

    The first three control the family-wise error rate (FWER), e-BH the false discovery rate (FDR); all of them
    whatever the dependence between players. "Present" and "largest so far" are `SignTest.e_values()` and
    `SignTest.e_values(best=True)`. A decided player need not be observed further: its e-values stay as they are.

    Args:
        e_harmful: Evidence for each player's mean being below zero, (players,).
        e_helpful: Evidence for each player's mean being above zero, (players,).
        error_rate: The error rate for all players together.
        correction: How to correct for their number.

    Returns:
        The decision for each player. One with evidence for both is undecided; present e-values never have that.

    Raises:
        HeadwiseError: The e-values do not fit, or there is no such correction.

    Example:
        >>> decide([500.0, 0.1, 2.0], [0.0, 70.0, 0.5], error_rate=0.1)
        ('harmful', 'helpful', 'undecided')
    """
    harmful, helpful = np.asarray(e_harmful, dtype=np.float64), np.asarray(e_helpful, dtype=np.float64)
    if harmful.shape != helpful.shape or harmful.ndim != 1:
        raise HeadwiseError(f"e-values are two lists of one length, found shapes {harmful.shape} and {helpful.shape}")
    if correction not in _REJECT:
        raise HeadwiseError(f"a correction is one of {', '.join(get_args(Correction))}, not {correction!r}")
    rejected = _REJECT[correction](np.concatenate([harmful, helpful]), error_rate)
    below, above = np.split(rejected, 2)  # (players,) each
    return tuple(_decision(bool(down), bool(up)) for down, up in zip(below, above, strict=True))


def bonferroni(e_values: ArrayLike, error_rate: float) -> Flags:
    """Claims whose e-value reaches the number of claims ÷ the error rate; controls the FWER.

    Example:
        >>> bonferroni([30.0, 10.0], error_rate=0.1).tolist()
        [True, False]
    """
    e = _checked(e_values, error_rate)
    return e >= len(e) / error_rate


def holm(p_values: ArrayLike, error_rate: float) -> Flags:
    """Holm's step-down procedure: the k-th smallest of m p-values against `error_rate/(m - k + 1)`, until one fails.

    Controls the FWER whatever the dependence.

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


def closed(e_values: ArrayLike, error_rate: float) -> Flags:
    """Closed testing by averages: claims for which *every* set they are in has a mean e-value of `1/error_rate`.

    The set that speaks most against a claim holds all the others below `1/error_rate`, so one sum tests them all.
    Controls the FWER, and makes every claim that Bonferroni and Holm make on the same e-values. The e-values must be
    those of one moment: an average of each one's largest so far is no e-value.

    Example:
        >>> closed([15.0, 9.0, 25.0], error_rate=0.1).tolist()
        [True, False, True]
    """
    e = _checked(e_values, error_rate)
    lacking = np.maximum(1 / error_rate - e, 0)  # (claims,)
    return np.asarray(e - 1 / error_rate >= lacking.sum())  # a claim that passes lacks nothing itself


def bh(p_values: ArrayLike, error_rate: float) -> Flags:
    """Benjamini and Hochberg's procedure: the k smallest of m p-values, for the largest k with all at `k·error_rate/m`.

    Controls the FDR where claims are independent, or depend on one another positively.

    Example:
        >>> bh([0.01, 0.04, 0.6, 0.9], error_rate=0.1).tolist()
        [True, True, False, False]
    """
    p = _checked(p_values, error_rate)
    order = np.argsort(p, kind="stable")
    return _up_to_last(order, p[order] <= error_rate * np.arange(1, len(p) + 1) / len(p))


def e_bh(e_values: ArrayLike, error_rate: float) -> Flags:
    """The e-BH procedure: the k largest of m e-values, for the largest k with all of them at `m/(k·error_rate)`.

    Controls the FDR whatever the dependence, at any one moment that one chooses to stop.

    Example:
        >>> e_bh([21.0, 20.0, 1.0, 0.5], error_rate=0.1).tolist()
        [True, True, False, False]
    """
    e = _checked(e_values, error_rate)
    order = np.argsort(-e, kind="stable")
    return _up_to_last(order, e[order] >= len(e) / (error_rate * np.arange(1, len(e) + 1)))


def p_values(e_values: ArrayLike) -> Array:
    """One over each e-value, at most 1: a p-value, also if the e-value is the largest of a stream so far.

    Example:
        >>> p_values([20.0, 0.5]).tolist()
        [0.05, 1.0]
    """
    return np.asarray(1 / np.maximum(np.asarray(e_values, dtype=np.float64), 1))


def chance_below(mean: ArrayLike, stderr: ArrayLike, degrees: int | None = None) -> Array:
    """The chance that a mean would be so low if it were zero: a p-value for its being below zero, at one look.

    What is not known, or not how well, is as likely as not.

    Args:
        mean: Means.
        stderr: Their standard errors.
        degrees: Degrees of freedom of these; None if they are known well enough for a normal mean.

    Example:
        >>> chance_below([-2.0, 0.0, 1.0, -3.0], [1.0, 1.0, 1.0, float("nan")]).round(3)
        array([0.023, 0.5  , 0.841, 0.5  ])
        >>> chance_below([-2.0, 0.0], [1.0, 1.0], degrees=9).round(3)
        array([0.038, 0.5  ])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        evidence = np.asarray(mean, dtype=np.float64) / np.asarray(stderr, dtype=np.float64)
    if degrees is not None:  # Student's t as a normal deviate, by the approximation of Wallace (1959)
        scale = (8 * degrees + 1) / (8 * degrees + 3)
        evidence = np.sign(evidence) * scale * np.sqrt(degrees * np.log1p(evidence**2 / degrees))
    return np.asarray(torch.special.ndtr(torch.from_numpy(np.nan_to_num(evidence))).numpy())


def _holm(e_values: ArrayLike, error_rate: float) -> Flags:
    return holm(p_values(e_values), error_rate)


_REJECT: dict[str, Callable[[ArrayLike, float], Flags]] = {
    "bonferroni": bonferroni,
    "holm": _holm,
    "closed": closed,
    "e-bh": e_bh,
}


def _checked(values: ArrayLike, error_rate: float) -> Array:
    if not 0 < error_rate < 1:
        raise HeadwiseError(f"an error rate is between 0 and 1, not {error_rate}")
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or not (checked >= 0).all():
        raise HeadwiseError("evidence is a list of numbers, none of them negative or missing")
    return checked


def _up_to_last(order: NDArray[np.int64], passed: Flags) -> Flags:
    """The claims up to the last in order that passes, whether those before it do or not."""
    reached = np.flatnonzero(passed)
    rejected = np.zeros(len(order), dtype=np.bool_)
    rejected[order[: reached[-1] + 1 if len(reached) else 0]] = True
    return rejected


def _decision(harmful: bool, helpful: bool) -> Decision:
    if harmful == helpful:
        return "undecided"
    return "harmful" if harmful else "helpful"
