"""Refining a mask: what hurts given what is off goes too, and nothing goes for noise."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadMask
from headwise.methods import Problem
from headwise.refinement import Refined, RefinementPlan, choose_flips, climb, refine_mask
from headwise.runs import open_run
from headwise.scoring import ScoringPlan, make_problems
from tests.scoring_world import save_data, save_model

Array = NDArray[np.float64]


@dataclass
class Hill:
    """A value of gates with its true gradient, the same for both halves but for noise of opposite signs."""

    own: Array
    pairs: Array
    noise: float = 0.0
    plan: RefinementPlan = field(default_factory=RefinementPlan)

    def value(self, on: NDArray[np.bool_]) -> float:
        return float(on @ self.own + on @ self.pairs @ on / 2)

    def measure(self, on: NDArray[np.bool_]) -> tuple[float, Array]:
        slope = self.own + self.pairs @ on
        shift = self.noise * np.where(np.arange(len(on)) % 2, 1.0, -1.0)
        return self.value(on), np.stack([slope + shift, slope - shift])


def hill(players: int = 30, pairs: float = 1.0, seed: int = 0) -> Hill:
    draw = np.random.default_rng(seed)
    common = np.triu(draw.normal(0, pairs / players**0.5, (players, players)), 1)
    return Hill(draw.normal(0.3, 1, players), common + common.T)


def test_without_pairs_all_that_hurts_goes_and_nothing_else() -> None:
    found = hill(pairs=0.0)
    best, steps = climb(found, np.ones(30, dtype=bool))
    assert (best == (found.own > 0)).all()
    assert steps[-1].value == pytest.approx(found.own.clip(0).sum())


def test_what_should_not_have_gone_comes_back() -> None:
    found = hill(pairs=0.0)
    best, _ = climb(found, np.zeros(30, dtype=bool))
    assert (best == (found.own > 0)).all()


@pytest.mark.parametrize("seed", range(8))
def test_kept_steps_only_rise_and_no_single_flip_is_left_that_helps(seed: int) -> None:
    found = hill(seed=seed)
    found.plan = RefinementPlan(rounds=60)
    best, steps = climb(found, np.ones(30, dtype=bool))
    kept = [step.value for step in steps if step.kept]
    assert kept == sorted(kept)
    assert found.value(best) == pytest.approx(kept[-1])
    assert kept[-1] > kept[0]
    for player in range(30):
        flipped = best.copy()
        flipped[player] ^= True
        assert found.value(flipped) <= found.value(best) + 1e-9


def test_where_the_halves_contradict_one_another_nothing_changes() -> None:
    found = Hill(np.full(20, 0.05), np.zeros((20, 20)), noise=0.5)
    best, steps = climb(found, np.ones(20, dtype=bool))
    assert best.all()
    assert len(steps) == 1


def test_chance_alone_is_seldom_taken_for_a_gain() -> None:
    draw = np.random.default_rng(0)
    gains = draw.normal(-1.0, 1.0, (500, 2, 40))  # every flip is a loss of 1, and each half is off by as much
    taken = np.mean([choose_flips(each, 8)[0] > 0 for each in gains])
    alone = np.mean([(each.mean(0) > 0).any() for each in gains])
    assert taken < 0.2
    assert alone > 0.9  # what one look at all examples would find


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    folder = tmp_path_factory.mktemp("world")
    plan = ScoringPlan(str(save_model(folder / "model")), "pos", str(save_data(folder / "data")), "en")
    return make_problems(plan)[0]["en"]


def test_the_value_of_a_refined_mask_is_the_last_that_was_kept(problem: Problem) -> None:
    start = HeadMask.full(problem.heads)
    found = refine_mask(problem, start)
    assert found.verdict == "refined"
    index = np.arange(len(problem.examples))
    values = problem.engine().values(np.tile(found.mask.on, (len(index), 1)), index)
    assert float(values.mean()) == pytest.approx([step.value for step in found.steps if step.kept][-1], abs=1e-5)
    assert found.mask.language == "en"
    assert found.mask.fingerprint == problem.heads.fingerprint
    assert found.units == 2 * len(index) * len(found.steps) + 2 * len(index)


def test_a_mask_that_accuracy_speaks_against_is_not_taken(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    start = HeadMask.without(problem.heads, ["encoder.0.0"])
    worse = {True: 1.0, False: 0.5}  # the mask at the start is better than any other
    monkeypatch.setattr(
        "headwise.refinement._Search.hard_value", lambda _, on: worse[bool((on == np.array(start.on)).all())]
    )
    found = refine_mask(problem, start)
    assert found.verdict == "as it was"
    assert found.mask == start


def test_a_run_that_was_stopped_goes_on_with_what_it_measured(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, plan = HeadMask.full(problem.heads), RefinementPlan(rounds=5)

    def run() -> Refined:
        with open_run(tmp_path / "run", {"seed": 0}) as opened:
            return refine_mask(problem, start, plan, opened.journal)

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_run(tmp_path / "run", {"seed": 0}) as opened:
        refine_mask(problem, start, plan, opened.journal, stop)
    whole = refine_mask(problem, start, plan)
    assert run() == whole
    monkeypatch.setattr("headwise.engine.Engine.gradients", None)  # all is known by now
    assert run() == whole
