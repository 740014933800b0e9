"""Borrowing strength: the values of a language are drawn towards the mean over languages by empirical Bayes."""

import dataclasses
from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from headwise.errors import FieldError, HeadwiseError
from headwise.scores.alike import check_alike
from headwise.scores.head_scores import HeadScores
from headwise.stats import Decision, shrink_to_zero

Array = NDArray[np.float64]

#: Error rate of the decisions if the scores have none.
_ERROR_RATE = 0.1


def shrink_to_mean(scores: Mapping[str, HeadScores], correlation: float = 0.0) -> dict[str, HeadScores]:
    """The scores of each language, drawn towards the mean over languages.

    The value of a player in a language is its mean over languages plus a difference. The differences are drawn towards
    zero by what is usual over all players and languages (`headwise.stats.shrink_to_zero`): languages that are alike
    share almost all of their examples, and a language that is clearly different keeps its own value.

    Languages that were scored with the same draws of aligned examples have correlated errors. These do not average out
    over languages, and they cancel in differences. `headwise.scoring.pool.error_correlation` estimates the correlation
    from the rounds of a run.

    Decisions are made anew: a player is harmful if the normal interval around its value is below zero, with
    Bonferroni's correction over players. They hold for one look at a fixed budget and on average over players, because
    they depend on the other languages: `provenance.borrowed` lists these, and `provenance.confidence` says so.

    Args:
        scores: The scores of each language, unbiased and of the same players and estimand.
        correlation: Correlation of the errors of two languages, from 0 to 1.

    Returns:
        The scores of each language. Their values are biased, with smaller errors; `shrunk` has the same values.

    Raises:
        HeadwiseError: There are fewer than three languages, they cannot be compared, a value or an error is missing, or
            the correlation is not between 0 and 1.

    Example:
        >>> from headwise.scores import Provenance
        >>> names = tuple(f"encoder.0.{head}" for head in range(4))
        >>> def of(*value):
        ...     return HeadScores(names, value, (0.3,) * 4, (9,) * 4, ("undecided",) * 4, Provenance("stars", "full"))
        >>> found = shrink_to_mean({"sw": of(1.1, -1.0, 0.1, 0.2), "tr": of(0.9, -1.2, 0.0, 0.1),
        ...                         "zh": of(1.0, -0.8, 0.2, 6.0)})
        >>> [round(value, 1) for value in found["zh"].value], found["zh"].decided("harmful")
        ([1.0, -1.0, 0.1, 6.0], ('encoder.0.1',))
        >>> found["zh"].provenance.borrowed
        ('sw', 'tr')
    """
    _check(scores, correlation)
    every = list(scores.values())
    values, errors = np.array([each.value for each in every]), np.array([each.stderr for each in every])
    mean, mean_variance = values.mean(0), _mean_variance(errors, correlation)  # (players,)
    noise, shared = _difference_variance(errors, correlation)  # (languages, players)
    usual = np.broadcast_to(np.sqrt((errors**2).mean(0)), errors.shape)
    found = shrink_to_zero((values - mean).ravel(), np.sqrt(noise).ravel(), usual.ravel())
    difference, error = found.mean.reshape(values.shape), found.error.reshape(values.shape)
    kept = np.divide(error**2, noise, out=np.zeros_like(noise), where=noise > 0).clip(0, 1)
    stderr = np.sqrt((mean_variance + error**2 + 2 * kept * shared).clip(0))
    return {
        language: _scores(each, mean + difference[place], stderr[place], [name for name in scores if name != language])
        for place, (language, each) in enumerate(scores.items())
    }


def _mean_variance(errors: Array, correlation: float) -> Array:
    """The variance of the mean over languages, (players,)."""
    common, own = errors.mean(0) ** 2, (errors**2).sum(0) / len(errors) ** 2
    return np.asarray(correlation * common + (1 - correlation) * own)


def _difference_variance(errors: Array, correlation: float) -> tuple[Array, Array]:
    """The variance of a language's difference from the mean, and its covariance with the mean, (languages, players)."""
    n, own = len(errors), (1 - correlation) * errors**2
    total = own.sum(0) / n**2
    common = correlation * (errors - errors.mean(0)) ** 2  # languages with other errors do not cancel all of it
    return own * (1 - 2 / n) + total + common, own / n - total


def _scores(scores: HeadScores, value: Array, stderr: Array, others: list[str]) -> HeadScores:
    """Scores with new values, and the decisions that these allow."""
    origin = scores.provenance
    rate = origin.error_rate or _ERROR_RATE
    reach = NormalDist().inv_cdf(1 - rate / (2 * len(value))) * stderr
    decision: tuple[Decision, ...] = tuple(
        "harmful" if high < 0 else "helpful" if low > 0 else "undecided"
        for low, high in zip(value - reach, value + reach, strict=True)
    )
    provenance = dataclasses.replace(
        origin,
        error_rate=rate,
        confidence=f"normal, borrowed from {len(others)} other languages",
        unbiased=False,
        borrowed=tuple(others),
    )
    new, error = tuple(value.tolist()), tuple(stderr.tolist())
    return dataclasses.replace(
        scores, value=new, stderr=error, decision=decision, provenance=provenance, shrunk=new, shrunk_error=error
    )


def _check(scores: Mapping[str, HeadScores], correlation: float) -> None:
    if not 0 <= correlation <= 1:
        raise FieldError("correlation", f"must be between 0 and 1, not {correlation}")
    if len(scores) < 3:
        raise HeadwiseError(f"a mean over languages to shrink to needs at least 3 languages, not {len(scores)}")
    check_alike(scores)
    for language, each in scores.items():
        if not (each.provenance.signed and each.provenance.unbiased):
            raise HeadwiseError(
                f"the values of {each.provenance.method} are biased or without a sign: score with an unbiased method "
                "such as stars"
            )
        if not (np.isfinite(each.value).all() and np.isfinite(each.stderr).all()):
            raise HeadwiseError(f"some players of {language} have no value or no error: score it with a larger budget")
