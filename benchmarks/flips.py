"""How well gradients predict flips, and the smallest error that stars can reach with both.

The model is e5-small-pos, the game is the probability of the gold labels, the players are its 144 heads. At random
coalitions (bases), all gradients are compared with all flips: the share of the variance of flips that gradients
explain, with slopes fitted on the other half of the bases, separately for heads that are on and off. The variances give
the squared error at the optimal allocation of units, if they were known in advance and decisions did not matter: with
gradients and flips as in stars, with flips only, and with equally many flips of every head, as in permutation sampling.
Errors are given as squared error times units, the mean over heads.

    python -m benchmarks.flips [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--bases 520] [--bfloat16]
"""

import argparse
import itertools
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.shapley import make_problem
from headwise import HeadwiseError
from headwise.draws import Draws
from headwise.games import AccuracyGame
from headwise.games.pair import PairGame
from headwise.methods import Problem
from headwise.methods.marginals import flip_signs
from headwise.methods.stars import ANY

Array = NDArray[np.float64]
#: Units of a gradient, plus a quarter of a pass, since one base of four is also evaluated for flips.
GRADIENT = 2.25
#: Number of bases whose flips are evaluated together.
TOGETHER = 16


@dataclass(frozen=True)
class Flipped:
    """Bases with all gradients and flips.

    Attributes:
        bases: The players that are on, (bases, players).
        gradients: Gradients of the soft value with respect to the gates, (bases, players).
        values: Value and hard value of each base, (bases, 2).
        flipped: The same with each player flipped, (bases, players, 2).
        units: The cost of a flip of each player, (players,).
    """

    bases: NDArray[np.bool_]
    gradients: Array
    values: Array
    flipped: Array
    units: Array

    @property
    def marginals(self) -> Array:
        """The marginal contribution of each player at each base, (bases, players)."""
        return (self.flipped[..., 0] - self.values[:, :1]) * flip_signs(self.bases)


@dataclass(frozen=True)
class Found:
    """Variances over bases and examples, (players,) each.

    Attributes:
        flips: Variance of the marginals.
        explained: Variance of the predictions from gradients.
        rest: Variance of the residuals.
        weighed: Variance of the residuals if bases with large gradients are chosen more often, as stars does.
        units: The cost of a flip of each player, (players,).
    """

    flips: Array
    explained: Array
    rest: Array
    weighed: Array
    units: Array

    @property
    def share(self) -> float:
        """The share of the variance of flips that gradients explain."""
        return float(1 - self.rest.sum() / self.flips.sum())

    @property
    def within_reach(self) -> dict[str, float]:
        """Squared error times units, the mean over heads, for each way to spend units."""
        gradients = np.sqrt(GRADIENT * self.explained.sum())
        return {
            "stars": float((gradients + _spread(self.weighed, self.units)) ** 2) / len(self.flips),
            "flips alone": float(_spread(self.flips, self.units) ** 2) / len(self.flips),
            "all heads alike": float(self.flips.sum() * self.units.sum()) / len(self.flips),
        }


def make_parser(about: str | None) -> argparse.ArgumentParser:
    """The options of the measurement."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, few bases and runs: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr")
    parser.add_argument(
        "--bases", type=int, default=520, help="number of random coalitions, each with all of its flips"
    )
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    return parser


def main() -> None:
    options = make_parser(__doc__).parse_args()
    if options.quick:
        options.languages, options.bases = "zh", 64
    figures = {}
    for language in options.languages.split(","):
        found = explain(measure(make_problem(options.data, language, options.bfloat16), options.bases))
        show_found(language, found)
        errors = {way: float(f"{error:.3g}") for way, error in found.within_reach.items()}
        figures[language] = {"explained": round(found.share, 3), **errors}
    print(json.dumps(figures))


def measure(problem: Problem, count: int) -> Flipped:
    """Measure gradients and all flips at `count` random bases."""
    if count < 8:
        raise SystemExit(f"--bases: at least 8 are needed for variances, not {count}")
    n, engine = len(problem.players), problem.engine(PairGame(problem.game, AccuracyGame()))
    bases = Draws(0, "flips").coalitions(0, count, n)
    index = np.arange(count) % len(problem.examples)
    gradients = problem.engine().gradients(bases, index).gradients.numpy().astype(np.float64)
    values, flipped = np.empty((count, 2)), np.empty((count, n, 2))
    for start in range(0, count, TOGETHER):
        rows = slice(start, start + TOGETHER)
        found = engine.flips(bases[rows], index[rows], np.tile(np.arange(n), (len(bases[rows]), 1)))
        values[rows], flipped[rows] = found.base.numpy(), found.flipped.numpy()
        print(f"\r{problem.language}: {min(start + TOGETHER, count)} of {count} bases", end="", flush=True)
    print()
    return Flipped(bases, gradients, values, flipped, engine.flip_units)


def explain(flipped: Flipped) -> Found:
    """The variances of flips, predictions and residuals."""
    marginals, said = flipped.marginals, foretold(flipped)
    left = marginals - said
    size = np.abs(flipped.gradients).sum(1)  # (bases,)
    odds = ANY + (1 - ANY) * size / size.mean()
    return Found(marginals.var(0), said.var(0), left.var(0), (left**2 / odds[:, None]).mean(0), flipped.units)


def foretold(flipped: Flipped) -> Array:
    """Predictions of marginals from gradients, with slopes fitted on the other half of the bases, (bases, players)."""
    said, half = np.zeros_like(flipped.gradients), np.arange(len(flipped.bases)) % 2 == 0
    for here, (own, other) in itertools.product((flipped.bases, ~flipped.bases), ((half, ~half), (~half, half))):
        gradients = np.where(here, flipped.gradients, 0.0)
        squares = (gradients[other] ** 2).sum(0)
        slopes = (gradients * flipped.marginals)[other].sum(0) / np.where(squares > 0, squares, 1.0)  # (players,)
        said[own] += gradients[own] * slopes
    return said


def _spread(variance: Array, units: Array) -> float:
    """The square root of error times units if flips are allocated by their standard deviation and cost."""
    return float(np.sqrt(variance * units).sum())


def show_found(language: str, found: Found) -> None:
    """Print the results of a language."""
    shares = found.rest / np.where(found.flips > 0, found.flips, 1.0)
    twenty = np.sort(found.rest)[::-1][:20].sum() / found.rest.sum()
    print(
        f"{language}: gradients explain {found.share:.0%} of the variance of flips, "
        f"{1 - np.median(shares):.0%} of the median head's; 20 heads have {twenty:.0%} of the remaining variance"
    )
    for way, error in found.within_reach.items():
        print(f"{language}: smallest squared error times units, {way}: {error:.2e}")


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
