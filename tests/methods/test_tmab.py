"""The bandit of the paper: against a plain loop that follows the paper's text step by step."""

import math
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.draws import Draws
from headwise.games import AccuracyGame, Game, ProbabilityGame, find_game
from headwise.methods import Budget, score
from headwise.methods.exact import Exact
from headwise.methods.permutation import draw_orders
from headwise.methods.tmab import Tmab, draw_sample
from headwise.runs import open_run
from tests.methods.worlds import KilledError, SimulatedProblem, failing, simulate, tiny_problem


def paper_loop(problem: SimulatedProblem, seed: int, rounds: int) -> tuple[list[list[float]], int]:
    """Every head's marginals as section 3.2 of the paper makes them, and the coalitions that had to be valued."""
    n, everyone = len(problem.players), np.arange(len(problem.examples))
    engine = problem.engine()
    seen: list[list[float]] = [[] for _ in range(n)]
    valued = 0
    for number in range(rounds):
        order = draw_orders(Draws(seed, "tmab"), number, 1, n)[0]
        mask, known = np.ones(n, dtype=bool), None
        for left, head in zip(range(n - 1, problem.smallest - 1, -1), order[::-1], strict=False):
            without = mask.copy()
            without[head] = False
            if stops(seen[head]):
                mask, known = without, None
                continue
            values = []
            for coalition in [mask, without] if known is None else [without]:
                rows = engine.values(np.tile(coalition, (len(everyone), 1)), everyone).values
                values.append(float(rows.double().mean()))
                valued += 1
            before = values[0] if known is None else known
            seen[head].append(before - values[-1])
            mask, known = without, values[-1]
            assert mask.sum() == left
    return seen, valued


def stops(marginals: list[float]) -> bool:
    t = len(marginals)
    if t == 0:
        return False
    bound = statistics.pstdev(marginals) * math.sqrt(2 * math.log(3 / 0.1) / t) + 3 * 1 * math.log(3 / 0.1) / t
    return bound < abs(statistics.mean(marginals))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_every_step_is_that_of_the_paper(share: float) -> None:
    problem = simulate(players=6, examples=8, pairs=0.5, share=share, layers=1, seed=1)
    rounds = Tmab().start(problem, seed=2)
    units = 0.0
    for number in range(200):
        arrays, draws = rounds.draw(number)
        rounds.absorb(arrays)
        units += float(arrays["units"])
        assert draws == 1
    seen, valued = paper_loop(problem, 2, rounds=200)
    assert rounds.moments.count.tolist() == [len(each) for each in seen]
    assert rounds.moments.mean == pytest.approx([statistics.mean(each) for each in seen], abs=1e-7)
    assert rounds.stopped.tolist() == [stops(each) for each in seen]
    assert rounds.stopped.sum() > 1
    # With one layer nothing is shared but rows that are the same: every coalition costs its examples.
    assert units == valued * 8


def test_stopped_players_are_not_valued_and_the_run_ends() -> None:
    problem = simulate(players=5, examples=16, noise=0.1, share=0.5, seed=3)
    found = score(Tmab(), problem, Budget(1e6), seed=0)
    assert found.decision == tuple("harmful" if value < 0 else "helpful" for value in problem.exact)
    assert found.provenance.units < 1e6
    assert (found.provenance.confidence, found.provenance.error_rate) == ("bernstein", 0.1)
    # The clearer a sign the sooner it stops.
    assert (np.argsort(found.count) == np.argsort(-np.abs(problem.exact))).all()


@pytest.mark.parametrize(
    ("case", "game", "share"),
    [
        ("xlm-roberta", AccuracyGame(), 0.5),
        ("llama", ProbabilityGame(), 0.0),
        ("marian", ProbabilityGame(), 0.5),
        ("electra", find_game("f1", ("O", "B-X")), 0.0),
    ],
)
def test_the_bandit_agrees_with_enumeration_on_real_models(case: str, game: Game, share: float) -> None:
    problem = tiny_problem(case, game, share=share, examples=4)
    truth = score(Exact(), problem, Budget()).values()
    found = score(Tmab(), problem, Budget(1000), seed=1)
    stderr = np.array(found.stderr)
    # A player that was stopped early has too few samples to know its own error.
    assert (np.abs(found.values() - truth) <= 4 * np.maximum(stderr, stderr.mean()) + 1e-7).all()


def test_a_player_worth_nothing_never_stops_and_the_budget_holds() -> None:
    problem = simulate(players=4, examples=8, dummies=1, noise=0.1, seed=3)
    for budget in (7, 500, 16_000):
        found = score(Tmab(), problem, Budget(budget), seed=0)
        assert found.provenance.units <= budget
    assert found.decision[-1] == "undecided"
    assert "undecided" not in found.decision[:-1]
    assert found.count[-1] > max(found.count[:-1])


def test_a_round_in_which_nobody_is_left_to_observe_costs_nothing() -> None:
    problem = tiny_problem("xlm-roberta", players=4, share=0.5)
    rounds = Tmab().start(problem, seed=0)
    rest = np.array([0, 1, 2] * 50)
    rounds.absorb({"players": rest, "marginals": np.full(150, 0.9)})
    assert rounds.stopped.tolist() == [True, True, True, False]
    costs = {float(arrays["units"]): len(arrays["players"]) for arrays, _ in map(rounds.draw, range(20))}
    assert costs.pop(0.0) == 0
    assert set(costs.values()) == {1}
    assert max(costs) <= rounds.next_units == 2 * 5


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    problem = simulate(players=6, examples=9, share=0.5, layers=3)
    whole = score(Tmab(sample=5), problem, Budget(2000), seed=5)
    for budget in (300, 1000, 2000):
        with open_run(tmp_path / "run", {"seed": 5, "budget": budget}) as run:
            parts = score(Tmab(sample=5), problem, Budget(budget), 5, run.journal, "zh")
            assert parts.provenance.units <= budget
    assert parts == whole


def test_a_killed_run_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    problem = simulate(players=6, examples=9, layers=3)
    whole = score(Tmab(), problem, Budget(700), seed=5)
    with pytest.raises(KilledError), open_run(tmp_path / "run", {"seed": 5}) as run:
        score(Tmab(), failing(problem, calls=4), Budget(700), 5, run.journal)
    with open_run(tmp_path / "run", {"seed": 5}) as run:
        assert score(Tmab(), problem, Budget(700), 5, run.journal) == whole


def test_the_sample_is_drawn_once_and_the_same_for_every_language() -> None:
    left, right = simulate(examples=100, seed=0), replace(simulate(examples=100, seed=1), language="zh")
    one, other = (Tmab(sample=20).start(each, seed=3).sample for each in (left, right))
    assert one.tolist() == other.tolist() == sorted(set(one.tolist()))
    assert len(one) == 20
    assert one.tolist() != Tmab(sample=20).start(left, seed=4).sample.tolist()
    assert draw_sample(3, 512, 7).tolist() == list(range(7))


def test_every_example_is_as_likely_in_the_sample() -> None:
    counts = np.bincount(np.concatenate([draw_sample(seed, 3, 10) for seed in range(2000)]))
    assert counts == pytest.approx(np.full(10, 600), abs=4 * np.sqrt(2000 * 0.3 * 0.7))


def test_a_sample_of_nothing_is_refused_in_a_sentence() -> None:
    with pytest.raises(HeadwiseError, match="at least one example"):
        Tmab(sample=0)
