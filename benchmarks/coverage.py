"""Coverage of the bounds of stars on real flips: runs on a game with known values, checked after every round.

The game consists of measurements of e5-small-pos: random coalitions (bases) with all gradients and all flips, measured
once and then sampled with replacement. Their means are the true values, so that every bound can be checked. Stars runs
unchanged: slopes, allocation, weights, standard errors, decisions. The goal is that the share of runs in which any head
is ever further from its true value than its bound is at most the error rate; a wrong decision requires such an event.
Effects rarer than one base do not occur in this game; the simulated games of the tests cover rare and large effects.
With few bases, as with --quick, the game is coarse, and single bases are such rare effects.

    python -m benchmarks.coverage [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--bases 520] [--runs 300]
        [--budget 20000] [--bfloat16]
"""

import json
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.flips import Flipped, explain, make_parser, measure, show_found
from benchmarks.shapley import make_problem
from headwise import HeadwiseError
from headwise.draws import Draws
from headwise.engine import Engine, EngineCost, Flips, Gradients, Values
from headwise.engine.base import Gates, Index
from headwise.methods import Problem
from headwise.methods.stars import StarRounds, Stars

SIGNS = {"harmful": -1, "undecided": 0, "helpful": 1}


class KnownEngine:
    """Answers from stored measurements, with their original cost; the examples are the bases."""

    def __init__(self, known: Flipped) -> None:
        self.known = known

    def values(self, gates: Gates, index: Index) -> Values:
        """Not available: stars only needs gradients and flips."""
        raise NotImplementedError

    def gradients(self, gates: Gates, index: Index) -> Gradients:
        """The gradients at bases."""
        rows = np.asarray(index)
        values, gradients = torch.from_numpy(self.known.values[rows, 0]), torch.from_numpy(self.known.gradients[rows])
        return Gradients(values, gradients, EngineCost(units=2.0 * len(gates)))

    def flips(self, bases: Gates, index: Index, players: Index) -> Flips:
        """The values of bases and flips."""
        rows, who = np.asarray(index), np.asarray(players)
        flipped = np.take_along_axis(self.known.flipped[rows], who[..., None], axis=1)
        cost = EngineCost(units=len(bases) + float(self.flip_units[who].sum()))
        return Flips(torch.from_numpy(self.known.values[rows]), torch.from_numpy(flipped), cost)

    def most_units(self, rows: int, shared: float | None = None, gradients: bool = False) -> float:
        """The maximum cost of a call; all rows are one batch."""
        return 2.0 * rows if gradients else float(rows) if shared is None else shared

    @property
    def flip_units(self) -> NDArray[np.float64]:
        """The cost of a flip of each player, (players,)."""
        return self.known.units


@dataclass(frozen=True)
class KnownProblem(Problem):
    """A problem with stored measurements."""

    known: Flipped = field(kw_only=True)

    def engine(self, game: Any = None) -> Engine:  # noqa: ARG002 - the measurements include both games of stars
        """An engine that returns the stored measurements."""
        return KnownEngine(self.known)


class KnownRounds(StarRounds):
    """Rounds of stars on the measured bases."""

    def draw_bases(self, first_draw: int, count: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Draw some of the measured bases uniformly."""
        assert isinstance(self.problem, KnownProblem)
        bases = self.problem.known.bases
        rows = Draws(self.seed, "known bases").examples(first_draw, count, len(bases))
        return bases[rows], rows


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run.

    Attributes:
        beyond: Whether any head was ever further from its true value than its bound.
        wrong: Whether any decision was ever wrong.
        decided: Number of decided heads at the end.
        squared: Mean square of errors divided by standard errors, at the end.
    """

    beyond: bool
    wrong: bool
    decided: int
    squared: float


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument(
        "--runs", type=int, default=300, help="number of runs of stars per language, each with its own seed"
    )
    parser.add_argument("--budget", type=float, default=20_000, help="units per run, counted as if the model were run")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.bases, options.runs = "zh", 64, 40
    if options.runs < 1:
        raise SystemExit(f"--runs: at least 1, not {options.runs}")
    figures = {}
    for language in options.languages.split(","):
        problem = make_problem(options.data, language, options.bfloat16)
        flipped = measure(problem, options.bases)
        show_found(language, explain(flipped))
        parts = {part.name: getattr(problem, part.name) for part in fields(Problem)}
        known = KnownProblem(**parts, known=flipped)
        if (least := KnownRounds(Stars(), known, seed=0).next_units) > options.budget:
            raise SystemExit(f"--budget: a round of stars may take {least:.0f} units: give a larger budget")
        outcomes = [run(known, seed, options.budget) for seed in range(options.runs)]
        figures[language] = show(language, outcomes)
    print(json.dumps(figures))


def run(problem: KnownProblem, seed: int, budget: float) -> Outcome:
    """One run, checked after every round."""
    truth, signs = problem.known.marginals.mean(0), np.zeros(len(problem.players))
    rounds, units, drawn, beyond, wrong = KnownRounds(Stars(confirm=False), problem, seed), 0.0, 0, False, False
    while units + rounds.next_units <= budget and not rounds.done:
        arrays, count = rounds.draw(drawn)
        rounds.absorb(arrays)
        units, drawn = units + float(arrays["units"]), drawn + count
        signs = np.array([SIGNS[decision] for decision in rounds.decisions()])
        wrong |= bool(((signs != 0) & ~(signs * truth > 0)).any())
        beyond |= bool((np.abs(rounds.estimates()[0][0] - truth) > rounds.radius()).any())
    value, error = rounds.estimates()
    return Outcome(beyond, wrong, int((signs != 0).sum()), float(np.mean(((value[0] - truth) / error[0]) ** 2)))


def show(language: str, outcomes: list[Outcome]) -> dict[str, float]:
    """Print the outcome of all runs of a language."""
    beyond, wrong, decided, squared = (
        float(np.mean([getattr(each, part.name) for each in outcomes])) for part in fields(Outcome)
    )
    print(
        f"{language}: a head beyond its bound in {beyond:.1%} of {len(outcomes)} runs "
        f"(stated: {Stars().error_rate:.0%}), a wrong decision in {wrong:.1%}; {decided:.1f} heads decided, "
        f"mean square of errors / standard errors {squared:.2f}"
    )
    return {"beyond": beyond, "wrong": wrong, "decided": round(decided, 1), "squared_errors": round(squared, 3)}


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
