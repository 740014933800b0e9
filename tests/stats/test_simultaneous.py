"""Simultaneous bounds: all of them hold together, and a path ends before a language loses too much."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.stats.simultaneous import last_safe, lower_bounds

Array = NDArray[np.float64]
GAMES, EXAMPLES, LANGUAGES = 300, 200, 8


def accuracy(totals: Array) -> Array:
    return np.asarray(100 * totals[..., 0] / totals[..., 1])


def measured(answers: Array) -> Array:
    return np.stack([answers, np.ones_like(answers)], axis=1)


def changes(draw: np.random.Generator, gain: float, shared: Array) -> Array:
    """Changes of answers by a mask with a known gain in points; `shared` makes those of aligned languages alike."""
    place = np.where(draw.random(EXAMPLES) < 0.5, shared, draw.random(EXAMPLES))
    return np.where(place < 0.1 + gain / 200, 1.0, np.where(place > 0.9 + gain / 200, -1.0, 0.0))


@pytest.mark.parametrize("apart", [0.0, 3.0])
def test_all_bounds_hold_together_in_simulated_games(apart: float) -> None:
    draw, held, single = np.random.default_rng(0), [], []
    for seed in range(GAMES):
        gains, shared = apart * draw.normal(0, 1, LANGUAGES), draw.random(EXAMPLES)
        bases = [(draw.random(EXAMPLES) < 0.7).astype(float) for _ in gains]
        systems = [measured(base + changes(draw, gain, shared)) for base, gain in zip(bases, gains, strict=True)]
        found = lower_bounds([measured(each) for each in bases], systems, accuracy, resamples=300, seed=seed)
        held.append((np.array(found.lower) <= gains).all())
        single.append((np.array(found.lower) <= gains).mean())
    assert 0.92 < np.mean(held) <= 0.99
    assert np.mean(single) > 0.98  # bounds of single languages are wider than they would have to be alone


def test_a_path_rarely_goes_on_to_a_mask_that_harms_a_language() -> None:
    """Step k gains k points in all languages but one, which loses more with each step; from step 4 on, too much."""
    draw, wrong, steps = np.random.default_rng(1), 0, []
    for seed in range(GAMES):
        bases = [(draw.random(EXAMPLES * 4) < 0.7).astype(float) for _ in range(4)]
        path = []
        for step in range(1, 7):
            gains = [1.0 * step, 1.0 * step, 1.0 * step, 3.0 - 1.5 * step]
            path.append(
                [
                    measured(base + np.concatenate([changes(draw, gain, draw.random(EXAMPLES)) for _ in range(4)]))
                    for base, gain in zip(bases, gains, strict=True)
                ]
            )
        found = last_safe([measured(each) for each in bases], path, accuracy, margin=3.0, resamples=200, seed=seed)
        steps.append(found)
        wrong += found > 4  # step 5 loses 4.5 points, more than the margin
    assert wrong <= 0.05 * GAMES
    assert np.mean(steps) > 1


def test_a_language_without_any_change_has_its_gain_as_its_bound() -> None:
    base = measured(np.array([1.0, 0.0, 1.0, 1.0]))
    assert lower_bounds([base], [base], accuracy, resamples=50).lower == (0.0,)
    assert last_safe([base], [[base], [base]], accuracy, margin=0.0, resamples=50) == 2


def test_wrong_arguments_are_errors() -> None:
    base = measured(np.ones(3))
    with pytest.raises(HeadwiseError, match="one base and one system"):
        lower_bounds([base], [], accuracy)
    with pytest.raises(HeadwiseError, match="confidence"):
        lower_bounds([base], [base], accuracy, confidence=1.0)
    with pytest.raises(HeadwiseError, match="margin"):
        last_safe([base], [], accuracy, margin=-1.0)
