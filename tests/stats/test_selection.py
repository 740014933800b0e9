"""Choosing the best of several systems: gains without optimism, intervals and chances of a loss that hold."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.stats.selection import _covariance, left_behind, select_system, true_gains

Array = NDArray[np.float64]
GAMES, EXAMPLES, SYSTEMS = 400, 300, 5


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


def drop(base: Array, systems: list[Array]) -> list[Array]:
    """The systems; of those that are left behind after half of the examples, only that half."""
    half = len(base) // 2
    behind = left_behind(base[:half], [each[:half] for each in systems], accuracy)
    return [each[:half] if far else each for each, far in zip(systems, behind, strict=True)]


def simulate(spread: float, dropping: bool, games: int = GAMES) -> Array:
    """For each chosen system: its true gain, the expected one, the ends of the interval and the chance of a loss."""
    draw, found = np.random.default_rng(int(10 * spread)), []
    for _ in range(games):
        truth = spread * (np.sqrt(0.5) * draw.normal() + np.sqrt(0.5) * draw.normal(0, 1, SYSTEMS))
        base, systems = game(draw, truth)
        each = select_system(base, drop(base, systems) if dropping else systems, accuracy)
        if each.chosen is not None:
            found.append([truth[each.chosen], each.gain, each.low, each.high, each.chance_of_loss])
    return np.array(found).T


@pytest.mark.parametrize("dropping", [False, True])
def test_intervals_and_chances_of_a_loss_hold_in_simulated_games(dropping: bool) -> None:
    """The standard error of a gain is 2.6 points; true gains are smaller, as large, and larger."""
    found = [simulate(spread, dropping) for spread in (1.0, 2.6, 6.0)]
    for truth, gain, low, high, _ in found:
        assert np.mean((low <= truth) & (truth <= high)) >= 0.95
        assert np.mean(gain) < np.mean(truth) + 1.3  # half a standard error
    truth, gain, _, _, stated = np.concatenate(found, axis=1)
    assert -1 < np.mean(gain - truth) < 0.3  # no optimism; large gains are drawn towards zero more than needed
    for few, many in ((0, 0.05), (0.05, 0.2)):  # the reliability of the stated chances
        chosen = (stated > few) & (stated <= many)
        assert chosen.sum() > 50
        assert np.mean(truth[chosen] < 0) < np.mean(stated[chosen]) + 0.05


@pytest.mark.parametrize("dropping", [False, True])
def test_few_games_without_any_gain_get_a_system(dropping: bool) -> None:
    draw = np.random.default_rng(1)
    games = [game(draw, np.zeros(SYSTEMS)) for _ in range(GAMES)]
    found = [select_system(base, drop(base, each) if dropping else each, accuracy) for base, each in games]
    assert np.mean([each.chosen is not None for each in found]) < 0.15
    assert {(each.gain, each.chance_of_loss) for each in found if each.chosen is None} == {(0.0, 0.0)}


def unequal_game(draw: np.random.Generator, size: float, alike: float) -> Array | None:
    """Systems that change 1% to 30% of the answers; the size of true gains grows with the square root of this share.

    Returns:
        The true gain of the chosen system, the expected one, the ends of its interval and the chance of a loss.
    """
    share, right = np.array([0.01, 0.03, 0.05, 0.08, 0.05, 0.3]), draw.random(EXAMPLES) < 0.6
    common, own = draw.normal(), draw.normal(size=len(share))
    truth = size * (np.sqrt(alike) * common + np.sqrt(1 - alike) * own) * np.sqrt(share / 0.3)
    truth = np.clip(truth, -95 * share, 95 * share)
    changed = draw.random((len(share), EXAMPLES)) < share[:, None]
    better = draw.random(changed.shape) < (0.5 + truth / 200 / share)[:, None]
    base, *systems = (
        np.stack([answers, np.ones(EXAMPLES)], 1)
        for answers in (right, *(right + np.where(changed, np.where(better, 1.0, -1.0), 0.0)))
    )
    each = select_system(base, drop(base, systems), accuracy)
    return (
        None
        if each.chosen is None
        else np.array([truth[each.chosen], each.gain, each.low, each.high, each.chance_of_loss])
    )


@pytest.mark.parametrize("alike", [0.0, 0.8])
def test_statements_hold_for_systems_that_change_few_or_many_answers(alike: float) -> None:
    draw, found = np.random.default_rng(6), []
    for size in (1.0, 3.0, 6.0):
        found += [each for each in (unequal_game(draw, size, alike) for _ in range(200)) if each is not None]
    truth, gain, low, high, stated = np.array(found).T
    assert len(found) > 100
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95
    assert np.mean(gain - truth) < 0.3
    for few, many in ((0, 0.05), (0.05, 0.2)):
        chosen = (stated > few) & (stated <= many)
        assert np.mean(truth[chosen] < 0) < np.mean(stated[chosen]) + 0.05


def test_the_posterior_agrees_with_draws_from_the_prior() -> None:
    """Draws of the size, of true gains and of measured ones; those near the measured gains have the same mean."""
    draw, n = np.random.default_rng(2), 2_000_000
    size = np.abs(0.5 * draw.standard_cauchy(n)).clip(0.05, 30)
    common, own = draw.normal(size=n), draw.normal(size=(2, n))
    truth = size * (np.sqrt(0.4) * common + np.sqrt(0.6) * own)  # errors are independent
    measured, aim = truth + draw.normal(size=(2, n)), np.array([1.5, 0.5])
    near = (np.abs(measured - aim[:, None]) < 0.15).all(0)
    expected, error, loss = true_gains(aim, np.eye(2))
    assert error == pytest.approx(truth[:, near].std(1), abs=0.05)
    assert expected == pytest.approx(truth[:, near].mean(1), abs=0.05)
    assert loss == pytest.approx((truth[:, near] < 0).mean(1), abs=0.03)


def complete_game(draw: np.random.Generator, heads: int = 40, examples: int = 200, folds: int = 4) -> Array | None:
    """An additive game with every step of a comparison: masks are made on folds, measured on others, and made on all.

    Returns:
        The true gain of the final mask, the expected one, the ends of its interval and the chance of a loss.
    """
    truth = draw.normal(0.02, 0.05, heads)
    harm = -truth + draw.normal(0, 1, (examples, heads))  # what an example gains without each head
    fold = np.arange(examples) % folds

    def masks(chosen: Array) -> list[NDArray[np.bool_]]:
        mean, error = chosen.mean(0), chosen.std(0) / np.sqrt(len(chosen))
        return [mean > z * error for z in (3.0, 2.0, 1.0)]

    made = [masks(harm[fold != place]) for place in range(folds)]
    systems = [
        np.concatenate([harm[fold == place] @ made[place][kind] for place in range(folds)])[:, None]
        for kind in range(3)
    ]
    each = select_system(np.zeros((examples, 1)), systems, lambda totals: totals[..., 0] / examples)
    if each.chosen is None:
        return None
    return np.array([-truth @ masks(harm)[each.chosen], each.gain, each.low, each.high, each.chance_of_loss])


def test_statements_hold_for_the_mask_of_all_examples_after_cross_fitting() -> None:
    draw = np.random.default_rng(3)
    found = [each for each in (complete_game(draw) for _ in range(600)) if each is not None]
    truth, gain, low, high, stated = np.array(found).T
    assert len(found) > 60
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95
    assert np.mean(gain) < np.mean(truth) + 0.08  # the prior does not hold in this game, so there is some optimism
    assert np.mean(truth < 0) < np.mean(stated) + 0.03


def test_the_base_wins_ties_and_the_first_of_equal_systems_is_chosen() -> None:
    base = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
    better = np.array([[1.0, 1.0]] * 80 + [[0.0, 1.0]] * 20)
    assert select_system(base, [base, base], accuracy).chosen is None
    found = select_system(base, [base, better, better], accuracy)
    assert found.chosen == 1
    assert found.gains == pytest.approx((0.0, 20.0, 20.0))
    alone = select_system(base, [better], accuracy)
    assert found == replace(alone, chosen=1, gains=found.gains)  # equal systems count once


def test_systems_that_are_left_behind_count_but_are_not_chosen() -> None:
    draw = np.random.default_rng(4)
    base, systems = game(draw, np.array([8.0, 0.0, 0.0]))
    assert left_behind(base, systems, accuracy) == [False, True, True]
    half = [systems[0], *(each[:150] for each in systems[1:])]
    found, alone = select_system(base, half, accuracy), select_system(base, systems[:1], accuracy)
    assert found.chosen == 0
    assert found.gains[0] == alone.gains[0]
    assert found.gains[1:] == pytest.approx([100 * (each[:, 0] - base[:150, 0]).mean() for each in half[1:]])
    assert found.gain < alone.gain  # true gains are alike, and two of three are about 0
    assert select_system(base, [systems[0][:150]], accuracy).chosen is None


def test_the_covariance_of_partial_gains_is_that_of_simulated_ones() -> None:
    draw = np.random.default_rng(5)
    each = draw.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], (4000, 40))  # (repetitions, examples, systems)
    simulated = np.cov(each[:, :, 0].mean(1), each[:, :20, 1].mean(1))
    computed = np.mean([_covariance([one[:, 0], one[:20, 1]]) for one in each[:500]], axis=0)
    assert computed == pytest.approx(simulated, rel=0.1)


def test_a_higher_risk_chooses_more() -> None:
    draw = np.random.default_rng(2)
    base, [system] = game(draw, np.array([4.0]))
    losses = select_system(base, [system], accuracy, risk=0.99).chance_of_loss
    assert 0 < losses < 0.5
    assert select_system(base, [system], accuracy, risk=losses * 0.9).chosen is None
    assert select_system(base, [system], accuracy, risk=losses * 1.1).chosen == 0


def test_wrong_arguments_are_errors() -> None:
    base = np.ones((3, 2))
    with pytest.raises(HeadwiseError, match="risk"):
        select_system(base, [base], accuracy, risk=0)
    with pytest.raises(HeadwiseError, match="confidence"):
        select_system(base, [base], accuracy, confidence=1)
    with pytest.raises(HeadwiseError, match="no systems"):
        select_system(base, [], accuracy)
    with pytest.raises(HeadwiseError, match="at least two examples"):
        select_system(base[:1], [base[:1]], accuracy)
    with pytest.raises(HeadwiseError, match="the same examples"):
        select_system(base[:2], [base], accuracy)
