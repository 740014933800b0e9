"""Whether stars is ever worse than plain sampling: its squared error against that of permutation, at equal units.

The models are tiny ones with random weights, of every family that has answers to read. Their heads are dealt out to 8
players, so that the values and gradients of all coalitions can be computed once; then both methods run on these with
many seeds, and the exact values are known. The squared error of permutation is not measured but computed from the
variance of all marginals and the units of a walk, which leaves the noise of stars alone. Gradients of such models are
often useless, and near the empty coalition some are thousands of times too large. The goal is a ratio of at most 1.2
in every game, and standard errors that are right: a mean square of errors in standard errors of 1, and 95% of errors
within two of them.

    python -m benchmarks.robustness [--quick] [--families gemma2,t5] [--games probability,accuracy]
        [--budgets 2000,10000] [--seeds 40] [--players 8]
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

from headwise import HeadwiseError
from headwise.engine import players_from_groups
from headwise.games import find_game
from headwise.heads import find_heads
from headwise.methods import Budget, Estimand, Problem, score
from headwise.methods.permutation import Permutation
from headwise.methods.stars import Stars

Array = NDArray[np.float64]
GAMES = ("probability", "log-likelihood", "accuracy", "margin")
#: Families with sane gradients, with useless ones and with huge outliers.
QUICK = ("xlm-roberta", "t5", "mt5", "gemma2")
#: The ratio of squared errors that is still allowed.
GOAL = 1.2
#: Never decides, so that it spends its whole budget as permutation does.
STARS = Stars(error_rate=1e-300, confirm=False)


@dataclass(frozen=True)
class Row:
    """What runs of stars on one game found.

    Attributes:
        what: Family, game, estimand and budget.
        ratio: Its squared error times units by that of permutation.
        noise: The standard error of the ratio.
        squared: Mean square of errors in standard errors.
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
    parser.add_argument("--budgets", default="2000,10000", help="units of a run")
    parser.add_argument("--seeds", type=int, default=40, help="runs of stars on every game")
    parser.add_argument("--players", type=int, default=8)
    options = parser.parse_args()
    if options.quick:
        options.families, options.games = ",".join(QUICK), "log-likelihood,accuracy"
        options.budgets, options.seeds = "2000", 12
    rows = []
    for family, game in itertools.product(options.families.split(","), options.games.split(",")):
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
    """A tiny model of a family, its heads dealt out to players from the lowest layer to the highest."""
    if family not in {case.name for case in ANSWERING}:
        raise SystemExit(f"--families: there is no {family!r}: choose from {', '.join(c.name for c in ANSWERING)}")
    model = BY_NAME[family].build()
    heads = find_heads(model)
    parts = np.array_split(np.array(heads.players()), players)
    groups = {f"g{place}": tuple(map(str, part)) for place, part in enumerate(parts)}
    examples = make_examples(BY_NAME[family], model)
    return tabulate(Problem(model, heads, examples, players_from_groups(heads, groups), find_game(game)))


def compare(family: str, known: TableProblem, share: float, budget: float, seeds: Sequence[int]) -> Row | None:
    """Runs of stars on one game; None for a game whose value never changes, where no method makes an error."""
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
    # A little more or less than the budget is spent; squared errors fall as units grow.
    each = (np.array(errors) ** 2).mean(1) * units / permutation_error(problem, variance)
    z = np.array(squared)[:, variance > 0]
    what = f"{family} {problem.game.name}, {problem.estimand.name}, {budget:.0f} units"
    return Row(what, float(each.mean()), float(each.std() / len(each) ** 0.5), float(z.mean()), float((z <= 4).mean()))


def permutation_error(problem: TableProblem, variance: Array) -> float:
    """The squared error of permutation times its units, the mean over players, from the variance of marginals."""
    rounds, walks = Permutation().start(problem, seed=0), 400
    # As many rounds as a run would take: the walks of one round share what they have in common.
    units = sum(float(rounds.draw(first)[0]["units"]) for first in range(0, walks, rounds.method.walks))
    n = len(problem.players)
    observed = walks * (n - problem.smallest) / n  # of each player
    return float(variance.mean() / observed * units)


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """The worst rows and the mean ones; a ratio is above the goal where it is so by two of its standard errors."""
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
