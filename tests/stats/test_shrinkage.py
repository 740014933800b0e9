"""Shrinkage: smaller errors than the estimates and than zero, errors that hold, and no change of what is clear."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.stats import shrink_to_zero

Array = NDArray[np.float64]
GAMES, HEADS = 200, 48
#: The effects of a game, from none at all to all clear.
EFFECTS: dict[str, Callable[[np.random.Generator], Array]] = {
    "none": lambda draw: np.zeros(HEADS),
    "few and large": lambda draw: np.where(draw.random(HEADS) < 0.1, draw.normal(0, 8, HEADS), 0.0),
    "as large as errors": lambda draw: draw.normal(0, 1, HEADS),
    "large": lambda draw: draw.normal(0, 20, HEADS),
}


@pytest.mark.parametrize("kind", EFFECTS)
def test_the_error_is_near_the_smaller_one_of_both_parents_and_intervals_hold(kind: str) -> None:
    """The parents are the estimates, and zero. The truth of each of 200 simulated games is known."""
    draw, squares, inside = np.random.default_rng(0), [], []
    for _ in range(GAMES):
        truth, error = EFFECTS[kind](draw), np.exp(draw.normal(0, 0.5, HEADS))
        estimate = truth + error * draw.normal(0, 1, HEADS)
        found = shrink_to_zero(estimate, error)
        squares.append([np.mean((each - truth) ** 2) for each in (found.mean, estimate, np.zeros(HEADS))])
        inside.append(np.abs(found.mean - truth) <= 1.96 * found.error)
    shrunk, full, none = np.sqrt(np.mean(squares, axis=0))
    assert shrunk <= max(1.1 * min(full, none), 0.15 * full)  # zero is exact if there are no effects
    assert np.mean(inside) > 0.92


def test_posteriors_agree_with_a_numerical_integral() -> None:
    """For effects that are all alike, the fitted prior is close to the one that effects were drawn from."""
    draw = np.random.default_rng(2)
    truth = draw.normal(0, 2, 4000)
    estimate = truth + draw.normal(0, 1, 4000)
    found = shrink_to_zero(estimate, np.ones(4000))
    grid = np.linspace(-15, 15, 3001)
    for place in range(3):
        density = np.exp(-0.5 * (grid / 2) ** 2 - 0.5 * (estimate[place] - grid) ** 2)
        mean = (grid * density).sum() / density.sum()
        assert found.mean[place] == pytest.approx(mean, abs=0.15)
        spread = np.sqrt(((grid - mean) ** 2 * density).sum() / density.sum())
        assert found.error[place] == pytest.approx(spread, abs=0.1)


def test_clear_effects_stay_and_missing_ones_stay_missing() -> None:
    found = shrink_to_zero([50.0, np.nan, 0.1, -0.1], [1.0, 1.0, 1.0, np.nan])
    assert found.mean[0] == pytest.approx(50, rel=0.02)
    assert np.isnan(found.mean[1])
    assert abs(found.mean[2]) < 0.1
    assert found.mean[3] == -0.1  # without an error, the estimate is the effect
    with pytest.raises(HeadwiseError, match="one standard error per estimate"):
        shrink_to_zero([1.0, 2.0], [1.0])


def test_the_scale_says_which_effects_are_expected_to_be_large() -> None:
    estimate, error = np.array([3.0, 3.0] + [0.0] * 20 + [30.0] * 4), np.ones(26)
    scale = np.array([0.01, 10.0] + [0.01] * 20 + [10.0] * 4)
    small, large, *_ = shrink_to_zero(estimate, error, scale).mean
    assert small < 0.2 * large
