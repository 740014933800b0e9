"""Unsigned scores and controls: Michel's sensitivities against plain autograd, and random rankings."""

import numpy as np
import pytest
import torch

from headwise.games import LikelihoodGame
from headwise.methods import Budget, score
from headwise.methods.michel import Michel
from headwise.methods.random_ranking import RandomRanking
from tests.engine.worlds import make_engine, plain_statistics
from tests.families import BY_NAME
from tests.methods.worlds import simulate, tiny_problem


@pytest.mark.parametrize("case", ["xlm-roberta", "llama", "marian"])
def test_michel_is_the_mean_size_of_gradients_example_by_example(case: str) -> None:
    problem = tiny_problem(case)
    engine = make_engine(BY_NAME[case], LikelihoodGame(), problem.players, model=problem.model)
    sizes = []
    for example in range(len(problem.examples)):
        gates = torch.ones(len(problem.players), requires_grad=True)
        (slope,) = torch.autograd.grad(plain_statistics(engine, gates, example)[0], gates)
        sizes.append(slope.abs().numpy())
    found = score(Michel(examples=2), problem, Budget())
    np.testing.assert_allclose(found.values(), np.mean(sizes, axis=0), rtol=1e-4)
    assert found.provenance.estimand == "sensitivity"
    assert set(found.decision) == {"undecided"}
    assert found.provenance.units == pytest.approx(2 * len(problem.examples))


def test_normalised_sensitivities_have_length_one_in_every_layer() -> None:
    engine = make_engine(BY_NAME["xlm-roberta"])
    problem = tiny_problem("xlm-roberta", players=12)  # one head each
    named = problem.players.__class__(engine.players.names, problem.players.owners)
    found = score(Michel(normalise=True), problem.__class__(**{**vars(problem), "players": named}), Budget())
    by_layer = found.values().reshape(3, 4)
    np.testing.assert_allclose(np.linalg.norm(by_layer, axis=1), 1.0)


def test_random_rankings_are_told_apart_by_their_seed_alone() -> None:
    problem = simulate(players=12)
    first, again, other = (score(RandomRanking(), problem, Budget(), seed) for seed in (1, 1, 2))
    assert first.value == again.value
    assert first.value != other.value
    assert sorted(set(first.value)) == sorted(first.value)
    assert first.provenance.units == 0
