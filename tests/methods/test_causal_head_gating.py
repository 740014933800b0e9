"""Causal head gating: planted roles are found, stages start where they should, and runs resume."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.engine import players_of
from headwise.methods import Budget, find_method, run_method, score
from headwise.methods.causal_head_gating import CausalHeadGating, GatingRounds, head_classes
from headwise.runs import open_run
from tests.methods.worlds import planted, scaled_world, simulate, tiny_problem


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_harmful_helpful_and_idle_players_are_recovered(seed: int) -> None:
    problem = planted(helpful=4, harmful=3, idle=5, effect=0.1)
    found = score(CausalHeadGating(epochs=30, batch=8), problem, Budget(), seed)
    expected = ["facilitating"] * 4 + ["interfering"] * 3 + ["irrelevant"] * 5
    assert list(head_classes(found).values()) == expected
    assert found.provenance.signed
    assert set(found.decision) == {"undecided"}, "no error rate is stated"
    with pytest.raises(HeadwiseError, match="biased"):
        found.mask("likely")
    assert set(found.mask(count=3).off) == {"p4", "p5", "p6"}


def test_heads_of_a_model_that_do_harm_nothing_or_good_are_told_apart() -> None:
    problem = scaled_world([1.0] * 9 + [0.0], examples=100, absent=(8,))  # the tenth head is silent
    found = score(CausalHeadGating(epochs=5, batch=16, learning_rate=0.3), problem, Budget())
    classes = list(head_classes(found).values())
    assert classes[8:10] == ["interfering", "irrelevant"]
    rest = classes[:8] + classes[10:]
    assert "interfering" not in rest
    assert rest.count("facilitating") > len(rest) / 2


def test_players_with_an_effect_below_the_push_are_irrelevant() -> None:
    problem = planted(helpful=2, harmful=2, idle=1, effect=0.1)
    found = score(CausalHeadGating(lam=1.0, epochs=30, batch=8), problem, Budget())
    assert set(head_classes(found).values()) == {"irrelevant"}


def test_both_pushed_stages_start_from_the_fitted_gates() -> None:
    problem = simulate(players=5, examples=6)
    rounds = CausalHeadGating(epochs=2, batch=3).start(problem, 0)
    while rounds.stage == "fit":
        rounds.absorb(rounds.draw(0)[0])
    fitted = rounds.trainers["fit"].theta
    assert np.abs(fitted).max() > 0
    for stage in ("open", "closed"):
        np.testing.assert_array_equal(rounds.trainers[stage].theta, fitted)
        assert rounds.trainers[stage].steps == 0
    while not rounds.done:
        assert rounds.next_units == 6
        rounds.absorb(rounds.draw(0)[0])
    wide, tight = rounds.gates()
    assert (wide >= tight).all()


@pytest.mark.parametrize("kind", ["heads", "ffn", "layers"])
def test_gates_stay_within_their_limits_on_a_real_model(kind: str) -> None:
    problem = tiny_problem("marian", examples=4)
    problem = replace(problem, players=players_of(problem.heads, kind))  # type: ignore[arg-type]
    run = run_method(CausalHeadGating(epochs=8, batch=2, learning_rate=1.0, limit=2.0), problem, Budget())
    assert isinstance(run.rounds, GatingRounds)
    for gates in run.rounds.gates():
        assert gates.min() >= 0.119
        assert gates.max() <= 0.881
    assert run.units == 3 * 8 * 2 * 4


def test_a_run_that_was_interrupted_ends_with_the_same_bits(tmp_path: Path) -> None:
    problem, method = tiny_problem("xlm-roberta", examples=5), CausalHeadGating(epochs=2, batch=2)
    whole = run_method(method, problem, Budget(), 3).scores
    for budget in (10, 30, 1000):  # within the first stage, within the second, to the end
        with open_run(tmp_path / "run", {"seed": 3}) as run:
            found = run_method(method, problem, Budget(budget), 3, run.journal, "x")
    assert found.scores.to_dict() == whole.to_dict()


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwiseError, match="lam must be a positive number, not 0"):
        find_method("chg", lam=0)
    with pytest.raises(HeadwiseError, match="needs scores of the method 'chg', not of 'random'"):
        head_classes(score(find_method("random"), simulate(), Budget()))
