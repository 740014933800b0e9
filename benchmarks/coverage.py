"""Whether the bounds of stars hold on real flips: runs on a game whose values are known, looked at after every round.

The game is made of what e5-small-pos really does: coalitions with all gradients and all flips, measured once, and then
drawn from over and over. Their means are the true values, so that every bound can be judged. Stars does all that it
does otherwise: slopes, allocation, weights, standard errors, decisions. The goal is that in no more runs than the error
rate says any head is ever further off than its bound, which a wrong decision takes. What is rarer than one base in all
of these does not exist in this game: for rare and large effects there are the simulated games of the tests. With few
bases, as in --quick, the game is coarse, and single ones are such effects themselves.

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
    """Answers from what was measured, with the cost of measuring it; examples are the bases themselves."""

    def __init__(self, known: Flipped) -> None:
        self.known = known

    def values(self, gates: Gates, index: Index) -> Values:
        """Not measured: stars asks for gradients and flips alone."""
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
        """The most units that a call may cost: all rows are one batch."""
        return 2.0 * rows if gradients else float(rows) if shared is None else shared

    @property
    def flip_units(self) -> NDArray[np.float64]:
        """What the flip of each player costs, (players,)."""
        return self.known.units


@dataclass(frozen=True)
class KnownProblem(Problem):
    """A problem whose answers have been measured."""

    known: Flipped = field(kw_only=True)

    def engine(self, game: Any = None) -> Engine:  # noqa: ARG002 - it knows both games that stars asks about
        """An engine that knows the answers."""
        return KnownEngine(self.known)


class KnownRounds(StarRounds):
    """Stars at work on bases that have been measured."""

    def draw_bases(self, first_draw: int, count: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Some of them, each as likely as any other."""
        assert isinstance(self.problem, KnownProblem)
        bases = self.problem.known.bases
        rows = Draws(self.seed, "known bases").examples(first_draw, count, len(bases))
        return bases[rows], rows


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Attributes:
        beyond: Whether any head was ever further off than its bound.
        wrong: Whether any decision was ever wrong.
        decided: How many heads were decided in the end.
        squared: The mean square of errors in standard errors in the end.
    """

    beyond: bool
    wrong: bool
    decided: int
    squared: float


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=300, help="runs of stars in each language, with a seed each")
    parser.add_argument("--budget", type=float, default=20_000, help="units of a run, as if it had measured them")
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
            raise SystemExit(f"--budget: a round of stars may take {least:.0f} units: give it more")
        outcomes = [run(known, seed, options.budget) for seed in range(options.runs)]
        figures[language] = show(language, outcomes)
    print(json.dumps(figures))


def run(problem: KnownProblem, seed: int, budget: float) -> Outcome:
    """One run, looked at after every round."""
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
    """What came of all runs of a language."""
    beyond, wrong, decided, squared = (
        float(np.mean([getattr(each, part.name) for each in outcomes])) for part in fields(Outcome)
    )
    print(
        f"{language}: a head beyond its bound in {beyond:.1%} of {len(outcomes)} runs "
        f"(stated: {Stars().error_rate:.0%}), a wrong decision in {wrong:.1%}; {decided:.1f} heads decided, "
        f"mean square of errors in standard errors {squared:.2f}"
    )
    return {"beyond": beyond, "wrong": wrong, "decided": round(decided, 1), "squared_errors": round(squared, 3)}


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
