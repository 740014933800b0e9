"""Enumeration: the same as plain loops over one forward pass per row, and the axioms hold."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headwise import HeadwiseError
from headwise.engine import players_from_groups
from headwise.games import AccuracyGame, Game, LikelihoodGame, ProbabilityGame, find_game
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Estimand
from headwise.methods.exact import Exact, average_marginals
from headwise.runs import open_run
from tests.methods.worlds import failing, naive_average, plain_worth, simulate, tiny_problem

#: An encoder, a decoder and both.
CASES = ["xlm-roberta", "llama", "marian"]


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_plain_loops(case: str) -> None:
    problem = tiny_problem(case, players=5, examples=3)
    worth = plain_worth(problem)
    for share in (0.0, 0.3, 0.5):
        asked = replace(problem, estimand=Estimand(share))
        found = score(Exact(), asked, Budget())
        assert found.values() == pytest.approx(naive_average(worth, 5, asked.smallest), abs=1e-6)
        assert found.provenance.estimand == asked.estimand.name
        assert set(found.stderr) == {0.0}


@pytest.mark.parametrize("game", [ProbabilityGame(), LikelihoodGame(), AccuracyGame(), find_game("f1", ("O", "B-X"))])
def test_full_values_sum_to_what_all_add_to_none(game: Game) -> None:
    problem = tiny_problem("electra", game, players=6)
    worth = plain_worth(problem)
    found = score(Exact(), problem, Budget())
    assert found.values().sum() == pytest.approx(worth(frozenset(range(6))) - worth(frozenset()), abs=1e-5)
    assert found.provenance.game == game.name


def test_a_corpus_game_is_worth_what_all_examples_say_together() -> None:
    problem = tiny_problem("electra", find_game("f1", ("O", "B-X")), players=4, share=0.5)
    found = score(Exact(), problem, Budget())
    assert found.values() == pytest.approx(naive_average(plain_worth(problem), 4, problem.smallest), abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.9])
def test_simulated_games_are_solved_as_their_formula_says(share: float) -> None:
    problem = simulate(players=9, share=share, pairs=1.0, dummies=1)
    found = score(Exact(), problem, Budget())
    assert found.values() == pytest.approx(problem.exact, abs=1e-7)
    signs = ["harmful" if value < 0 else "helpful" for value in problem.exact[:-1]]
    assert found.decision == (*signs, "undecided")


def test_players_that_do_the_same_are_worth_the_same() -> None:
    problem = simulate(players=6, pairs=1.0, share=0.4)
    twins = [1, 0, 2, 3, 4, 5]
    world = problem.world
    own, pairs = (world.own + world.own[:, twins]) / 2, (world.pairs + world.pairs[twins][:, twins]) / 2
    found = score(Exact(), replace(problem, world=replace(world, own=own, pairs=pairs)), Budget()).values()
    assert found[0] == pytest.approx(found[1], abs=1e-7)
    assert np.ptp(found[1:]) > 0.01


def test_a_layer_that_writes_nothing_is_worth_nothing() -> None:
    problem = tiny_problem("electra", players=4)
    names = problem.heads.players()
    groups = {"mute": names[4:8], "rest": names[:4], "last": names[8:]}
    model: Any = problem.model
    with torch.no_grad():
        model.electra.encoder.layer[1].attention.output.dense.weight.zero_()
    asked = replace(problem, players=players_from_groups(problem.heads, groups))
    found = score(Exact(), asked, Budget())
    assert found.value[0] == pytest.approx(0, abs=1e-6)
    assert found.decision[0] == "undecided"
    assert "undecided" not in found.decision[1:]


def test_units_are_what_the_engine_counts_and_never_more_than_announced() -> None:
    problem = tiny_problem("xlm-roberta")
    found = score(Exact(), problem, Budget())
    announced = Exact().start(problem, 0).next_units
    assert announced == 2**6 * 5
    assert 0 < found.provenance.units <= announced
    assert set(found.count) == {2**5}


def test_without_the_budget_nothing_is_spent_and_nothing_known() -> None:
    found = score(Exact(), simulate(), Budget(100))
    assert found.provenance.units == 0
    assert np.isnan(found.values()).all()
    assert set(found.decision) == {"undecided"}


def test_a_run_that_has_ended_is_only_read(tmp_path: Path) -> None:
    problem = simulate()
    with open_run(tmp_path / "run", {"seed": 0}) as run:
        first = score(Exact(), problem, Budget(), journal=run.journal)
        again = score(Exact(), failing(problem, calls=0), Budget(), journal=run.journal)
    assert again == first


def test_too_many_players_are_refused_in_a_sentence() -> None:
    with pytest.raises(HeadwiseError, match="17 players have too many coalitions"):
        find_method("exact").start(simulate(players=17), 0)


def test_one_player_is_worth_all_there_is() -> None:
    assert average_marginals(np.array([0.25, 1.0])).tolist() == [0.75]


def test_many_examples_are_valued_in_parts() -> None:
    problem = simulate(players=12, examples=40)
    found = score(Exact(), problem, Budget())
    assert found.values() == pytest.approx(problem.exact, abs=1e-7)
