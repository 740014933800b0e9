"""Many decisions at once: against plain definitions, and against the error rates they promise."""

import itertools
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, norm, t  # type: ignore[import-untyped]

from headwise.errors import HeadwiseError
from headwise.stats.betting import SignTest
from headwise.stats.multiple import Decision, bh, chance_below, decide, holm
from tests.stats.populations import allowed


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.floats(0.01, 0.5))
def test_holm_is_closed_testing_by_bonferroni(p: list[float], alpha: float) -> None:
    sets = [s for size in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), size)]
    expected = [all(min(p[j] for j in s) <= alpha / len(s) for s in sets if i in s) for i in range(len(p))]
    assert holm(p, alpha).tolist() == expected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.01, 0.5))
def test_bh_is_that_of_scipy(p: list[float], alpha: float) -> None:
    adjusted = false_discovery_control(p)
    # At the very border rounding may decide.
    assert all(
        flag == (each <= alpha) or abs(each - alpha) < 1e-9 for flag, each in zip(bh(p, alpha), adjusted, strict=True)
    )


def test_the_chance_of_a_mean_below_zero_is_that_of_scipy() -> None:
    mean, error = np.random.default_rng(0).normal(size=(2, 50))
    assert chance_below(mean, np.abs(error)) == pytest.approx(norm.cdf(mean, scale=np.abs(error)), rel=1e-12)
    assert chance_below([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0]).tolist() == [0.0, 0.5, 1.0]
    assert chance_below([-1.0, np.nan, -1.0], [np.nan, 1.0, np.inf]).tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("degrees", [4, 9, 19])
def test_with_few_degrees_of_freedom_it_is_that_of_student(degrees: int) -> None:
    mean = np.linspace(-5, 5, 41)
    assert chance_below(mean, np.ones(41), degrees) == pytest.approx(t.cdf(mean, degrees), rel=1e-12)
    assert chance_below([-1.0, np.nan], [0.0, 1.0], degrees).tolist() == [0.0, 0.5]


def test_decisions_name_the_side() -> None:
    e_harmful, e_helpful = [100.0, 0.0, 1.0, 100.0], [0.0, 100.0, 1.0, 100.0]
    expected = ("harmful", "helpful", "undecided", "undecided")
    assert decide(e_harmful, e_helpful, 0.1) == expected
    assert decide([], [], 0.1) == ()
    assert set(expected) == set(get_args(Decision))


def test_evidence_is_measured_against_both_sides_of_all_players() -> None:
    e = np.zeros(50)
    e[0] = 2 * 50 / 0.1
    assert decide(e, np.zeros(50), 0.1)[0] == "harmful"
    e[0] -= 1e-6
    assert decide(e, np.zeros(50), 0.1)[0] == "undecided"


class Families:
    """Families of players that are observed together; half of them have no sign, the others one of either kind."""

    def __init__(self, families: int, seed: int) -> None:
        self.shape, self.generator = (families, 16), np.random.default_rng(seed)
        self.mean = np.array([0.0] * 8 + [0.1, -0.1] * 4)
        self.test = SignTest.start(families * 16, -1, 1)

    def observe(self, turns: int) -> None:
        shared = self.generator.normal(0, 0.2, (self.shape[0], 1, turns))  # players of a family share their draws
        own = self.generator.normal(0, 0.2, (*self.shape, turns))
        x = np.clip(shared + own, -0.8, 0.8) + self.mean[:, None]  # symmetric before shifting: the mean is exact
        self.test = self.test.update(np.repeat(np.arange(x[..., 0].size), turns), x.ravel())

    def decide(self) -> tuple[np.ndarray, np.ndarray]:
        """Wrong and all decisions of each family, (families, players)."""
        e_harmful, e_helpful = (e.reshape(self.shape) for e in self.test.e_values(best=True))
        found = np.array([decide(a, b, 0.1) for a, b in zip(e_harmful, e_helpful, strict=True)])
        right = np.where(self.mean > 0, "helpful", np.where(self.mean < 0, "harmful", "undecided"))
        return (found != "undecided") & (found != right), found != "undecided"


def error_and_power(families: int, looks: int, turns: int, seed: int) -> tuple[float, float]:
    """The share of families with a wrong decision at any look, and the share of signs found."""
    game = Families(families, seed)
    wrong, made = np.zeros(game.shape, bool), np.zeros(game.shape, bool)
    for _ in range(looks):
        game.observe(turns)
        errors, decisions = game.decide()
        wrong |= errors
        made |= decisions
    error, power = float(wrong.any(1).mean()), float(made[:, 8:].mean())
    print(f"error {error:.1%}, found {power:.0%}")
    return error, power


def test_error_rates_hold_over_families_under_peeking() -> None:
    error, power = error_and_power(families=300, looks=6, turns=30, seed=0)
    assert error <= allowed(0.1, 300)
    assert power > 0.5


@pytest.mark.slow
def test_error_rates_hold_over_many_families_and_looks() -> None:
    error, power = error_and_power(families=2000, looks=60, turns=10, seed=1)
    assert error <= allowed(0.1, 2000)
    assert power > 0.5


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwiseError, match="two lists of the same length"):
        decide([1.0], [1.0, 2.0])
    with pytest.raises(HeadwiseError, match="between 0 and 1"):
        decide([1.0], [1.0], error_rate=0)
    with pytest.raises(HeadwiseError, match="negative or missing"):
        decide([float("nan")], [1.0])
