"""Climbing: what hurts given what is off goes too, and nothing goes for noise."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise.scoring import RefinementPlan
from headwise.scoring.climbing import Estimates, Measured, Step, choose_flips, climb, standard_error
from headwise.support.steps import Steps, run_steps

Array = NDArray[np.float64]


@dataclass
class Hill:
    """A value of gates with its true gradient, and the error that is ascribed to it."""

    own: Array
    pairs: Array
    noise: float = 1e-6
    plan: RefinementPlan = field(default_factory=RefinementPlan)

    def value(self, on: NDArray[np.bool_]) -> float:
        return float(on @ self.own + on @ self.pairs @ on / 2)

    def measure(self, on: NDArray[np.bool_]) -> Steps[Measured]:
        yield from ()
        slopes = self.own + self.pairs @ on
        return Measured(np.full(2, self.value(on)), Estimates(slopes, np.full(len(on), self.noise)))


def hill(players: int = 30, pairs: float = 1.0, seed: int = 0) -> Hill:
    draw = np.random.default_rng(seed)
    common = np.triu(draw.normal(0, pairs / players**0.5, (players, players)), 1)
    return Hill(draw.normal(0.3, 1, players), common + common.T)


def search(found: Hill, first: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], tuple[Step, ...]]:
    return run_steps(climb(found, first))


def test_without_pairs_all_that_hurts_goes_and_nothing_else() -> None:
    found = hill(pairs=0.0)
    best, steps = search(found, np.ones(30, dtype=bool))
    assert (best == (found.own > 0)).all()
    assert steps[-1].value == pytest.approx(found.own.clip(0).sum())


def test_what_should_not_have_gone_comes_back() -> None:
    found = hill(pairs=0.0)
    best, _ = search(found, np.zeros(30, dtype=bool))
    assert (best == (found.own > 0)).all()


@pytest.mark.parametrize("seed", range(8))
def test_kept_steps_only_rise_and_no_single_flip_is_left_that_helps(seed: int) -> None:
    found = hill(seed=seed)
    found.plan = RefinementPlan(rounds=60)
    best, steps = search(found, np.ones(30, dtype=bool))
    kept = [step.value for step in steps if step.kept]
    assert kept == sorted(kept)
    assert found.value(best) == pytest.approx(kept[-1])
    assert kept[-1] > kept[0]
    for player in range(30):
        flipped = best.copy()
        flipped[player] ^= True
        assert found.value(flipped) <= found.value(best) + 1e-9


@dataclass
class BentHill(Hill):
    """One with players whose slopes promise what does not hold: to go without them costs more."""

    costs: tuple[float, ...] = ()

    def value(self, on: NDArray[np.bool_]) -> float:
        return super().value(on) - float(np.dot(self.costs, ~on))


def test_a_flip_that_did_not_hold_does_not_stand_in_the_way_of_others() -> None:
    found = BentHill(np.array([-9.0, -8.0, -1.0]), np.zeros((3, 3)), costs=(10.0, 9.0, 0.0))
    found.plan = RefinementPlan(width=1)
    best, steps = search(found, np.ones(3, dtype=bool))
    assert best.tolist() == [True, True, False]
    assert [step.kept for step in steps[:4]] == [True, False, False, True]


def test_where_promises_are_no_larger_than_their_errors_nothing_changes() -> None:
    found = Hill(np.full(20, -0.05), np.zeros((20, 20)), noise=0.5)
    best, steps = search(found, np.ones(20, dtype=bool))
    assert best.all()
    assert len(steps) == 1


def test_chance_alone_is_seldom_taken_for_a_gain() -> None:
    draw = np.random.default_rng(0)
    noise = [Estimates(mean, np.ones(144)) for mean in draw.normal(0.0, 1.0, (2000, 144))]
    taken = np.mean([len(choose_flips(each, 8)) > 0 for each in noise])
    assert 0.2 < taken < 0.3  # where no flip is a gain, any that is chosen is false: a quarter of the time


def test_of_what_is_chosen_at_most_a_quarter_is_false() -> None:
    draw = np.random.default_rng(0)
    true = np.where(np.arange(144) < 40, 2.0, -0.5)
    chosen = [choose_flips(Estimates(draw.normal(true, 1.0), np.ones(144)), 144) for _ in range(500)]
    assert np.mean([(each >= 40).mean() for each in chosen if len(each)]) < 0.25
    assert np.mean([(each < 40).sum() for each in chosen]) > 20


def test_a_step_has_the_largest_promises_of_those_that_count_not_the_surest() -> None:
    sure, large, vague = (0.1, 0.001), (5.0, 1.0), (9.0, 20.0)
    mean, error = np.array([sure, large, vague]).T
    assert choose_flips(Estimates(mean, error), width=1).tolist() == [1]
    assert choose_flips(Estimates(mean, error), width=3).tolist() == [1, 0]


def test_of_one_example_nothing_can_be_told() -> None:
    assert np.isinf(standard_error(np.ones((1, 3)))).all()
    assert len(choose_flips(Estimates(np.full(3, 9.0), np.full(3, np.inf)), 3)) == 0
