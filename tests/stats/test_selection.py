"""Choosing the best of several systems: gains without optimism, intervals and chances of a loss that hold."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.stats.selection import select_system

Array = NDArray[np.float64]
GAMES, EXAMPLES, SYSTEMS = 300, 300, 5


def accuracy(totals: Array) -> Array:
    return np.asarray(100 * totals[..., 0] / totals[..., 1])


def game(draw: np.random.Generator, gains: Array) -> tuple[Array, list[Array]]:
    """Answers of a base and of systems that change a fifth of its answers, with known true gains in points."""
    right = draw.random(EXAMPLES) < 0.7
    changed = draw.random((len(gains), EXAMPLES)) < 0.2
    better = draw.random((len(gains), EXAMPLES)) < (0.5 + gains[:, None] / 100 / 0.2 / 2)
    # Of the changed answers, some turn right and some turn wrong; the others are those of the base.
    answers = right + np.where(changed, np.where(better, 1.0, -1.0), 0.0)
    ones = np.ones(EXAMPLES)
    return np.stack([right, ones], 1).astype(float), [np.stack([each, ones], 1) for each in answers]


@pytest.mark.parametrize("spread", [0.0, 1.0, 4.0])
def test_gains_intervals_and_chances_of_a_loss_hold_in_simulated_games(spread: float) -> None:
    draw = np.random.default_rng(0)
    errors, inside, losses, stated, plain, truths = [], [], [], [], [], []
    for seed in range(GAMES):
        truth = spread * draw.normal(0, 1, SYSTEMS)
        base, systems = game(draw, truth)
        found = select_system(base, systems, accuracy, risk=0.4, resamples=200, seed=seed)
        if found.chosen is None:
            continue
        own = truth[found.chosen]
        errors.append(found.gain - own)
        plain.append(max(found.gains) - own)
        inside.append(found.low <= own <= found.high)
        losses.append(own < 0)
        stated.append(found.chance_of_loss)
        truths.append(own)
    assert abs(np.mean(errors)) < max(0.75, 0.6 * np.mean(plain))  # most of the optimism is gone
    assert np.mean(inside) > 0.88
    if spread:
        assert abs(np.mean(losses) - np.mean(stated)) < 0.1
        assert np.mean(truths) > 0


def test_few_games_without_any_gain_get_a_system() -> None:
    draw = np.random.default_rng(1)
    found = [select_system(*game(draw, np.zeros(SYSTEMS)), accuracy, resamples=200, seed=seed) for seed in range(GAMES)]
    assert np.mean([each.chosen is not None for each in found]) < 0.2
    assert {(each.gain, each.chance_of_loss) for each in found if each.chosen is None} == {(0.0, 0.0)}


def test_the_base_wins_ties_and_the_first_of_equal_systems_is_chosen() -> None:
    base = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
    better = np.array([[1.0, 1.0]] * 80 + [[0.0, 1.0]] * 20)
    assert select_system(base, [base, base], accuracy).chosen is None
    found = select_system(base, [base, better, better], accuracy)
    assert found.chosen == 1
    assert found.gains == pytest.approx((0.0, 20.0, 20.0))
    assert found.gain == pytest.approx(20, abs=0.5)


def test_a_higher_risk_chooses_more() -> None:
    draw = np.random.default_rng(2)
    base, [system] = game(draw, np.array([2.0]))
    losses = select_system(base, [system], accuracy, risk=0.99).chance_of_loss
    assert 0 < losses < 0.5
    assert select_system(base, [system], accuracy, risk=losses * 0.9).chosen is None
    assert select_system(base, [system], accuracy, risk=losses * 1.1).chosen == 0


def test_wrong_arguments_are_errors() -> None:
    base = np.ones((3, 2))
    with pytest.raises(HeadwiseError, match="risk"):
        select_system(base, [base], accuracy, risk=0)
    with pytest.raises(HeadwiseError, match="no systems"):
        select_system(base, [], accuracy)
