"""Walks: unbiased, honest about their errors, and the same after a restart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.games import AccuracyGame, Game, LikelihoodGame, ProbabilityGame, find_game
from headwise.methods import Budget, score
from headwise.methods.exact import Exact
from headwise.methods.permutation import Permutation, reversed_joiners, walk_masks
from headwise.runs import open_run
from tests.methods.worlds import KilledError, failing, simulate, tiny_problem

BOTH = [Permutation(), Permutation(antithetic=True)]


@pytest.mark.parametrize("method", BOTH, ids=["plain", "antithetic"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_estimates_are_unbiased_and_their_errors_are_what_they_say(method: Permutation, share: float) -> None:
    distances = []
    for seed in range(20):
        problem = simulate(players=9, examples=30, pairs=1.0, noise=1.0, share=share, seed=seed)
        found = score(method, problem, Budget(1500), seed)
        distances.append((found.values() - problem.exact) / np.array(found.stderr))
    z = np.array(distances)
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert 0.8 < z.std() < 1.2


@pytest.mark.parametrize("method", BOTH, ids=["plain", "antithetic"])
@pytest.mark.parametrize(
    ("case", "game", "share"),
    [
        ("xlm-roberta", ProbabilityGame(), 0.0),
        ("xlm-roberta", AccuracyGame(), 0.5),
        ("llama", LikelihoodGame(), 0.5),
        ("marian", ProbabilityGame(), 0.0),
    ],
)
def test_walks_agree_with_enumeration_on_real_models(method: Permutation, case: str, game: Game, share: float) -> None:
    problem = tiny_problem(case, game, share=share)
    truth = score(Exact(), problem, Budget()).values()
    found = score(replace(method, walks=40), problem, Budget(1600), seed=1)
    assert (np.abs(found.values() - truth) <= 4 * np.array(found.stderr) + 1e-7).all()


def test_every_walk_to_the_full_model_shares_out_what_all_add_to_none() -> None:
    problem = simulate(players=7, noise=0.0, pairs=1.0)
    found = score(Permutation(), problem, Budget(100), seed=3)
    assert found.values().sum() == pytest.approx(problem.exact.sum(), abs=1e-6)


def test_a_walk_and_its_reverse_see_every_pair_once() -> None:
    """Of two players one joins the other in exactly one of the two orders, so games of pairs are solved by one draw."""
    problem = simulate(players=7, noise=0.0, pairs=1.0)
    found = score(Permutation(antithetic=True, walks=1), problem, Budget(16), seed=3)
    assert set(found.count) == {1}
    assert found.values() == pytest.approx(problem.exact, abs=1e-6)


@pytest.mark.parametrize("smallest", [0, 2, 5])
def test_reversed_walks_visit_every_size_as_often(smallest: int) -> None:
    orders = np.array([[4, 2, 0, 5, 1, 3]])
    back = reversed_joiners(orders, smallest)
    assert sorted(back[0]) == list(range(6))
    for player in orders[0, smallest:]:
        forth_size, back_size = (int(np.flatnonzero(each[0] == player)[0]) for each in (orders, back))
        assert forth_size + back_size == smallest + 5
    assert (walk_masks(orders, smallest)[0, [0, -1]] == walk_masks(back, smallest)[0, [0, -1]]).all()


@pytest.mark.parametrize("method", BOTH, ids=["plain", "antithetic"])
def test_a_resumed_run_ends_with_the_same_bits(method: Permutation, tmp_path: Path) -> None:
    problem = simulate(players=8, share=0.5, layers=3)  # thirds of units do not add up without rounding
    whole = score(method, problem, Budget(1500), seed=5)
    for budget in (300, 900, 1500):
        with open_run(tmp_path / "run", {"seed": 5, "budget": budget}) as run:
            parts = score(method, problem, Budget(budget), 5, run.journal, "zh")
            assert parts.provenance.units <= budget
    assert parts == whole


def test_a_killed_run_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    problem = simulate(players=8, layers=3)
    whole = score(Permutation(), problem, Budget(700), seed=5)
    for calls in (2, 3):
        with pytest.raises(KilledError), open_run(tmp_path / "run", {"seed": 5}) as run:
            score(Permutation(), failing(problem, calls), Budget(700), 5, run.journal)
    with open_run(tmp_path / "run", {"seed": 5}) as run:
        assert run.journal.count("") == 5
        assert score(Permutation(), problem, Budget(700), 5, run.journal) == whole


def test_on_a_real_model_too(tmp_path: Path) -> None:
    problem = tiny_problem("llama", players=4, share=0.5)
    whole = score(Permutation(), problem, Budget(100), seed=2)
    for budget in (40, 100):
        with open_run(tmp_path / "run", {"seed": 2, "budget": budget}) as run:
            parts = score(Permutation(), problem, Budget(budget), 2, run.journal)
    assert parts == whole


@pytest.mark.parametrize("method", BOTH, ids=["plain", "antithetic"])
@pytest.mark.parametrize("budget", [10, 72, 500, 1234])
def test_the_budget_is_never_overspent(method: Permutation, budget: float) -> None:
    found = score(method, simulate(layers=1), Budget(budget), seed=0)
    most = method.start(simulate(), 0).next_units
    assert found.provenance.units <= budget
    assert found.provenance.units > budget - most


def test_draws_are_the_same_for_every_language_and_game() -> None:
    left, right = simulate(players=8, seed=0), replace(simulate(players=8, seed=1), language="zh")
    one, other = (Permutation().start(each, seed=4).draw(16)[0] for each in (left, right))
    assert (one["players"] == other["players"]).all()
    assert not (one["marginals"] == other["marginals"]).all()


def test_rounds_of_any_size_are_the_same_walks() -> None:
    problem = simulate(players=8)
    whole = Permutation(walks=6).start(problem, seed=4).draw(0)[0]["marginals"]
    parts = [Permutation(walks=2).start(problem, seed=4).draw(first)[0]["marginals"] for first in (0, 2, 4)]
    assert (np.concatenate(parts) == whole).all()


def test_signs_are_decided_and_right() -> None:
    problem = simulate(players=6, noise=0.2, dummies=1, seed=1)
    found = score(Permutation(walks=32), problem, Budget(8000), seed=0)
    assert found.decision == (*("harmful" if value < 0 else "helpful" for value in problem.exact[:-1]), "undecided")
    assert (found.provenance.confidence, found.provenance.error_rate) == ("betting", 0.1)


def test_wrong_decisions_are_rare() -> None:
    wrong = 0
    for seed in range(30):
        problem = simulate(players=6, noise=1.0, pairs=1.0, dummies=2, share=0.5 * (seed % 2), seed=seed)
        found = score(Permutation(walks=32), problem, Budget(1500), seed)
        claims = {"harmful": -1, "helpful": 1, "undecided": 0}
        signs = np.array([claims[decision] for decision in found.decision])
        wrong += bool(((signs != 0) & (signs * problem.exact <= 0)).any())
    assert wrong <= 3


def test_without_bounds_nothing_is_decided() -> None:
    found = score(Permutation(), simulate(bounded=False), Budget(5000), seed=0)
    assert set(found.decision) == {"undecided"}
    assert (found.provenance.confidence, found.provenance.error_rate) == ("none", None)
    assert np.isfinite(found.stderr).all()


def test_walks_share_the_work_of_lower_layers() -> None:
    found = score(Permutation(), tiny_problem("xlm-roberta", players=12), Budget(8 * 13), seed=0)
    assert found.count == (8,) * 12
    assert found.provenance.units < 0.9 * 8 * 13


def test_what_makes_no_sense_is_refused_in_a_sentence() -> None:
    with pytest.raises(HeadwiseError, match="'f1' is not a mean over examples"):
        Permutation().start(replace(simulate(), game=find_game("f1", ("O", "B-X"))), 0)
    with pytest.raises(HeadwiseError, match="at least one walk"):
        Permutation(walks=0)
