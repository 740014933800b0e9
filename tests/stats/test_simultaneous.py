"""Simultaneous bounds: all of them hold together, and a path ends before a language loses too much."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.stats.simultaneous import count_safe, lower_bounds

Array = NDArray[np.float64]
GAMES = 400
#: The gains of a step of a path in each language.
GAINS = np.array([0.5, 0.5, 0.5, -0.8])


def accuracy(totals: Array) -> Array:
    return np.asarray(100 * totals[..., 0] / totals[..., 1])


def measured(answers: Array) -> Array:
    return np.stack([answers, np.ones_like(answers)], axis=1)


def changes(draw: np.random.Generator, gains: Array, rate: float, examples: int, alike: float) -> Array:
    """Changes of answers, (languages, examples), with known gains in points; aligned languages have some in common."""
    shared, own = draw.random(examples), draw.random((len(gains), examples))
    place = np.where(draw.random(own.shape) < alike, shared, own)
    half, up = rate / 2, gains[:, None] / 200
    return np.where(place < half + up, 1.0, np.where(place > 1 - half + up, -1.0, 0.0))


@pytest.mark.parametrize("alike", [0.0, 0.8])
@pytest.mark.parametrize(
    ("rate", "apart", "examples"),
    [(0.2, 0.0, 200), (0.2, 3.0, 200), (0.02, 0.5, 200), (0.02, 0.5, 1000), (0.005, 0.0, 200), (0.1, 2.0, 60)],
)
def test_all_bounds_hold_together_in_simulated_games(rate: float, apart: float, examples: int, alike: float) -> None:
    """Common changes and rare ones, gains that differ or not, few examples and many."""
    draw, held, tight = np.random.default_rng(0), [], []
    for _ in range(GAMES):
        gains = (apart * draw.normal(0, 1, 8)).clip(-95 * rate, 95 * rate)
        base = (draw.random((8, examples)) < 0.7).astype(float)
        after = base + changes(draw, gains, rate, examples, alike)
        found = lower_bounds([measured(each) for each in base], [measured(each) for each in after], accuracy)
        held.append((np.array(found.lower) <= gains).all())
        tight.append(np.mean(gains - found.lower))
    assert np.mean(held) >= 0.95
    assert np.mean(tight) < 100 * (4 * np.sqrt(rate / examples) + 6 / examples)  # and bounds are not wider than needed


def test_rare_losses_are_covered() -> None:
    """One answer in 150 turns wrong and none turns right: many samples of 200 show no or one loss."""
    draw, held = np.random.default_rng(1), []
    for _ in range(GAMES):
        base = np.ones((6, 200))
        after = np.where(draw.random(base.shape) < 1 / 150, 0.0, base)
        found = lower_bounds([measured(each) for each in base], [measured(each) for each in after], accuracy)
        held.append(max(found.lower) <= -100 / 150 and min(found.lower) > -10)
    assert np.mean(held) >= 0.95


def test_bounds_of_a_ratio_of_sums_hold() -> None:
    """Sentences of different length: accuracy over words is a ratio, and losses are more frequent in long ones."""
    draw, held = np.random.default_rng(2), []
    for _ in range(GAMES):
        words = draw.integers(3, 30, (5, 150)).astype(float)
        lost = draw.binomial(words.astype(int), 0.001 * words) * 1.0
        base = np.stack([words, words], axis=2)
        after = np.stack([words - lost, words], axis=2)
        truth = -100 * 0.001 * np.mean(np.arange(3, 30) ** 2) / np.mean(np.arange(3, 30))
        held.append(max(lower_bounds(list(base), list(after), accuracy).lower) <= truth)
    assert np.mean(held) >= 0.95


def test_a_path_rarely_goes_on_to_a_mask_that_harms_a_language() -> None:
    """Each step changes more answers; all languages gain but one, which loses more than the margin from step 4 on."""
    draw, steps = np.random.default_rng(3), []
    for _ in range(GAMES):
        base = (draw.random((4, 2000)) < 0.7).astype(float)
        after = base + np.cumsum([changes(draw, GAINS, 0.02, 2000, 0.5) for _ in range(6)], axis=0)
        path = [[measured(each) for each in step] for step in after]
        steps.append(count_safe([measured(each) for each in base], path, accuracy, margin=3.0))
    assert np.mean(np.array(steps) >= 4) <= 0.05  # step 4 loses 3.2 points, more than the margin
    assert np.mean(steps) > 1


def test_a_language_in_which_nothing_changed_is_not_certain_to_lose_nothing() -> None:
    base = measured(np.array([1.0, 0.0, 1.0, 1.0] * 50))
    [lower] = lower_bounds([base], [base], accuracy).lower
    assert -5 < lower < -1
    assert count_safe([base], [[base], [base]], accuracy, margin=0.0) == 0
    assert count_safe([base], [[base], [base]], accuracy, margin=5.0) == 2


def test_wrong_arguments_are_errors() -> None:
    base = measured(np.ones(3))
    with pytest.raises(HeadwiseError, match="one base and one system"):
        lower_bounds([base], [], accuracy)
    with pytest.raises(HeadwiseError, match="confidence"):
        lower_bounds([base], [base], accuracy, confidence=1.0)
    with pytest.raises(HeadwiseError, match="margin"):
        count_safe([base], [], accuracy, margin=-1.0)
