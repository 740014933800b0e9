"""Screened: stars on the players that a gradient screen keeps, in the same game as stars."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadScores, HeadwiseError
from headwise.games import AccuracyGame, LikelihoodGame
from headwise.methods import Budget, find_method, score
from headwise.methods.exact import Exact
from headwise.methods.screened import Screened
from headwise.methods.stars import Stars
from headwise.runs import open_run
from tests.methods.worlds import SimulatedProblem, simulate, tabulate, tiny_problem


def kept(scores: HeadScores) -> Any:
    """Which players were kept: those with a standard error."""
    return ~np.isnan(np.array(scores.stderr))


def test_values_of_kept_players_are_unbiased_in_the_game_of_all_players() -> None:
    distances = []
    for seed in range(40):
        problem = simulate(players=12, examples=40, curve=0.4, seed=seed, share=0.5 * (seed % 2))
        found = score(Screened(units=1500, keep=0.5, error_rate=1e-300), problem, Budget(1500), seed)
        assert kept(found).sum() == 6
        distances.append(((found.values() - problem.exact) / np.array(found.stderr))[kept(found)])
    z = np.array(distances)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert 0.85 < z.std() < 1.15


@pytest.mark.parametrize("by", ["lowest", "sensitive"])
def test_players_that_are_screened_out_have_the_value_of_the_screen_and_no_decision(by: Any) -> None:
    problem = simulate(players=12, examples=40, curve=0.2, noise=0.1, seed=3)
    found = score(Screened(units=20_000, keep=0.5, by=by), problem, Budget(20_000), 3)
    screen = score(find_method("gradient-screen", bases=16), problem, Budget(0.1 * 20_000), 3)
    out = ~kept(found)
    np.testing.assert_array_equal(found.values()[out], screen.values()[out])
    size = -screen.values() if by == "lowest" else np.abs(screen.values())
    assert size[out].max() <= size[~out].min()
    assert {found.decision[player] for player in np.flatnonzero(out)} == {"undecided"}
    decided = [player for player in np.flatnonzero(~out) if found.decision[player] != "undecided"]
    assert len(decided) >= 4
    assert all((found.decision[player] == "harmful") == (problem.exact[player] < 0) for player in decided)
    assert set(found.mask("likely").off) <= {found.players[player] for player in np.flatnonzero(~out)}


@pytest.mark.parametrize("case", ["xlm-roberta", "llama"])
def test_cost_and_missed_players_on_models_with_known_values(case: str) -> None:
    """The values of players that are kept are right, and those decided harmful are; others may be missed."""
    problem = tabulate(tiny_problem(case, LikelihoodGame(), players=10))
    truth, _ = problem.table.moments()
    found = score(Screened(units=30_000.0, keep=0.5), problem, Budget(30_000), seed=1)
    harmful, out = truth < 0, ~kept(found)
    missed = np.flatnonzero(harmful & out)
    assert harmful.any()
    assert len(missed) < harmful.sum()
    assert np.abs(((found.values() - truth) / np.array(found.stderr))[~out]).max() < 4
    assert {found.players.index(name) for name in found.decided("harmful")} == set(np.flatnonzero(harmful & ~out))
    print(f"{case}: {harmful.sum()} harmful of 10, {len(missed)} screened out, {found.provenance.units:,.0f} units")


def test_the_lowest_players_of_a_good_screen_include_the_harmful_ones() -> None:
    missed = {"lowest": 0, "sensitive": 0}
    for by, seed in itertools.product(missed, range(5)):
        problem = simulate(players=40, examples=40, curve=0.1, seed=seed)
        found = score(Screened(units=3000, by=by), problem, Budget(3000), seed)  # type: ignore[arg-type]
        missed[by] += int((problem.exact < 0)[~kept(found)].sum())
    assert missed["lowest"] <= 1 < missed["sensitive"]


def test_kept_players_are_known_better_than_by_stars_for_the_same_units() -> None:
    problem, errors = simulate(players=40, examples=40, curve=0.3, seed=1), {}
    for method in (Screened(units=4000, keep=0.2, error_rate=1e-300), Stars(error_rate=1e-300, flips=8)):
        found = score(method, problem, Budget(4000), seed=2)
        errors[method.name] = np.array(found.stderr)
    assert np.nanmean(errors["screened"] ** 2) < 0.7 * np.nanmean(errors["stars"][~np.isnan(errors["screened"])] ** 2)


def test_everything_is_kept_on_demand() -> None:
    problem = simulate(players=5, examples=40, noise=0.1, seed=3)
    found = score(Screened(units=60_000, keep=1), problem, Budget(60_000), seed=0)
    assert found.decision == tuple("harmful" if value < 0 else "helpful" for value in problem.exact)
    assert found.provenance.units < 60_000


def test_a_hard_game_is_screened_by_soft_gradients() -> None:
    problem = tiny_problem("xlm-roberta", AccuracyGame())
    truth = score(Exact(), problem, Budget()).values()
    found = score(Screened(units=4000), problem, Budget(4000), seed=3)
    assert kept(found).sum() == 3
    z = (found.values() - truth) / np.maximum(np.array(found.stderr), 1e-9)
    assert np.nanmax(np.abs(z)) < 4


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    problem, method = simulate(players=12, curve=0.3), Screened(units=2000, error_rate=1e-300)
    whole = score(method, problem, Budget(2000), seed=5)
    for budget in (50, 150, 900, 2000):
        with open_run(tmp_path / "run", {"seed": 5, "budget": budget}) as run:
            parts = score(method, problem, Budget(budget), 5, run.journal, "zh")
    assert repr(parts.to_dict()) == repr(whole.to_dict())  # NaN is not equal to itself
    assert 1000 < whole.provenance.units <= 2000


def test_a_run_that_ends_within_the_screen_has_the_values_of_the_screen() -> None:
    problem: SimulatedProblem = simulate(players=12)
    found = score(Screened(units=2000), problem, Budget(70), seed=1)
    assert np.isnan(found.stderr).all()
    assert np.isfinite(found.values()).all()
    assert set(found.decision) == {"undecided"}


@pytest.mark.parametrize(
    "option", [{"screen": 0.0}, {"screen": 1.0}, {"keep": 0.0}, {"keep": 1.5}, {"bases": 0}, {"by": "any"}]
)
def test_wrong_options_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(HeadwiseError):
        replace(Screened(), **option)
