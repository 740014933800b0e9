"""Leave one out: against plain forward passes, its cost, its decisions, and resuming."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.engine import LocalEngine, kv_groups, players_of
from headwise.games import AccuracyGame, LikelihoodGame, MetricGame, ProbabilityGame
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Problem
from headwise.methods.leave_one_out import LeaveOneOut, decide_means
from headwise.methods.moments import SampleSums
from headwise.runs import open_run
from headwise.tasks.task import find_task
from tests.engine.worlds import plain_values
from tests.methods.worlds import simulate, tiny_problem


def with_players(case: str, kind: str, game: Any = None) -> Problem:
    problem = tiny_problem(case, game)
    players = kv_groups(problem.heads) if kind == "kv" else players_of(problem.heads, kind)  # type: ignore[arg-type]
    return replace(problem, players=players)


def plain_differences(problem: Problem) -> np.ndarray[Any, Any]:
    """V(all) − V(all but one) of each example and player, by one forward pass each, (examples, players)."""
    engine = problem.engine()
    assert isinstance(engine, LocalEngine)
    n, rows = len(problem.players), []
    for example in range(len(problem.examples)):
        masks = np.concatenate([np.ones((1, n), dtype=bool), ~np.eye(n, dtype=bool)])
        whole, *without = plain_values(engine, masks, np.full(n + 1, example)).double().tolist()
        rows.append([whole - each for each in without])
    return np.array(rows)


@pytest.mark.parametrize(
    ("case", "kind"),
    [("xlm-roberta", "heads"), ("marian", "heads"), ("llama", "kv"), ("xlm-roberta", "ffn"), ("gpt2", "layers")],
)
def test_values_are_those_of_plain_forward_passes(case: str, kind: str) -> None:
    problem = with_players(case, kind)
    found = score(LeaveOneOut(examples=2), problem, Budget())
    expected = plain_differences(problem)
    np.testing.assert_allclose(found.values(), expected.mean(0), atol=1e-6)
    np.testing.assert_allclose(found.stderr, expected.std(0, ddof=1) / np.sqrt(len(expected)), atol=1e-6)
    assert set(found.count) == {len(problem.examples)}
    assert found.provenance.estimand == "leave-one-out"


@pytest.mark.parametrize("game", [AccuracyGame(), LikelihoodGame()])
def test_any_mean_over_examples_can_be_the_game(game: Any) -> None:
    problem = with_players("xlm-roberta", "heads", game)
    np.testing.assert_allclose(
        score(LeaveOneOut(), problem, Budget()).values(), plain_differences(problem).mean(0), atol=1e-5
    )


def test_a_removed_player_runs_only_the_layers_above_it() -> None:
    problem = with_players("xlm-roberta", "heads")  # 4 heads in each of 3 layers
    found = score(LeaveOneOut(examples=1), problem, Budget())
    each = 1 + 4 * (3 + 2 + 1) / 3
    assert found.provenance.units == pytest.approx(len(problem.examples) * each)
    assert score(LeaveOneOut(examples=1), problem, Budget(2 * each + 0.5)).count[0] == 2


def test_the_seed_changes_the_order_of_examples_only() -> None:
    problem = with_players("xlm-roberta", "heads", ProbabilityGame())
    first, other = (score(LeaveOneOut(), problem, Budget(), seed) for seed in (0, 1))
    np.testing.assert_allclose(first.values(), other.values(), atol=1e-12)
    few = [score(LeaveOneOut(examples=1), problem, Budget(10), seed).value for seed in range(4)]
    assert len(set(few)) > 1


def test_decisions_are_made_after_the_last_example_only() -> None:
    problem = simulate(players=8, examples=128, noise=0.1, pairs=0.0)
    whole = score(LeaveOneOut(), problem, Budget())
    truth = problem.world.own.mean(0)
    expected = ["harmful" if each < 0 else "helpful" for each in truth]
    decided = [(found, true) for found, true in zip(whole.decision, expected, strict=True) if found != "undecided"]
    assert len(decided) >= 6
    assert all(found == true for found, true in decided)
    assert whole.provenance.error_rate == 0.1
    part = score(LeaveOneOut(), problem, Budget(whole.provenance.units - 1))
    assert set(part.decision) == {"undecided"}
    assert set(score(LeaveOneOut(), simulate(players=8, examples=63), Budget()).decision) == {"undecided"}


@pytest.mark.parametrize("law", ["normal", "skewed", "rare"])
def test_wrong_decisions_are_rarer_than_the_error_rate(law: str) -> None:
    """Players without effect on average: every decision is wrong."""
    draw, wrong, runs, players = np.random.default_rng(0), 0, 1000, 48
    for _ in range(runs):
        if law == "normal":
            samples = draw.normal(0, 1, (100, players))
        elif law == "skewed":
            samples = draw.exponential(1, (100, players)) - 1
        else:  # predictions change in one example of ten, with the same probability for better and worse
            samples = draw.choice([-1.0, 0.0, 1.0], p=[0.05, 0.9, 0.05], size=(100, players))
        found = decide_means(SampleSums.start(players).add(SampleSums.arrays(samples)), error_rate=0.1)
        wrong += set(found) != {"undecided"}
    assert wrong / runs <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / runs)


def test_clear_players_are_decided() -> None:
    draw, right = np.random.default_rng(1), 0
    for _ in range(50):
        samples = draw.normal(np.repeat([-0.6, 0.6], 24), 1.0, (100, 48))
        found = decide_means(SampleSums.start(48).add(SampleSums.arrays(samples)), error_rate=0.1)
        right += found.count("harmful") + found.count("helpful")
    assert right / (50 * 48) > 0.9


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    problem, method = with_players("xlm-roberta", "heads"), LeaveOneOut(examples=1)
    with open_run(tmp_path / "run", {"seed": 3}) as run:
        score(method, problem, Budget(30), 3, run.journal, "zh")
        assert run.journal.count("zh") == 3
        resumed = score(method, problem, Budget(), 3, run.journal, "zh")
    assert resumed == score(method, problem, Budget(), 3)


def test_unfit_games_and_options_are_refused() -> None:
    problem = with_players("xlm-roberta", "heads", MetricGame(find_task("slots", ("O", "B-X")).metric))
    with pytest.raises(HeadwiseError, match="not a mean over examples"):
        LeaveOneOut().start(problem, 0)
    with pytest.raises(HeadwiseError, match="at least one example, not 0"):
        find_method("leave-one-out", examples=0)
    with pytest.raises(HeadwiseError, match="between 0 and 1, not 2"):
        find_method("leave-one-out", error_rate=2)
