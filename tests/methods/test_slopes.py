"""Slopes: each player by itself once its flips are many, what is usual before, and no player by another's size."""

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise.methods.slopes import Slopes, sum_flips

Array = NDArray[np.float64]


def observe(slopes: Array, sizes: Array, flips: int, noise: float = 0.0, seed: int = 0) -> Slopes:
    """Players with such slopes, (2, players), and gradients of such sizes, (players,), each flipped at every base."""
    rng = np.random.default_rng(seed)
    n = len(sizes)
    bases = rng.random((flips, n)) < 0.5
    gradients = rng.normal(size=(flips, n)) * sizes
    players = np.tile(np.arange(n), (flips, 1))
    marginals = np.where(bases, slopes[1], slopes[0]) * gradients + noise * sizes * rng.normal(size=(flips, n))
    return after(bases, gradients, players, np.stack([marginals, 2 * marginals], axis=-1))


def after(bases: NDArray[np.bool_], gradients: Array | None, players: NDArray[np.int64], marginals: Array) -> Slopes:
    """The slopes after one round with flips at every base."""
    start = Slopes.start(bases.shape[1])
    return start.add(sum_flips(start, bases, gradients, np.arange(len(bases)), players, marginals))


def test_a_player_has_a_slope_where_it_is_off_and_one_where_it_is_on() -> None:
    truth = np.array([[0.5, 0.9, 1.2], [1.0, 0.8, 0.1]])
    found = observe(truth, np.ones(3), flips=4000, noise=0.5)
    np.testing.assert_allclose(found.of(), truth, atol=0.06)
    np.testing.assert_allclose(found.of(hard=True), 2 * truth, atol=0.12)


def test_small_gradients_are_not_taken_for_as_unreliable_as_the_largest() -> None:
    truth = np.tile([0.3, *[0.95] * 9], (2, 1))
    sizes = np.array([100.0, *[1.0] * 9])
    found = observe(truth, sizes, flips=20).of()
    assert found[:, 1:].min() > 0.85
    assert found[:, 0].max() < 0.6


def test_what_is_usual_stands_in_for_a_player_without_flips() -> None:
    bases, gradients = np.ones((50, 2), dtype=bool), np.ones((50, 2))
    players = np.zeros((50, 1), dtype=np.int64)
    found = after(bases, gradients, players, np.full((50, 1, 2), 0.7))
    np.testing.assert_allclose(found.of()[1, 1], 0.7 * 50 / (50 + 8))  # 8 flips' worth of a slope of 0
    assert found.flips.tolist() == [50, 0]


def test_a_player_whose_flips_show_nothing_is_expected_to_vary_as_its_gradients_do() -> None:
    bases = np.ones((40, 3), dtype=bool)
    gradients = np.random.default_rng(1).normal(size=(40, 3)) * [1.0, 1.0, 3.0]
    players = np.tile(np.arange(3), (40, 1))
    marginals = np.random.default_rng(2).normal(size=(40, 3)) * [1.0, 0.0, 3.0]  # the second has shown nothing yet
    found = after(bases, gradients, players, np.stack([marginals] * 2, axis=-1))
    assert found.usual()[1] == pytest.approx(found.usual()[0], rel=0.6)
    assert found.usual()[2] > 4 * found.usual()[1]
    assert found.unexplained()[1] > 0


def test_players_without_any_gradient_do_no_harm() -> None:
    sizes = np.array([1.0, 0.0])
    found = observe(np.ones((2, 2)), sizes, flips=10)
    assert np.isfinite(found.of()).all()
    assert np.isfinite(found.unexplained()).all()
    assert Slopes.start(3).unexplained().tolist() == [1.0, 1.0, 1.0]


def test_outliers_of_gradients_have_bounded_weight() -> None:
    rng = np.random.default_rng(3)
    bases, players = rng.random((200, 4)) < 0.5, np.tile(np.arange(4), (200, 1))
    marginals = rng.normal(size=(200, 4))
    gradients = np.where(np.arange(200)[:, None] % 20 == 0, 1e6 * rng.normal(size=(200, 4)), marginals)
    found = after(bases, gradients, players, np.stack([marginals] * 2, axis=-1))
    assert np.abs(found.limited(gradients)).max() < 20
    predictions = np.where(bases, *found.of()[::-1][:, None]) * found.limited(gradients)
    assert np.abs(predictions).max() < 5
    assert ((marginals - predictions) ** 2).sum() < (marginals**2).sum()  # of more use than no predictions


def test_gradients_that_are_nearly_nothing_make_no_steep_slopes() -> None:
    rng = np.random.default_rng(4)
    bases, players = np.ones((8, 3), dtype=bool), np.tile(np.arange(3), (8, 1))
    marginals = rng.normal(size=(8, 3))
    gradients = rng.normal(size=(8, 3)) * [1e-9, 1e-9, 1.0]
    found = after(bases, gradients, players, np.stack([marginals] * 2, axis=-1))
    assert np.abs(found.of()).max() < 2


def test_gradients_unrelated_to_flips_get_no_weight() -> None:
    found = observe(np.zeros((2, 6)), np.ones(6), flips=400, noise=1.0)
    assert np.abs(found.of()).max() < 0.15
    # What slopes cost at most: the squares that they add to what is left.
    assert found.explained().max() < 0.02
    np.testing.assert_allclose(found.unexplained(), found.unexplained(gradients=False), rtol=0.03)


def test_rounds_without_gradients_leave_slopes_as_they_are() -> None:
    found = observe(np.full((2, 3), 0.8), np.ones(3), flips=100, noise=0.3)
    rng = np.random.default_rng(5)
    bases, players = rng.random((100, 3)) < 0.5, np.tile(np.arange(3), (100, 1))
    more = found.add(sum_flips(found, bases, None, np.arange(100), players, rng.normal(size=(100, 3, 2)) * 0.85))
    np.testing.assert_allclose(more.of(), found.of(), rtol=1e-6)
    np.testing.assert_allclose(more.flips, 200)
    np.testing.assert_allclose(more.unexplained(), found.unexplained(), rtol=0.6)
    assert more.unexplained().max() < 0.5 * more.unexplained(gradients=False).min()
