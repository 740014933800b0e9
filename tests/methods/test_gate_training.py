"""The trainer of gates: Adam against PyTorch's, epochs that visit every example once, and one step by hand."""

import numpy as np
import pytest
import torch

from headwise import HeadwiseError
from headwise.games import LikelihoodGame
from headwise.methods.gate_training import AdamState, GateTrainer, check_training, sigmoid
from tests.engine.worlds import make_engine, plain_statistics
from tests.families import BY_NAME
from tests.methods.worlds import simulate, tiny_problem


def test_adam_is_that_of_pytorch() -> None:
    draw = np.random.default_rng(0)
    weight = torch.tensor(draw.normal(size=5), dtype=torch.float64, requires_grad=True)
    peer = torch.optim.Adam([weight], lr=0.03)
    state = AdamState.start(weight.detach().numpy())
    for _ in range(20):
        gradient = draw.normal(size=5)
        weight.grad = torch.from_numpy(gradient.copy())
        peer.step()
        state = AdamState.from_arrays(state.updated(gradient, 0.03).arrays())
    np.testing.assert_allclose(state.theta, weight.detach().numpy(), rtol=1e-12)


def test_an_epoch_visits_every_example_once_in_an_order_of_its_own() -> None:
    problem = simulate(players=3, examples=10)
    trainer = GateTrainer(problem.engine(), 10, seed=4, theta=np.ones(3), batch=4, learning_rate=0.1)
    epochs = []
    for _ in range(2):
        rows = []
        for _ in range(trainer.epoch_steps):
            rows.append(trainer.minibatch)
            assert trainer.next_units == 2 * len(trainer.minibatch)
            trainer.absorb(trainer.step(trainer.theta, np.ones(3)))
        assert [len(each) for each in rows] == [4, 4, 2]
        epochs.append(np.concatenate(rows))
        assert sorted(epochs[-1]) == list(range(10))
    assert epochs[0].tolist() != epochs[1].tolist()


@pytest.mark.parametrize("case", ["xlm-roberta", "marian"])
def test_a_step_follows_the_gradient_of_the_mean_loss_and_the_penalty(case: str) -> None:
    problem = tiny_problem(case)
    engine = make_engine(BY_NAME[case], LikelihoodGame(), problem.players, model=problem.model)
    theta, push = np.linspace(-1, 1, 6), np.linspace(0.1, 0.2, 6)
    trainer = GateTrainer(engine, len(problem.examples), 0, theta, batch=3, learning_rate=0.1)
    leaf = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
    values = [plain_statistics(engine, torch.sigmoid(leaf), int(example))[0] for example in trainer.minibatch]
    loss = -torch.stack(values).mean()
    (slope,) = torch.autograd.grad(loss + (torch.from_numpy(push).float() * leaf).sum(), leaf)
    gates = sigmoid(theta)
    found = trainer.step(gates, gates * (1 - gates), push)
    assert float(found["loss"]) == pytest.approx(float(loss.detach()), rel=1e-5)
    np.testing.assert_allclose(found["mean"] / 0.1, slope.numpy(), atol=1e-5)
    assert trainer.steps == 0, "step changes nothing before absorb"


def test_rows_may_have_gates_of_their_own_and_parameters_have_limits() -> None:
    problem = simulate(players=4, examples=6, pairs=0.0)
    trainer = GateTrainer(problem.engine(), 6, 0, np.zeros(4), batch=6, learning_rate=1.0, limits=(-0.25, 0.5))
    slope = np.arange(24.0).reshape(6, 4)
    found = trainer.step(np.full((6, 4), 0.5), slope)
    expected = -(problem.world.own[trainer.minibatch] * slope).mean(0)
    np.testing.assert_allclose(found["mean"] / 0.1, expected, rtol=1e-5)
    np.testing.assert_allclose(found["theta"], np.where(expected > 0, -0.25, 0.5))


def test_options_out_of_range_are_named() -> None:
    with pytest.raises(HeadwiseError, match="batch: a whole number of at least 1"):
        check_training(0, 0.1, 1)
    with pytest.raises(HeadwiseError, match="learning_rate must be a positive number, not -1"):
        check_training(1, -1, 1)
