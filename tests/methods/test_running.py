"""Running a method: engines come from the problem, and rounds record how long they took."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headwise.engine import Engine, LocalEngine
from headwise.methods import Budget, find_method, run_method, score
from headwise.runs import open_run
from tests.methods.worlds import simulate, tiny_problem


def test_methods_ask_the_engines_that_the_problem_makes() -> None:
    made: list[str] = []

    def make(model: Any, heads: Any, game: Any, *others: Any, **named: Any) -> Engine:
        made.append(game.name)
        return LocalEngine(model, heads, game, *others, **named)

    problem = tiny_problem("xlm-roberta", players=3, examples=2)
    expected = score(find_method("exact"), problem, Budget())
    assert score(find_method("exact"), replace(problem, make_engine=make), Budget()) == expected
    assert made == ["probability"]


def test_seconds_of_earlier_sessions_count(tmp_path: Path) -> None:
    problem, method = simulate(), find_method("permutation", walks=1)
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        first = run_method(method, problem, Budget(60), 0, run.journal, "x")
        kept = [float(each.arrays["seconds"]) for each in run.journal.rounds("x")]
        assert first.seconds == sum(kept) > 0
        again = run_method(method, problem, Budget(60), 0, run.journal, "x")
        assert (again.seconds, again.units, again.scores) == (first.seconds, first.units, first.scores)


def test_rounds_of_journals_without_seconds_are_read(tmp_path: Path) -> None:
    problem, method = simulate(), find_method("permutation", walks=1)
    arrays, draws = method.start(problem, 0).draw(0)
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        run.journal.record("x", 0, arrays, 0, draws)
        found = run_method(method, problem, Budget(0), 0, run.journal, "x")
    assert found.seconds == 0
    assert np.isfinite(found.scores.values()).all()
