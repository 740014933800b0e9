"""Soft masks: real gates recover planted scales, are chosen on held-out examples, and resume to the last bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.draws import Draws
from headwise.engine import LocalEngine, kv_groups, players_of
from headwise.games import LikelihoodGame
from headwise.hard_concrete import open_probability, sample_gates
from headwise.heads import PlayerKind
from headwise.methods import Budget, Problem, find_method, run_method, score
from headwise.methods.gate_training import Array
from headwise.methods.soft import Soft, soft_mask, split_examples
from headwise.runs import open_run
from tests.engine.worlds import plain_statistics
from tests.families import BY_NAME
from tests.methods.worlds import scaled_world, tiny_problem

CASE = BY_NAME["xlm-roberta"]


def plain_value(problem: Problem, gates: Array, index: NDArray[np.int64]) -> float:
    """The mean log-likelihood of examples under gates, each example by a forward pass of its own."""
    engine = LocalEngine(problem.model, None, LikelihoodGame(), problem.examples, problem.players)
    rows = [plain_statistics(engine, torch.tensor(gates).float(), int(row))[0] for row in index]
    return float(torch.stack(rows).mean())


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_scales_are_undone(seed: int) -> None:
    scales = [0.5, 2.0, 0.8, 1.25]
    found = score(Soft(learning_rate=0.05, epochs=20, patience=20, batch=32), scaled_world(scales), Budget(), seed)
    expected = np.concatenate([1 / np.array(scales), np.ones(8)])  # the inverse of each scale
    gates = np.array(soft_mask(found).gates)
    np.testing.assert_allclose(gates, expected, atol=0.1)


def test_gates_stay_1_if_nothing_is_better_on_held_out_examples() -> None:
    problem = scaled_world([], examples=20)  # the best gates are 1
    found = run_method(Soft(learning_rate=200.0, epochs=3, batch=1), problem, Budget())
    assert set(found.scores.value) == {1.0}
    assert found.rounds.done


def test_the_chosen_gates_are_the_best_of_those_on_the_path() -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), examples=10)
    method = Soft(learning_rate=0.02, epochs=4, batch=2, patience=4)
    rounds = method.start(problem, 1)
    seen = []
    while not rounds.done:
        judging, gates = rounds.judging, rounds.candidates
        arrays, _ = rounds.draw(0)
        if judging:
            for value, each in zip(arrays["values"], gates, strict=True):
                assert float(value) == pytest.approx(plain_value(problem, each, rounds.choosing), abs=1e-5)
                seen.append((float(value), each))
        rounds.absorb(arrays)
    assert len(seen) == 9  # without gates, and two candidates after each epoch
    best = max(seen, key=lambda each: each[0])
    np.testing.assert_array_equal(rounds.scores(0, 1).values(), best[1].astype(np.float32))


def test_a_step_follows_the_gradient_of_the_loss_and_of_the_penalty() -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), players=5, examples=4)
    rounds = Soft(l1=(0.3,), batch=3).start(problem, 7)
    rounds.absorb(rounds.draw(0)[0])
    rounds.absorb(rounds.draw(0)[0])  # the first step: afterwards no gate is 1
    rounds.trainer.state = replace(rounds.trainer.state, steps=0, mean=np.zeros(5), square=np.zeros(5))
    gates = torch.tensor(rounds.trainer.theta).float().requires_grad_()
    engine = LocalEngine(problem.model, None, LikelihoodGame(), problem.examples, problem.players)
    rows = [plain_statistics(engine, gates, int(row))[0] for row in rounds.trainer.minibatch]
    (-torch.stack(rows).mean() + 0.3 * (gates - 1).abs().sum()).backward()
    assert gates.grad is not None
    np.testing.assert_allclose(rounds.draw(0)[0]["mean"] / 0.1, gates.grad.numpy(), atol=1e-5)


def test_with_an_l0_penalty_a_step_follows_the_gradient_for_gates_and_for_hard_concrete_gates() -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), players=5, examples=4)
    rounds = Soft(l1=(0.3,), l0=0.2, batch=3).start(problem, 7)
    rounds.absorb(rounds.draw(0)[0])
    rounds.absorb(rounds.draw(0)[0])  # the first step: afterwards no gate is 1
    zeros = np.zeros(10)
    rounds.trainer.state = replace(rounds.trainer.state, steps=0, mean=zeros, square=zeros)
    theta = torch.tensor(rounds.trainer.theta).requires_grad_()
    gates, log_alpha = theta.split(5)
    noise = torch.from_numpy(Draws(7, "soft gates 0").uniform(0, 3, 5))
    rows = (gates * sample_gates(log_alpha, noise)).float()
    engine = LocalEngine(problem.model, None, LikelihoodGame(), problem.examples, problem.players)
    index = rounds.trainer.minibatch
    values = [plain_statistics(engine, row, int(place))[0] for row, place in zip(rows, index, strict=True)]
    penalty = 0.3 * (gates - 1).abs().sum() + 0.2 * open_probability(log_alpha).sum()
    (-torch.stack(values).mean() + penalty).backward()
    assert theta.grad is not None
    np.testing.assert_allclose(rounds.draw(0)[0]["mean"] / 0.1, theta.grad.numpy(), atol=1e-5)


def test_an_l0_penalty_closes_the_gates_of_idle_heads_and_keeps_the_others() -> None:
    problem = scaled_world([1.0, 0.0, 1.0, 0.0], examples=120)  # the second and the fourth head add nothing
    plain = score(Soft(epochs=6, patience=6), problem, Budget()).values()
    assert np.all(plain != 0)
    sparse = soft_mask(score(Soft(l0=0.01, epochs=6, patience=6, learning_rate=0.3), problem, Budget()))
    idle = {problem.players.names[1], problem.players.names[3]}
    assert idle <= set(sparse.off)
    assert len(sparse.off) < len(sparse.gates) / 2


def test_a_larger_penalty_keeps_gates_closer_to_1_and_limits_hold() -> None:
    problem = scaled_world([0.5, 2.0], examples=40)
    methods = [Soft(l1=(weight,), epochs=4, batch=8, learning_rate=0.05) for weight in (0.0, 0.03, 10)]
    far = [np.abs(score(method, problem, Budget()).values() - 1).sum() for method in methods]
    assert far[0] > far[1] > far[2]
    gates = score(Soft(smallest=0.9, largest=1.1, learning_rate=0.5, epochs=2), problem, Budget()).values()
    assert gates.min() >= np.float32(0.9)
    assert gates.max() <= np.float32(1.1)


def test_a_path_of_penalties_starts_each_weight_where_the_one_before_ended() -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), examples=6)
    rounds = Soft(l1=(0.1, 0.0), epochs=2, batch=3).start(problem, 0)
    ends = []
    while not rounds.done:
        place, gates = rounds.place, rounds.average
        rounds.absorb(rounds.draw(0)[0])
        if rounds.place > max(place, 0):
            ends.append(gates)
            np.testing.assert_array_equal(rounds.trainer.theta, gates)
    assert len(ends) == 2


def test_training_ends_after_epochs_without_better_gates() -> None:
    problem = scaled_world([], examples=20)  # the best gates are 1
    rounds = run_method(Soft(learning_rate=200.0, patience=2, epochs=50, batch=1), problem, Budget()).rounds
    assert rounds.done
    assert "2 epochs" in rounds.status


def test_the_split_is_a_partition_that_depends_on_the_seed() -> None:
    fitting, choosing = split_examples(50, 0.2, seed=1)
    assert sorted([*fitting, *choosing]) == list(range(50))
    assert len(choosing) == 10
    assert not np.array_equal(choosing, split_examples(50, 0.2, seed=2)[1])
    assert [len(part) for part in split_examples(2, 0.01, seed=0)] == [1, 1]
    assert [len(part) for part in split_examples(3, 0.99, seed=0)] == [1, 2]


def test_training_never_reads_the_held_out_examples() -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), examples=10)
    rounds = Soft(epochs=2, batch=3).start(problem, 0)
    trained: set[int] = set()
    while not rounds.done:
        if not rounds.judging:
            trained |= set(rounds.trainer.minibatch.tolist())
        rounds.absorb(rounds.draw(0)[0])
    assert trained == set(rounds.fitting.tolist())
    assert not trained & set(rounds.choosing.tolist())


@pytest.mark.parametrize("l0", [0.0, 0.05])
@pytest.mark.parametrize("units", [3, 20, 41])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(units: float, l0: float, tmp_path: Path) -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), examples=6)
    method = Soft(l1=(0.05, 0.0), l0=l0, epochs=3, batch=2, learning_rate=0.02)
    whole = score(method, problem, Budget(), 3)
    with open_run(tmp_path, {"seed": 3}) as run:
        part = score(method, problem, Budget(units), 3, run.journal, "zh")
        assert part.provenance.units <= units
        resumed = score(method, problem, Budget(), 3, run.journal, "zh")
    assert resumed.to_dict() == whole.to_dict()
    assert set(whole.value) != {1.0}


@pytest.mark.parametrize("kind", ["ffn", "layers"])
def test_blocks_and_layers_have_gates_too(kind: PlayerKind) -> None:
    problem = tiny_problem("xlm-roberta", LikelihoodGame(), examples=6)
    problem = replace(problem, players=players_of(problem.heads, kind))
    soft = soft_mask(score(Soft(epochs=2, batch=2), problem, Budget()))
    assert (soft.kind, soft.players) == (kind, problem.heads.players(kind))


def test_heads_that_share_keys_and_values_share_a_gate() -> None:
    problem = tiny_problem("llama-classification", LikelihoodGame(), examples=6)
    problem = replace(problem, players=kv_groups(problem.heads))
    found = score(Soft(epochs=2, batch=2), problem, Budget())
    soft = soft_mask(found)
    assert soft.players == problem.heads.players()
    assert soft.gates[::2] == soft.gates[1::2] == found.value
    soft.check(problem.heads)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l1": ()}, "l1 must be a list of numbers of at least 0"),
        ({"l1": (-1.0,)}, "l1 must be a list of numbers of at least 0"),
        ({"l0": -1.0}, "l0 must be a number of at least 0, not -1.0"),
        ({"held_out": 1.0}, "held_out must be between 0 and 1, not 1.0"),
        ({"smallest": 1.5}, "gates start at 1"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"patience": 0}, "patience"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        find_method("soft", **options)


def test_one_example_is_not_enough() -> None:
    with pytest.raises(HeadwiseError, match="at least 2 examples"):
        Soft().start(tiny_problem("xlm-roberta", examples=1), 0)


def test_scores_of_other_methods_are_no_gates() -> None:
    problem = tiny_problem("xlm-roberta")
    with pytest.raises(HeadwiseError, match="the scores of random are not gates: score with the method 'soft'"):
        soft_mask(score(find_method("random"), problem, Budget()))
