"""No method spends more than its budget, however small the batches are that the engine can make."""

from dataclasses import replace
from typing import Any

import pytest

from headwise.engine import EngineSettings, players_of
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Problem
from tests.methods.worlds import tiny_problem

#: Methods that ask the model something, with options that make rounds small.
ASKING: dict[str, dict[str, Any]] = {
    "stars": {"bases": 4, "flips": 12, "gradients": 2},
    "permutation": {"walks": 2, "antithetic": True},
    "tmab": {"sample": 4},
    "michel": {"examples": 2},
    "leave-one-out": {"examples": 2},
    "confidence": {"examples": 2},
    "entropy": {"examples": 2},
    "hies": {"examples": 2},
    "relevance": {"examples": 2},
    "gradient": {"examples": 2},
    "screened": {"bases": 4, "units": 100.0, "keep": 0.5},
    "gradient-screen": {"bases": 8},
    "l0": {"batch": 2},
    "chg": {"batch": 2},
    "lahis": {"examples": 2},
    "soft": {"batch": 2},
}


def cramped(case: str, memory_limit: int) -> Problem:
    """A problem with each head a player, and an engine with little memory for a batch."""
    problem = tiny_problem(case)
    settings = EngineSettings(memory_limit=memory_limit)
    return replace(problem, players=players_of(problem.heads), settings=settings)


@pytest.mark.parametrize("method", ASKING)
@pytest.mark.parametrize(("case", "memory_limit"), [("xlm-roberta", 1), ("xlm-roberta", 50_000), ("marian", 1)])
def test_no_round_costs_more_than_it_announces(case: str, memory_limit: int, method: str) -> None:
    problem = cramped(case, memory_limit)
    rounds, draw = find_method(method, **ASKING[method]).start(problem, seed=3), 0
    for _ in range(2):
        if rounds.done:
            break
        announced = rounds.next_units
        arrays, draws = rounds.draw(draw)
        assert 0 < float(arrays["units"]) <= announced + 1e-9
        rounds.absorb(arrays)
        draw += draws


@pytest.mark.parametrize("budget", [150, 211])
def test_stars_in_batches_of_one_row_keep_within_their_budget(budget: float) -> None:
    problem = cramped("xlm-roberta", memory_limit=1)
    found = score(find_method("stars", **ASKING["stars"]), problem, Budget(budget), seed=1)
    assert 0 < found.provenance.units <= budget
