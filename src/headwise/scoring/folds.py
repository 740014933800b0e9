"""The examples of a language in folds: players are scored on each fold, and masks are measured on folds.

Players are scored on each fold separately. The rounds of several folds together are the scores of these folds, so
scores without each fold in turn cost little more than one scoring run. All rounds and measurements are kept in the
journal.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError, HeadwiseError
from headwise.files import hash_json
from headwise.masks import HeadMask
from headwise.methods import Budget, Method, Problem, run_method
from headwise.methods.stars import Stars
from headwise.runs import Journal
from headwise.scores import HeadScores
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.run import plan_method
from headwise.soft_masks import AnyMask, SoftMask

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Minimum number of examples in a fold.
_FEWEST = 5


@dataclass(frozen=True)
class Scored:
    """A finished scoring run.

    Attributes:
        plan: Its plan.
        scores: The scores of each language.
        problems: The problem of each language.
        journal: The journal with the rounds of every language, which also gets the measurements of masks.
    """

    plan: ScoringPlan
    scores: Mapping[str, HeadScores]
    problems: Mapping[str, Problem]
    journal: Journal

    @property
    def method(self) -> Method:
        """The method of the run."""
        return plan_method(self.plan)


def fold_numbers(examples: int, folds: int, seed: int) -> Index:
    """The fold of each example, (examples,): random, and of the same size within one.

    Example:
        >>> np.bincount(fold_numbers(10, 4, seed=0)).tolist()
        [3, 3, 2, 2]
    """
    order = np.argsort(Draws(seed, "folds").uniform(0, 1, examples)[0], kind="stable")
    found = np.empty(examples, dtype=np.int64)
    found[order] = np.arange(examples) % folds
    return found


def metric_value(judge: MaskJudge) -> Callable[[Array], Array]:
    """The metric of summed statistics, as a function that is higher for better models."""
    sign = -1.0 if judge.metric.name == "perplexity" else 1.0  # only perplexity is better if it is lower
    return lambda totals: np.asarray(sign * judge.metric.value(totals))


class Folds:
    """The examples of one language of a run in folds.

    Args:
        scored: The scoring run.
        judge: Measures the model under masks on the examples of the language.
        count: Number of folds.
        budget: Maximum number of units for the scores of each fold.

    Raises:
        HeadwiseError: The run has another method than `stars`, there are too few examples, or they have changed since
            they were scored.
    """

    def __init__(self, scored: Scored, judge: MaskJudge, count: int, budget: float) -> None:
        self.scored, self.judge, self.count, self.language = scored, judge, count, judge.language
        _check(scored, judge, count)
        self.whole, self.seed = scored.problems[self.language], scored.plan.seed
        self.numbers = fold_numbers(len(judge.examples), count, self.seed)
        self.full: HeadMask = scored.scores[self.language].without(())
        self.units, self.budget = 0.0, budget
        self._scored: set[int] = set()
        self._counted: set[str] = set()

    def score(self, fold: int) -> bool:
        """Score the players on the examples of a fold; returns whether the fold was not scored yet in this call."""
        if fold in self._scored:
            return False
        stream, journal = self._stream(fold), self.scored.journal
        found = run_method(self.scored.method, self.problem([fold]), Budget(self.budget), self.seed, journal, stream)
        if not found.units:
            raise FieldError(
                "budget",
                f"{self.budget:g} units do not cover a round for a fold: raise it",
            )
        self.units += found.units
        self._scored.add(fold)
        return True

    def scores(self, folds: Sequence[int]) -> HeadScores:
        """The scores of some folds, which were scored before: their rounds together."""
        rounds, units = self.scored.method.start(self.problem(folds), self.seed), 0.0
        for fold in folds:
            for kept in self.scored.journal.rounds(self._stream(fold)):
                rounds.absorb(kept.arrays)
                units += float(kept.arrays["units"])
        return rounds.scores(units, self.seed)

    def problem(self, folds: Sequence[int]) -> Problem:
        """The problem with the examples of some folds."""
        chosen = np.flatnonzero(np.isin(self.numbers, folds))
        examples = replace(self.whole.examples, encoded=tuple(self.whole.examples.encoded[place] for place in chosen))
        name = f"{self.whole.data} folds {','.join(map(str, folds))} of {self.count}"
        return replace(self.whole, examples=examples, data=name)

    def without(self, fold: int) -> list[int]:
        """All folds but one."""
        return [other for other in range(self.count) if other != fold]

    def measure(self, mask: AnyMask, folds: Sequence[int]) -> Array:
        """The statistics of the examples of some folds under a mask, (examples, statistics)."""
        index = np.flatnonzero(np.isin(self.numbers, folds))
        gates = mask.gates if isinstance(mask, SoftMask) else mask.on

        def compute() -> dict[str, Array]:
            found = self.judge.measure([mask], [index.tolist()])
            return {"statistics": found.statistics[0], "units": np.array(found.cost.units)}

        about = hash_json((mask.kind, list(gates), self.whole.data, index.tolist()))
        kept = self.scored.journal.once(f"best {self.language} measured {about}", compute)
        if about not in self._counted:  # equal masks of different kinds are measured once
            self._counted.add(about)
            self.units += float(kept["units"])
        return np.asarray(kept["statistics"])

    def _stream(self, fold: int) -> str:
        return f"best {self.language} fold {fold} of {self.count}"


def _check(scored: Scored, judge: MaskJudge, folds: int) -> None:
    if scored.plan.method != Stars.name:
        raise HeadwiseError(
            f"masks are compared for runs of stars, not of {scored.plan.method}: score with stars, or choose a rule"
        )
    if (game := scored.problems[judge.language].game).labels != "gold":
        raise HeadwiseError(
            f"masks are compared by the metric of labelled examples, which the game {game.name!r} does not use: choose "
            "a rule, such as likely"
        )
    if (count := len(judge.examples)) < _FEWEST * folds:
        raise HeadwiseError(
            f"{folds} folds need at least {_FEWEST * folds} examples, but {judge.language} has {count}: "
            "score more examples, or choose a rule"
        )
    if scored.scores[judge.language].provenance.data != scored.problems[judge.language].data:
        raise HeadwiseError(
            f"the examples of {judge.language} have changed since they were scored: restore the data, or score them in "
            "another folder"
        )
