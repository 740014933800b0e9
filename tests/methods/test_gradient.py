"""Ma's gradients: sums over examples of |gradient|, normalised in each layer and scaled to [0, 1]."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadScores, HeadwiseError
from headwise.engine import EngineSettings, ExampleSet, kv_groups, players_of
from headwise.games import LikelihoodGame
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Problem
from headwise.methods.gradient import Gradient
from headwise.runs import open_run
from tests.engine.test_weight_gradients import plain_sizes
from tests.engine.worlds import make_engine
from tests.families import BY_NAME
from tests.methods.worlds import simulate, tiny_problem


def every_head(case: str) -> Problem:
    """A problem in which each head is a player."""
    problem = tiny_problem(case)
    return replace(problem, players=players_of(problem.heads))


def scaled(sums: Any, norm: str, layer: int = 4) -> Any:
    """Sums of players, `layer` of them in each layer, normalised and scaled in plain NumPy."""
    by_layer = np.asarray(sums, dtype=np.float64).reshape(-1, layer)
    if norm != "none":
        by_layer = by_layer / np.linalg.norm(by_layer, ord=int(norm[1]), axis=1, keepdims=True)
    return ((by_layer - by_layer.min()) / (by_layer.max() - by_layer.min())).ravel()


@pytest.mark.parametrize("norm", ["l1", "l2", "none"])
@pytest.mark.parametrize("case", ["xlm-roberta", "llama", "marian"])
def test_parameters_are_scored_by_a_loop_over_examples_and_heads(case: str, norm: str) -> None:
    problem = every_head(case)
    found = score(find_method("gradient", norm=norm, examples=2), problem, Budget())
    engine = make_engine(BY_NAME[case], LikelihoodGame(), model=problem.model)
    sums = np.sum([plain_sizes(engine, example) for example in range(len(problem.examples))], axis=0)
    np.testing.assert_allclose(found.values(), scaled(sums, norm), rtol=1e-3, atol=1e-4)
    assert (found.values().min(), found.values().max()) == (0.0, 1.0)
    assert found.provenance.estimand == "sensitivity"
    assert set(found.decision) == {"undecided"}
    assert found.provenance.units == pytest.approx(3 * len(problem.examples))


def test_gates_are_scored_as_michel_does_and_then_scaled() -> None:
    problem = every_head("xlm-roberta")
    plain = score(find_method("michel"), problem, Budget())
    found = score(Gradient(of="gate"), problem, Budget())
    np.testing.assert_allclose(found.values(), scaled(plain.values(), "l1"), rtol=1e-6, atol=1e-9)
    assert found.provenance.units == pytest.approx(2 * len(problem.examples))


@pytest.mark.parametrize("of", ["parameters", "gate"])
def test_order_and_size_of_batches_do_not_matter(of: Any) -> None:
    problem = every_head("xlm-roberta")
    backwards = ExampleSet(problem.examples.task, problem.examples.encoded[::-1], problem.examples.pad_id)
    other = replace(problem, examples=backwards, settings=EngineSettings(token_budget=1))
    one, two = score(Gradient(of), problem, Budget()), score(Gradient(of, examples=1), other, Budget())
    np.testing.assert_allclose(one.values(), two.values(), rtol=1e-4, atol=1e-6)


def test_key_value_groups_are_players_too() -> None:
    problem = replace(tiny_problem("llama"), players=kv_groups(every_head("llama").heads))
    heads = score(Gradient(norm="none"), every_head("llama"), Budget())
    found = score(Gradient(norm="none"), problem, Budget())
    assert found.players[:2] == ("decoder.0.kv0", "decoder.0.kv1")
    assert len(found.players) == len(heads.players) / 2
    assert found.mask(count=1).off[0].startswith("decoder.")


@pytest.mark.parametrize("kind", ["ffn", "layers"])
def test_blocks_and_layers_are_scored_by_their_gates_alone(kind: Any) -> None:
    problem = tiny_problem("xlm-roberta")
    problem = replace(problem, players=players_of(problem.heads, kind))
    assert len(score(Gradient(of="gate"), problem, Budget()).values()) == 3
    with pytest.raises(HeadwiseError, match=f"not {kind}: use of='gate'"):
        score(Gradient(), problem, Budget())


def test_parameters_need_a_model() -> None:
    with pytest.raises(HeadwiseError, match="local engine only"):
        score(Gradient(), simulate(), Budget())


@pytest.mark.parametrize("option", [{"of": "heads"}, {"norm": "l3"}, {"examples": 0}])
def test_wrong_options_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(HeadwiseError):
        find_method("gradient", **option)


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    problem, method = every_head("xlm-roberta"), Gradient(examples=1)

    def run(name: str, *budgets: float) -> HeadScores:
        for budget in budgets:
            with open_run(tmp_path / name, {"seed": 0}) as folder:
                found = score(method, problem, Budget(budget), 0, folder.journal, "x")
        return found

    whole = run("whole", 100)
    assert run("stopped", 6, 9, 100) == whole
    assert whole.count == (5,) * 12
