"""The empirical Bernstein bound: its formula, and how often it holds."""

import math

import numpy as np
import pytest

from headwise.stats.bernstein import EmpiricalBernstein
from tests.stats.populations import POPULATIONS, Population, allowed


def test_the_radius_is_the_papers_formula() -> None:
    x = np.random.default_rng(0).uniform(-0.2, 0.3, 57)
    bound = EmpiricalBernstein.start(2).update([1] * 57, x)
    expected = x.std() * math.sqrt(2 * math.log(30) / 57) + 3 * 1.0 * math.log(30) / 57
    assert bound.mean[1] == pytest.approx(x.mean())
    assert bound.radius(1.0, 0.1)[1] == pytest.approx(expected)
    assert bound.radius(1.0, 0.1)[0] == math.inf


def test_small_differences_on_a_large_offset_keep_their_variance() -> None:
    x = 1e8 + np.tile([0.0, 1.0], 500)
    assert EmpiricalBernstein.start(1).update([0] * 1000, x).variance[0] == pytest.approx(0.25)


def test_players_have_their_own_ranges_and_counts() -> None:
    bound = EmpiricalBernstein.start(3).update([0, 2, 2], [1.0, 1.0, 1.0])
    assert bound.count.tolist() == [1, 0, 2]
    assert bound.radius([1.0, 1.0, 4.0], 0.3) == pytest.approx([3 * math.log(10), math.inf, 6 * math.log(10)])


@pytest.mark.parametrize("population", POPULATIONS, ids=str)
def test_the_bound_holds_at_a_time_fixed_beforehand(population: Population) -> None:
    streams, alpha = 2000, 0.1
    for turns in (3, 30, 300):
        x = population.draw(np.random.default_rng(turns), (streams, turns))
        bound = EmpiricalBernstein.start(streams).update(np.repeat(np.arange(streams), turns), x.ravel())
        missed = (np.abs(bound.mean) > bound.radius(population.high - population.low, alpha)).mean()
        assert missed <= allowed(alpha, streams)


def test_without_its_second_term_the_bound_does_not_hold() -> None:
    # So the test above can fail: three rare flips that did not happen have no variance.
    x = np.where(np.random.default_rng(1).random((2000, 30)) < 0.02, -0.49, 0.01)
    bound = EmpiricalBernstein.start(2000).update(np.repeat(np.arange(2000), 30), x.ravel())
    assert (np.abs(bound.mean) > bound.radius(0.0, 0.1)).mean() > 0.4
