"""LAHIS: both forms against finite differences of the gates, and the heads of languages."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise import HeadwiseError
from headwise.engine import ExampleSet
from headwise.games import LikelihoodGame
from headwise.methods import Budget, find_method, run_method, score
from headwise.methods.base import Problem
from headwise.methods.lahis import Lahis, language_heads
from headwise.runs import open_run
from tests.engine.worlds import make_engine, plain_statistics
from tests.families import BY_NAME
from tests.methods.worlds import simulate, tiny_problem


def slopes(problem: Problem, case: str, gates: torch.Tensor, example: int) -> np.ndarray:
    """∂L/∂M of one example by central differences, each end by a forward pass of its own."""
    engine = make_engine(BY_NAME[case], LikelihoodGame(), problem.players, model=problem.model)
    tiny, found = 1e-2, []
    with torch.no_grad():
        for player in range(len(gates)):
            step = torch.zeros(len(gates))
            step[player] = tiny
            up, down = (plain_statistics(engine, gates + sign * step, example)[0] for sign in (1, -1))
            found.append(-float(up - down) / (2 * tiny))
    return np.array(found)


@pytest.mark.parametrize("case", ["xlm-roberta", "llama", "marian"])
def test_the_order_free_form_is_that_of_finite_differences(case: str) -> None:
    problem = tiny_problem(case, examples=4)
    each = np.array([slopes(problem, case, torch.ones(6), example) for example in range(4)])
    found = score(Lahis(examples=3), problem, Budget())
    np.testing.assert_allclose(found.values(), np.abs(each).mean(0) * (each < 0).mean(0), rtol=0.02, atol=1e-4)
    assert found.provenance.units == 8
    assert found.provenance.estimand == "lahis (order-free)"


def test_the_published_form_is_a_plain_loop_with_adamw() -> None:
    case = "xlm-roberta"
    problem = tiny_problem(case, examples=4)
    gates = torch.ones(6, requires_grad=True)
    optimizer = torch.optim.AdamW([gates], lr=1e-2, weight_decay=0.0)
    magnitude, lowering = np.zeros(6), np.zeros(6)
    for example in range(4):
        now = gates.detach().clone()
        slope = slopes(problem, case, now, example)
        magnitude += np.abs(slope) * now.numpy()
        lowering += slope * now.numpy() < 0
        gates.grad = torch.from_numpy(slope).float()
        optimizer.step()
    found = run_method(Lahis(form="published", examples=3), problem, Budget())
    np.testing.assert_allclose(found.scores.values(), magnitude / 4 * lowering / 4, rtol=0.02, atol=1e-4)
    np.testing.assert_allclose(found.rounds.state.theta, gates.detach().numpy(), atol=1e-3)  # type: ignore[attr-defined]


def reversed_examples(problem: Problem) -> Problem:
    examples = problem.examples
    turned = ExampleSet(examples.task, examples.encoded[::-1], examples.pad_id)
    return replace(problem, examples=turned)


def test_only_the_published_form_depends_on_the_order() -> None:
    problem = tiny_problem("xlm-roberta", examples=5)
    for form, same in (("order-free", True), ("published", False)):
        first, second = (
            score(find_method("lahis", form=form), each, Budget()).values()
            for each in (problem, reversed_examples(problem))
        )
        assert np.allclose(first, second, rtol=1e-5) == same


@pytest.mark.parametrize("form", ["order-free", "published"])
def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path: Path, form: str) -> None:
    problem, method = tiny_problem("xlm-roberta", examples=5), find_method("lahis", form=form, examples=2)
    whole = run_method(method, problem, Budget(), 3).scores
    for budget in (5, 100):
        with open_run(tmp_path / "run", {"seed": 3}) as run:
            found = run_method(method, problem, Budget(budget), 3, run.journal, "x")
    assert found.scores.to_dict() == whole.to_dict()
    assert (whole.values() >= 0).all()
    assert not whole.provenance.signed


def test_language_heads_are_above_the_quantile_and_general_in_four_languages() -> None:
    scores = score(find_method("lahis"), simulate(players=100), Budget())

    def highest(*heads: int) -> object:
        return replace(scores, value=tuple(5.0 + i if i in heads else i / 1000 for i in range(100)))

    tops = {"a": (1, 2, 3, 4), "b": (1, 2, 3, 5), "c": (1, 2, 6, 7), "d": (1, 8, 9, 10)}
    found = language_heads({code: highest(*heads) for code, heads in tops.items()})  # type: ignore[misc]
    assert found.heads == {code: tuple(f"p{head}" for head in heads) for code, heads in tops.items()}
    assert found.general == ("p1",)
    assert found.specific["a"] == ("p2", "p3", "p4")
    with pytest.raises(HeadwiseError, match="quantile must be between 0 and 1, not 1"):
        language_heads({}, quantile=1)
