"""Shrunk values of stars: better than both of their parents, honest errors, and the same after a restart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwise.games import LikelihoodGame
from headwise.methods import Budget, score
from headwise.methods.base import Arrays
from headwise.methods.corrections import CORRECTIONS
from headwise.methods.stars import StarRounds, Stars
from headwise.runs import open_run
from tests.methods.worlds import simulate, tabulate, tiny_problem

METHOD = Stars(bases=8, flips=6)


def drawn(rounds: StarRounds, budget: float) -> list[Arrays]:
    """Draw rounds until the budget is spent."""
    found: list[Arrays] = []
    units, first = 0.0, 0
    while units + rounds.next_units <= budget:
        arrays, count = rounds.draw(first)
        rounds.absorb(arrays)
        found.append(arrays)
        units, first = units + float(arrays["units"]), first + count
    return found


def compare(curve: float, budget: float, games: int) -> tuple[list[float], float]:
    """Root mean squared errors of shrunk values, of stars and of predictions, and the coverage of 95% intervals."""
    squares, inside = [], []
    for seed in range(games):
        problem = simulate(players=24, examples=40, curve=curve, seed=seed, share=0.5)
        rounds = METHOD.start(problem, seed)
        kept = drawn(rounds, budget)
        scores, truth = rounds.scores(0, seed), problem.exact
        parts = np.sum([each[CORRECTIONS][0] for each in kept], axis=0)
        screen = (rounds.slopes.of() * parts).sum(0) / rounds.slopes.sums["bases"].sum(0)
        found = np.array([scores.shrunk, scores.value, screen])
        squares.append((((found - truth) / truth.std()) ** 2).mean(1))
        inside.append(np.abs(found[0] - truth) <= 1.96 * np.array(scores.shrunk_error))
    return np.sqrt(np.mean(squares, axis=0)).tolist(), float(np.mean(inside))


@pytest.mark.parametrize(
    ("curve", "budget", "games"),
    [(0.05, 500, 12), *(pytest.param(*case, 200, marks=pytest.mark.slow) for case in
     ((0.0, 600), (0.05, 600), (0.05, 2000), (0.4, 600), (0.4, 2500), (2.0, 1000)))],
)  # fmt: skip
def test_the_error_is_at_most_a_tenth_above_the_smaller_one_of_both_parents(
    curve: float, budget: float, games: int
) -> None:
    (shrunk, stars, screen), coverage = compare(curve, budget, games)
    assert shrunk < 1.1 * min(stars, screen)
    assert coverage > 0.88


def test_clear_corrections_are_made_in_full() -> None:
    problem = tabulate(tiny_problem("xlm-roberta", LikelihoodGame()))
    truth, _ = problem.table.moments()
    found = score(Stars(), problem, Budget(4000), seed=0)
    assert np.abs(np.array(found.shrunk) - truth).max() < 4 * max(found.shrunk_error)
    assert max(found.shrunk_error) < 1.2 * max(found.stderr)


def test_decisions_values_and_errors_do_not_depend_on_shrunk_values() -> None:
    problem = simulate(players=12, curve=0.3)
    rounds = METHOD.start(problem, seed=0)
    kept = drawn(rounds, 1500)
    older = METHOD.start(problem, seed=0)
    for arrays in kept:  # rounds of earlier versions have no sums for corrections
        older.absorb({name: each for name, each in arrays.items() if name != CORRECTIONS})
    found = rounds.scores(1500, 0)
    assert found.shrunk
    assert older.scores(1500, 0) == replace(found, shrunk=(), shrunk_error=())


def test_a_resumed_run_has_the_same_shrunk_values(tmp_path: Path) -> None:
    problem = simulate(players=12, curve=0.3)
    whole = score(METHOD, problem, Budget(1500), seed=5)
    for budget in (400, 1500):
        with open_run(tmp_path / "run", {"seed": 5, "budget": budget}) as run:
            parts = score(METHOD, problem, Budget(budget), 5, run.journal, "zh")
    assert (parts.shrunk, parts.shrunk_error) == (whole.shrunk, whole.shrunk_error)


def test_players_that_are_never_flipped_have_no_shrunk_value() -> None:
    problem = simulate(players=12, curve=0.3)
    rounds = METHOD.start(problem, 0, np.arange(6))
    drawn(rounds, 800)
    found = rounds.scores(800, 0)
    assert np.isfinite(found.shrunk[:6]).all()
    assert np.isnan(found.shrunk[6:]).all()
