"""Hard Concrete gates: samples against closed forms, gradients against finite differences."""

import math

import numpy as np
import pytest
import torch

from headwise.hard_concrete import HardConcrete, decided_gates, one_probability, open_probability, sample_gates

LEVELS = [-3.0, -1.0, -0.2, 0.0, 0.4, 2.0, 5.0]


def gates_at(levels: list[float]) -> HardConcrete:
    gates = HardConcrete(len(levels)).double()
    with torch.no_grad():
        gates.log_alpha.copy_(torch.tensor(levels, dtype=torch.float64))
    return gates


def test_sampled_frequencies_of_zero_one_and_between_match_the_closed_forms() -> None:
    torch.manual_seed(0)
    gates, rows = gates_at(LEVELS), 40_000
    with torch.no_grad():
        sampled = gates(rows)
    assert sampled.min() >= 0
    assert sampled.max() <= 1
    shut, whole = 1 - gates.open_probability(), gates.one_probability()
    for found, expected in (
        ((sampled == 0).double().mean(0), shut),
        ((sampled == 1).double().mean(0), whole),
        (((sampled > 0) & (sampled < 1)).double().mean(0), 1 - shut - whole),
    ):
        reach = 4.5 * (expected * (1 - expected) / rows).sqrt() + 1e-9  # 21 checks
        assert ((found - expected).abs() <= reach).all(), (found, expected)


def test_the_whole_distribution_is_that_of_the_formula() -> None:
    torch.manual_seed(1)
    with torch.no_grad():
        sampled = gates_at([0.7])(20_000)[:, 0].numpy()
    for place in (0.1, 0.5, 0.9):  # P(g <= x) = σ(β·logit((x − γ)/(ζ − γ)) − ln α)
        s = (place + 0.1) / 1.2
        expected = 1 / (1 + math.exp(-(0.33 * math.log(s / (1 - s)) - 0.7)))
        assert (sampled <= place).mean() == pytest.approx(expected, abs=0.015)


def test_gradients_reach_alpha_through_samples_and_match_finite_differences() -> None:
    uniform = torch.linspace(0.02, 0.98, 49).double()[:, None].expand(49, len(LEVELS))
    log_alpha = torch.tensor(LEVELS).double().requires_grad_()
    (slope,) = torch.autograd.grad(sample_gates(log_alpha, uniform).sum(), log_alpha)
    tiny = 1e-6
    apart = sample_gates(log_alpha + tiny, uniform).sum(0) - sample_gates(log_alpha - tiny, uniform).sum(0)
    np.testing.assert_allclose(slope.numpy(), (apart / (2 * tiny)).detach().numpy(), rtol=1e-4)
    assert (slope[:-1] > 0).all()  # at 5 all samples but the rarest are 1


def test_the_gradient_of_the_penalty_matches_finite_differences() -> None:
    gates = gates_at(LEVELS)
    gates.penalty().backward()
    tiny = 1e-6
    for place, level in enumerate(LEVELS):
        ends = []
        for sign in (1, -1):
            moved = list(LEVELS)
            moved[place] = level + sign * tiny
            ends.append(float(gates_at(moved).penalty().detach()))
        assert gates.log_alpha.grad is not None
        assert float(gates.log_alpha.grad[place]) == pytest.approx((ends[0] - ends[1]) / (2 * tiny), rel=1e-5)


def test_in_evaluation_mode_a_gate_is_what_is_more_probable() -> None:
    gates = gates_at(LEVELS).eval()
    shut, whole = 1 - open_probability(gates.log_alpha), one_probability(gates.log_alpha)
    assert gates().tolist() == (whole > shut + 1e-12).double().tolist()
    assert gates().tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert gates(3).shape == (3, 7)
    assert decided_gates(gates.log_alpha).dtype == torch.bool


def test_extreme_numbers_give_finite_gradients() -> None:
    log_alpha = torch.tensor([-500.0, 0.0, 500.0]).requires_grad_()
    found = sample_gates(log_alpha, torch.tensor([[0.0], [0.5]]).expand(2, 3))
    (slope,) = torch.autograd.grad(found.sum() + open_probability(log_alpha).sum(), log_alpha)
    assert torch.isfinite(found).all()
    assert torch.isfinite(slope).all()
