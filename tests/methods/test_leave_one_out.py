"""Leave one out: against plain forward passes, its cost, its decisions, and resuming."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadwiseError
from headwise.engine import LocalEngine, kv_groups, players_of
from headwise.games import AccuracyGame, LikelihoodGame, MetricGame, ProbabilityGame
from headwise.methods import Budget, find_method, score
from headwise.methods.base import Problem
from headwise.methods.leave_one_out import LeaveOneOut, decide_means
from headwise.methods.moments import SampleSums
from headwise.runs import open_run
from headwise.stats import Decision
from headwise.tasks.task import find_task
from tests.engine.worlds import plain_values
from tests.methods.worlds import simulate, tiny_problem

Array = NDArray[np.float64]


def with_players(case: str, kind: str, game: Any = None) -> Problem:
    problem = tiny_problem(case, game)
    players = kv_groups(problem.heads) if kind == "kv" else players_of(problem.heads, kind)  # type: ignore[arg-type]
    return replace(problem, players=players)


def plain_differences(problem: Problem) -> Array:
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
    problem = simulate(players=8, examples=160, noise=0.1, pairs=0.0)
    whole = score(LeaveOneOut(), problem, Budget())
    truth = problem.world.own.mean(0)
    expected = ["harmful" if each < 0 else "helpful" for each in truth]
    clear = [(found, true) for found, true in zip(whole.decision, expected, strict=True) if found != "undecided"]
    assert len(clear) >= 6
    assert all(found == true for found, true in clear)
    assert whole.provenance.error_rate == 0.1
    part = score(LeaveOneOut(), problem, Budget(whole.provenance.units - 1))
    assert set(part.decision) == {"undecided"}
    assert set(score(LeaveOneOut(), simulate(players=8, examples=127), Budget()).decision) == {"undecided"}


def decided(samples: Array) -> tuple[Decision, ...]:
    """The decisions from samples, (samples, players)."""
    sums = SampleSums.start(samples.shape[1]).add(SampleSums.arrays(samples))
    return decide_means(sums, (samples**3).sum(0), error_rate=0.1)


#: Samples with a mean of 0: bell-shaped, skewed, very skewed, few predictions that change, rare and large losses.
LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "normal": lambda draw, size: draw.normal(0.0, 1.0, size),
    "exponential": lambda draw, size: draw.exponential(1.0, size) - 1.0,
    "log-normal": lambda draw, size: draw.lognormal(0.0, 1.0, size) - np.exp(0.5),
    "few changes": lambda draw, size: draw.choice([-1.0, 0.0, 1.0], p=[0.05, 0.9, 0.05], size=size),
    "rare losses": lambda draw, size: draw.choice([-1.0, 0.1], p=[1 / 11, 10 / 11], size=size),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("count", [128, 400])
def test_wrong_decisions_are_rarer_than_the_error_rate(law: str, count: int) -> None:
    """Players without effect on average: every decision is wrong."""
    draw, runs = np.random.default_rng(0), 300
    wrong = sum(set(decided(LAWS[law](draw, (count, 144)))) != {"undecided"} for _ in range(runs))
    print(f"{law}, {count} examples: a wrong decision in {wrong} of {runs} runs")
    assert wrong / runs <= 0.1


def test_clear_players_are_decided_with_the_right_sign() -> None:
    draw, right = np.random.default_rng(1), 0
    truth = np.repeat([-0.6, 0.6], 24)
    for _ in range(50):
        found = decided(draw.normal(truth, 1.0, (128, 48)))
        right += sum(each == ("harmful" if mean < 0 else "helpful") for each, mean in zip(found, truth, strict=True))
    assert right / (50 * 48) > 0.95


def test_players_without_any_effect_are_undecided() -> None:
    assert decided(np.zeros((200, 2))) == ("undecided", "undecided")


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
