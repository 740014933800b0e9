"""What gradients foretell of flips, and how near stars can come to the truth with both.

The model is e5-small-pos, the game the probability of the gold labels, the players its 144 heads. At random coalitions,
every example in turn, all gradients are compared with all flips: which share of the variance of flips they explain,
with a slope for each head where it is on and one where it is off. From the variances follows the least squared error
that a unit can buy, were they known beforehand and flips dealt out by them: with gradients at some bases and flips at
others as stars do it, with flips alone, and with as many flips of every head as of any other, which is what walks along
permutations do. An error that falls with units is given as squared error times units, the mean over heads.

    python -m benchmarks.flips [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--bases 520] [--bfloat16]
"""

import argparse
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
from headwise.methods.walks import flip_signs

Array = NDArray[np.float64]
#: Units of a gradient at a base.
GRADIENT = 2.0
#: Bases whose flips are valued in one go.
TOGETHER = 16


@dataclass(frozen=True)
class Flipped:
    """Bases with all of their gradients and flips.

    Attributes:
        bases: Who is on at each base, (bases, players).
        gradients: Gradients of the soft value by every gate, (bases, players).
        values: Value and hard value of each base, (bases, 2).
        flipped: The same with each player flipped, (bases, players, 2).
        units: What the flip of each player costs, (players,).
    """

    bases: NDArray[np.bool_]
    gradients: Array
    values: Array
    flipped: Array
    units: Array

    @property
    def marginals(self) -> Array:
        """What each player adds at each base, (bases, players)."""
        return (self.flipped[..., 0] - self.values[:, :1]) * flip_signs(self.bases)


@dataclass(frozen=True)
class Found:
    """Variances over bases and examples, (players,) each.

    Attributes:
        flips: Of the marginals that flips show.
        explained: Of what gradients say.
        rest: Of what they leave.
        units: What a flip of each player costs, (players,).
    """

    flips: Array
    explained: Array
    rest: Array
    units: Array

    @property
    def share(self) -> float:
        """The share of the variance of flips that gradients explain."""
        return float(1 - self.rest.sum() / self.flips.sum())

    @property
    def least(self) -> dict[str, float]:
        """The least squared error times units, the mean over heads, by the way that units are spent."""
        gradients = np.sqrt(GRADIENT * self.explained.sum())
        return {
            "stars": float((gradients + _spread(self.rest, self.units)) ** 2) / len(self.flips),
            "flips alone": float(_spread(self.flips, self.units) ** 2) / len(self.flips),
            "all heads alike": float(self.flips.sum() * self.units.sum()) / len(self.flips),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, few bases: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr")
    parser.add_argument("--bases", type=int, default=520, help="random coalitions, each with all of its flips")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.bases = "zh", 64
    figures = {}
    for language in options.languages.split(","):
        found = explain(measure(make_problem(options.data, language, options.bfloat16), options.bases))
        show_found(language, found)
        figures[language] = {
            "explained": round(found.share, 3),
            **{way: float(f"{least:.3g}") for way, least in found.least.items()},
        }
    print(json.dumps(figures))


def measure(problem: Problem, count: int) -> Flipped:
    """Gradients and all flips at so many random bases."""
    n, engine = len(problem.players), problem.engine(PairGame(problem.game, AccuracyGame()))
    bases = Draws(0, "flips").coalitions(0, count, n)
    index = np.arange(count) % len(problem.examples)
    gradients = problem.engine().gradients(bases, index)[1].numpy().astype(np.float64)
    values, flipped = np.empty((count, 2)), np.empty((count, n, 2))
    for start in range(0, count, TOGETHER):
        rows = slice(start, start + TOGETHER)
        found = engine.flips(bases[rows], index[rows], np.tile(np.arange(n), (len(bases[rows]), 1)))
        values[rows], flipped[rows] = found.base.numpy(), found.flipped.numpy()
        print(f"\r{problem.language}: {min(start + TOGETHER, count)} of {count} bases", end="", flush=True)
    print()
    return Flipped(bases, gradients, values, flipped, engine.flip_units)


def explain(flipped: Flipped) -> Found:
    """How much of the flips gradients explain."""
    marginals, said = flipped.marginals, foretold(flipped.bases, flipped.gradients, flipped.marginals)
    return Found(marginals.var(0), said.var(0), (marginals - said).var(0), flipped.units)


def foretold(bases: NDArray[np.bool_], gradients: Array, marginals: Array) -> Array:
    """What gradients say of marginals, by the slopes that suit them best, (bases, players)."""
    said = np.zeros_like(gradients)
    for here in (bases, ~bases):
        own = np.where(here, gradients, 0.0)
        squares = (own**2).sum(0)
        said += own * (own * marginals).sum(0) / np.where(squares > 0, squares, 1.0)
    return said


def _spread(variance: Array, units: Array) -> float:
    """The root of error times units where flips are dealt out by their spread and their price."""
    return float(np.sqrt(variance * units).sum())


def show_found(language: str, found: Found) -> None:
    """What was found of a language."""
    shares = found.rest / np.where(found.flips > 0, found.flips, 1.0)
    twenty = np.sort(found.rest)[::-1][:20].sum() / found.rest.sum()
    print(
        f"{language}: gradients explain {found.share:.0%} of the variance of flips, "
        f"{1 - np.median(shares):.0%} of the median head's; 20 heads have {twenty:.0%} of what they leave"
    )
    for way, error in found.least.items():
        print(f"{language}: least squared error times units, {way}: {error:.2e}")


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
