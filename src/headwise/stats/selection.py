"""Choosing the best of several systems on the same examples that they are measured on, without optimism."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.stats.changes import example_gains
from headwise.stats.streams import Array

#: Scale of the half-Cauchy prior of the size τ of true gains, in standard errors.
_SCALE = 0.5
#: Correlation of the true gains of two systems in one half of the prior; in the other half, that of their errors.
_ALIKE = 0.8
#: Sizes of true gains in standard errors, over which the prior is averaged.
_SIZES = np.geomspace(0.05, 30, 16)
#: Standard errors by which a system must be behind to be left out of further measurements.
_BEHIND = 1.5


@dataclass(frozen=True)
class Selection:
    """The system that was chosen.

    Attributes:
        chosen: Its number; None if the base is kept.
        gain: The expected gain over the base.
        low: Lower end of the interval of the gain.
        high: Upper end of the interval of the gain.
        chance_of_loss: The probability that the system is worse than the base.
        gains: The gain of every system on the examples. The highest one is too high on average.
    """

    chosen: int | None
    gain: float
    low: float
    high: float
    chance_of_loss: float
    gains: tuple[float, ...]


def select_system(
    base: Array,
    systems: Sequence[Array],
    value: Callable[[Array], Array],
    risk: float = 0.2,
    confidence: float = 0.95,
) -> Selection:
    """Choose the system with the highest expected gain over a base, or the base.

    The highest of several gains is too high on average. Here the true gains of the systems have a normal prior around
    zero, whose size is averaged over (`true_gains`). The expected gain and the probability of a loss are those given
    the gains of all systems. They are drawn towards zero by as much as the errors of the gains require, so choosing the
    highest one causes no optimism. Systems that are equal to the base or to an earlier system are left out.

    The interval joins two: that of the true gain given the measured ones, and the simultaneous confidence interval of
    the gains of all systems (Student's t with Bonferroni's correction). The first one holds where gains are small
    compared to their errors, so that only the luckiest of them are chosen. The second one does not depend on the prior.

    A system may be measured on the first examples only, because it was `left_behind` there. It is not chosen, but its
    gain counts: without it, the others would look better than they are.

    The base is kept unless the expected gain is above 0 and the probability of a loss is at most `risk`.

    Args:
        base: What each example adds to the base's metric, (examples, statistics).
        systems: The same for every system, (examples, statistics) each, with the examples in the same order; for some
            systems, the first examples only.
        value: The metric of summed statistics, (..., statistics) to (...); higher is better.
        risk: Maximum probability of a loss.
        confidence: Probability that the gain is inside the interval.

    Raises:
        HeadwiseError: There are no systems or fewer than two examples, they do not fit each other, or the risk or the
            confidence is not between 0 and 1.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> better = np.array([[1.0, 1.0]] * 75 + [[0.0, 1.0]] * 25)
        >>> found = select_system(right, [right, better], lambda totals: totals[..., 0] / totals[..., 1])
        >>> found.chosen, 0.1 < found.gain < 0.15, found.low > 0, found.chance_of_loss < 0.01
        (1, True, True, True)
        >>> select_system(right, [right], lambda totals: totals[..., 0] / totals[..., 1]).chosen is None
        True
    """
    for name, number in (("risk", risk), ("confidence", confidence)):
        if not 0 < number < 1:
            raise HeadwiseError(f"{name} must be between 0 and 1, not {number}")
    if not systems:
        raise HeadwiseError("there are no systems to choose from")
    from scipy.special import ndtri, stdtrit  # type: ignore[import-untyped]  # here: scipy takes long to import

    gains, each = _partial_gains(base, systems, value)
    different = _different(each)
    none = Selection(None, 0.0, 0.0, 0.0, 0.0, tuple(gains.tolist()))
    if not len(different):
        return none
    n = len(base)
    covariance = _covariance([each[place] for place in different])
    expected, error, loss = true_gains(gains[different], covariance)
    expected = np.where([len(each[place]) == n for place in different], expected, -np.inf)
    top = int(expected.argmax())
    if expected[top] <= 0 or loss[top] > risk:
        return none
    chosen, tail = int(different[top]), (1 - confidence) / 2
    centres = np.array([expected[top], gains[chosen]])
    reaches = np.array([ndtri(1 - tail), stdtrit(n - 1, 1 - tail / len(different))])
    reaches *= [error[top], np.sqrt(covariance[top, top])]
    low, high = float((centres - reaches).min()), float((centres + reaches).max())
    return Selection(chosen, float(expected[top]), low, high, float(loss[top]), none.gains)


def true_gains(gains: Array, covariance: Array) -> tuple[Array, Array, Array]:
    """The true gains given measured ones: expectation, standard deviation, and probability of a loss, (systems,) each.

    The measured gains are normal around the true ones. The true gains are normal around zero. Their standard deviation
    is τ standard errors of the system: a system that changes few answers can neither gain nor lose much. Their
    correlation is the mean of 0.8 and of the correlation of the errors, which is high for systems that change the same
    answers. τ has a half-Cauchy prior with the scale 0.5, and is averaged over.

    Args:
        gains: The measured gains, (systems,).
        covariance: The covariance of their errors, (systems, systems).

    Example:
        >>> expected, error, loss = true_gains(np.array([4.0, 0.5]), np.eye(2))
        >>> bool(2.5 < expected[0] < 4), bool(loss[0] < 0.01), bool(loss[1] > 0.1)
        (True, True, True)
    """
    from scipy.special import ndtr

    errors = np.sqrt(np.diag(covariance))
    each = np.outer(errors, errors)
    common = _ALIKE * each + (1 - _ALIKE) * np.diag(errors**2)
    prior = _SIZES[:, None, None] ** 2 * (common + covariance) / 2  # (sizes, systems, systems)
    total = prior + covariance
    inverse = np.linalg.inv(total)
    means = np.einsum("sij,sjk,k->si", prior, inverse, gains)
    variances = np.einsum("sii->si", prior - prior @ inverse @ prior).clip(1e-12 * errors**2)
    fit = np.linalg.slogdet(total)[1] + np.einsum("i,sij,j->s", gains, inverse, gains)
    # On a grid of equal ratios, the weight of a size is its density times the size.
    logs = np.log(_SIZES / (_SCALE**2 + _SIZES**2)) - 0.5 * fit
    weight = np.exp(logs - logs.max())
    weight /= weight.sum()
    expected = weight @ means
    error = np.sqrt(weight @ (variances + (means - expected) ** 2))
    return np.asarray(expected), np.asarray(error), np.asarray(weight @ ndtr(-means / np.sqrt(variances)))


def left_behind(base: Array, systems: Sequence[Array], value: Callable[[Array], Array]) -> list[bool]:
    """Whether each system is so far behind that measuring it on further examples is hardly worth its cost.

    It is if its gain is more than 1.5 standard errors below that of the best system, or below zero.

    Args:
        base: What each example adds to the base's metric, (examples, statistics).
        systems: The same for every system.
        value: The metric of summed statistics; higher is better.

    Example:
        >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
        >>> better, worse = (np.array([[1.0, 1.0]] * n + [[0.0, 1.0]] * (100 - n)) for n in (75, 50))
        >>> left_behind(right, [better, right, worse], lambda totals: totals[..., 0] / totals[..., 1])
        [False, True, True]
    """
    gains, each = example_gains(base, systems, value)
    errors = np.sqrt(each.var(0, ddof=1) / len(base))
    lags = np.sqrt((each - each[:, [int(gains.argmax())]]).var(0, ddof=1) / len(base))
    behind = (gains.max() - gains > _BEHIND * lags) | (gains < -_BEHIND * errors)
    return [bool(each) for each in behind]


def _partial_gains(base: Array, systems: Sequence[Array], value: Callable[[Array], Array]) -> tuple[Array, list[Array]]:
    """The gains, (systems,), and the contributions of the examples of each system, (its examples,)."""
    gains, each = np.zeros(len(systems)), [np.zeros(0)] * len(systems)
    for count in {len(system) for system in systems}:
        places = [place for place, system in enumerate(systems) if len(system) == count]
        shown = base if count > len(base) else base[:count]  # more examples than the base has are an error
        gains[places], found = example_gains(shown, [systems[place] for place in places], value)
        for place, column in zip(places, found.T, strict=True):
            each[place] = column
    return gains, each


def _covariance(each: Sequence[Array]) -> Array:
    """The covariance of the errors of gains, (systems, systems), from the contributions of the examples of each.

    The covariance of the means over n and over m ≤ n examples, of which m are the same, is that of an example ÷ n.
    """
    counts = np.array([len(column) for column in each])
    found = np.zeros((len(each), len(each)))
    for count in np.unique(counts):
        among = np.flatnonzero(counts >= count).tolist()
        shared = np.atleast_2d(np.cov([each[place][:count] for place in among]))
        found[np.ix_(among, among)] = shared / np.maximum.outer(counts[among], counts[among])
    return found


def _different(each: Sequence[Array]) -> NDArray[np.int64]:
    """The systems that differ from the base and from all systems before them."""
    found: list[int] = []
    for place, column in enumerate(each):
        if column.any() and not any(np.array_equal(column, each[other]) for other in found):
            found.append(place)
    return np.array(found, dtype=np.int64)
