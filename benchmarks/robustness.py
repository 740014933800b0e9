"""Robustness of stars: its squared error against that of plain permutation sampling, at equal units.

The models are tiny, with random weights, of every family that has task outputs. Their heads are grouped into 8 players,
so that the values and gradients of all coalitions can be computed once and the exact values are known. Stars runs with
many seeds. The squared error of permutation sampling is computed from the variance of all marginals and the units of a
walk, so only that of stars is noisy. Gradients of such models are often useless, and near the empty coalition some are
thousands of times too large. The goals are a ratio of at most 1.2 in every game, and correct standard errors: the mean
square of errors divided by standard errors is 1, and 95% of errors are within two standard errors.

    python -m benchmarks.robustness [--quick] [--families gemma2,t5] [--games probability,accuracy]
        [--budgets 2000,10000] [--seeds 40] [--players 8] [--checkpoint FOLDER]

With `--checkpoint`, the folder of a real language model replaces the tiny models; its texts are the first sentences of
the phrasebook.
"""

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tests.engine.worlds import ANSWERING, make_examples
from tests.families import BY_NAME
from tests.methods.worlds import TableProblem, tabulate
from torch import nn

import headwise as hw
from headwise import HeadwiseError
from headwise.data.examples import WordExample
from headwise.engine import ExampleSet, players_from_groups
from headwise.games import find_game
from headwise.heads import find_heads
from headwise.methods import Budget, Estimand, Problem, score
from headwise.methods.permutation import Permutation
from headwise.methods.stars import Stars
from headwise.scoring import make_setting

Array = NDArray[np.float64]
GAMES = ("probability", "log-likelihood", "accuracy", "margin")
#: Families with useful gradients, with useless ones and with very large outliers.
QUICK = ("xlm-roberta", "t5", "mt5", "gemma2")
#: Maximum ratio of squared errors.
GOAL = 1.2
#: Never decides, so that it spends its whole budget.
STARS = Stars(error_rate=1e-300, confirm=False)


@dataclass(frozen=True)
class Row:
    """The results of stars on one game.

    Attributes:
        what: Family, game, estimand and budget.
        ratio: Squared error times units, divided by that of permutation.
        noise: The standard error of the ratio.
        squared: Mean square of errors divided by standard errors.
        within: Share of errors within two standard errors.
    """

    what: str
    ratio: float
    noise: float
    squared: float
    within: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four families, one budget: under 2 minutes")
    parser.add_argument("--families", default=",".join(case.name for case in ANSWERING))
    parser.add_argument("--games", default=",".join(GAMES))
    parser.add_argument("--budgets", default="2000,10000", help="units per run")
    parser.add_argument("--seeds", type=int, default=40, help="number of runs of stars per game")
    parser.add_argument("--players", type=int, default=8)
    parser.add_argument("--checkpoint", help="folder of a language model to use instead of the tiny models")
    parser.add_argument("--texts", type=int, default=4, help="number of texts for --checkpoint")
    options = parser.parse_args()
    if options.quick:
        options.families, options.games = ",".join(QUICK), "log-likelihood,accuracy"
        options.budgets, options.seeds = "2000", 12
    if options.checkpoint:
        options.families = options.checkpoint
    rows = []
    for family, game in itertools.product(options.families.split(","), options.games.split(",")):
        if options.checkpoint:
            problem = checkpoint_problem(options.checkpoint, game, options.players, options.texts)
        else:
            problem = make_problem(family, game, options.players)
        for share, budget in itertools.product((0.0, 0.5), map(float, options.budgets.split(","))):
            row = compare(family, problem, share, budget, range(options.seeds))
            if row is not None:
                rows.append(row)
                print(
                    f"{row.what}: squared error {row.ratio:.2f} ± {row.noise:.2f} of permutation's; mean square of "
                    f"errors in standard errors {row.squared:.2f}, {row.within:.1%} within two",
                    flush=True,
                )
    print(json.dumps(summary(rows)))


def make_problem(family: str, game: str, players: int) -> TableProblem:
    """A tiny model of a family, with its heads grouped into players from the lowest layer to the highest."""
    if family not in {case.name for case in ANSWERING}:
        raise SystemExit(f"--families: there is no {family!r}: choose from {', '.join(c.name for c in ANSWERING)}")
    model = BY_NAME[family].build()
    return enumerate_game(model, make_examples(BY_NAME[family], model), game, players)


def checkpoint_problem(folder: str, game: str, players: int, texts: int) -> TableProblem:
    """A language model from a folder, on the first English sentences of the phrasebook."""
    examples = hw.open_dataset("phrasebook", task="pos").examples("en", "dev")[:texts]
    sentences = [" ".join(example.words) for example in examples if isinstance(example, WordExample)]
    rows = [{"text": sentence, "language": "en", "split": "dev"} for sentence in sentences]
    setting = make_setting(*hw.load(folder), hw.dataset(rows, task="lm"), "lm")
    return enumerate_game(setting.model, setting.encode(setting.dataset.examples("en", "dev")), game, players)


def enumerate_game(model: nn.Module, examples: ExampleSet, game: str, players: int) -> TableProblem:
    """The values and gradients of all coalitions of a model whose heads are grouped into players by layer."""
    heads = find_heads(model)
    parts = np.array_split(np.array(heads.players()), players)
    groups = {f"g{place}": tuple(map(str, part)) for place, part in enumerate(parts)}
    return tabulate(Problem(model, heads, examples, players_from_groups(heads, groups), find_game(game)))


def compare(family: str, known: TableProblem, share: float, budget: float, seeds: Sequence[int]) -> Row | None:
    """Run stars on one game; None if the value of the game is constant, where no method makes an error."""
    problem = replace(known, estimand=Estimand(share))
    truth, variance = problem.table.moments(problem.smallest)
    if not variance.any():
        return None
    errors, squared, units = [], [], []
    for seed in seeds:
        found = score(STARS, problem, Budget(budget), seed)
        errors.append(found.values() - truth)
        squared.append(np.divide(errors[-1], found.stderr, out=np.zeros_like(truth), where=variance > 0) ** 2)
        units.append(found.provenance.units)
    # Multiplied by units, because runs spend slightly different numbers of units and squared errors fall as 1/units.
    each = (np.array(errors) ** 2).mean(1) * units / permutation_error(problem, variance)
    z = np.array(squared)[:, variance > 0]
    what = f"{family} {problem.game.name}, {problem.estimand.name}, {budget:.0f} units"
    return Row(what, float(each.mean()), float(each.std() / len(each) ** 0.5), float(z.mean()), float((z <= 4).mean()))


def permutation_error(problem: TableProblem, variance: Array) -> float:
    """Squared error times units of permutation, the mean over players, from the variance of marginals."""
    rounds, walks = Permutation().start(problem, seed=0), 400
    # Measured in whole rounds, because the walks of one round share computation.
    units = sum(float(rounds.draw(first)[0]["units"]) for first in range(0, walks, rounds.method.walks))
    n = len(problem.players)
    observed = walks * (n - problem.smallest) / n  # per player
    return float(variance.mean() / observed * units)


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """The worst row and means; a ratio is above the goal if it exceeds it by more than two standard errors."""
    worst = max(rows, key=lambda row: row.ratio)
    above = [row.what for row in rows if row.ratio - 2 * row.noise > GOAL]
    return {
        "games": len(rows),
        "mean_ratio": round(float(np.exp(np.mean([np.log(row.ratio) for row in rows]))), 3),
        "worst_ratio": round(worst.ratio, 2),
        "worst": worst.what,
        "above_goal": above,
        "squared_errors": round(float(np.mean([row.squared for row in rows])), 3),
        "within_two": round(float(np.mean([row.within for row in rows])), 4),
    }


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
