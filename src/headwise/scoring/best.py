"""The best mask of a language: kinds of masks are compared by cross-fitting on the examples of a scoring run.

The examples are dealt out to folds. For each fold, every kind of mask is made from the examples of the other folds, and
measured on the examples of the fold. So each example is measured under masks that were made without it, and the gain of
a kind is the difference from the whole model over all examples. The best kind is then made from all examples.

Players are scored on each fold separately. The rounds of the other folds together are the scores without a fold, so all
folds cost little more than one scoring run. All rounds and measurements are kept in the journal of the run.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.files import hash_json
from headwise.masks import HeadMask
from headwise.methods import Budget, Method, Problem, run_method
from headwise.methods.soft import Soft, soft_mask
from headwise.methods.stars import Stars
from headwise.runs import Journal, open_run
from headwise.scores import HeadScores
from headwise.scoring.best_result import BestMask, Candidate, Kind
from headwise.scoring.climbing import RefinementPlan
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.pool import pool_languages, pooled_mask
from headwise.scoring.refine import refine_mask
from headwise.scoring.run import plan_method
from headwise.soft_masks import AnyMask, SoftMask
from headwise.stats.selection import Selection, select_system
from headwise.support.progress import Advance

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Minimum number of examples in a fold.
_FEWEST = 5


@dataclass(frozen=True)
class BestMaskPlan:
    """Settings of the comparison.

    Attributes:
        kinds: The kinds of masks to compare with no mask. The first ones win ties.
        folds: Number of folds.
        risk: A mask is chosen only if the probability that it is a loss is at most this.
        refine: Settings of the refined masks. Steps are chosen on one half of the examples and must hold on the other.
        resamples: Number of resamples of the bootstrap.

    Raises:
        HeadwiseError: A kind does not exist, or a number is not valid.
    """

    kinds: tuple[Kind, ...] = get_args(Kind)
    folds: int = 4
    risk: float = 0.2
    refine: RefinementPlan = field(default_factory=lambda: RefinementPlan(cross_fit=True))
    resamples: int = 2000

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", (self.kinds,) if isinstance(self.kinds, str) else tuple(self.kinds))
        if unknown := [each for each in self.kinds if each not in get_args(Kind)]:
            raise FieldError("kinds", f"must be some of {', '.join(get_args(Kind))}, not {unknown[0]!r}")
        if not self.kinds:
            raise FieldError("kinds", f"must be some of {', '.join(get_args(Kind))}, not none")
        require_whole("folds", self.folds, 2)
        require_whole("resamples", self.resamples, 1)
        if not 0 < self.risk < 1:
            raise FieldError("risk", f"must be between 0 and 1, not {self.risk}")


@dataclass(frozen=True)
class Scored:
    """A finished scoring run.

    Attributes:
        plan: Its plan.
        scores: The scores of each language.
        problems: The problem of each language.
        journal: The journal with the rounds of every language, which also gets the measurements of the comparison.
    """

    plan: ScoringPlan
    scores: Mapping[str, HeadScores]
    problems: Mapping[str, Problem]
    journal: Journal

    @property
    def method(self) -> Method:
        """The method of the run."""
        return plan_method(self.plan)


def compare_masks(
    scored: Scored, judge: MaskJudge, plan: BestMaskPlan | None = None, progress: Advance | None = None
) -> BestMask:
    """Choose the best kind of mask for a language by cross-fitting.

    Args:
        scored: The scoring run.
        judge: Measures the model under masks on the examples of the language.
        plan: Settings of the comparison; by default `BestMaskPlan()`.
        progress: Called after each step.

    Raises:
        HeadwiseError: The run has another method than `stars`, there are too few examples, they have changed since they
            were scored, or the budget does not cover a round for each fold.
    """
    how = plan or BestMaskPlan()
    _check(scored, judge, how)
    work = _Comparison(scored, judge, how)
    kinds = [kind for kind in how.kinds if work.offers(kind)]
    steps = how.folds * (2 + len(kinds)) + 1
    done = 0

    def advance(status: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done, steps), steps, f"{judge.language}: {status}")

    for fold in range(how.folds):
        work.score_fold(fold)
        advance(f"scored fold {fold + 1} of {how.folds}")
    measured: dict[str, list[Array]] = {name: [] for name in ("none", *kinds)}
    for fold in range(how.folds):
        measured["none"].append(work.measure(work.full, fold))
        advance(f"measured fold {fold + 1} of {how.folds}")
        for kind in kinds:
            measured[kind].append(work.measure(work.mask(kind, fold), fold))
            advance(f"{kind} without fold {fold + 1} of {how.folds}")
    base, *systems = (np.concatenate(each) for each in measured.values())
    found = _select(base, systems, judge, how, scored.plan.seed)
    chosen = "none" if found.chosen is None else kinds[found.chosen]
    mask = work.full if found.chosen is None else work.mask(kinds[found.chosen], None)
    advance(chosen)
    return BestMask(
        language=judge.language,
        chosen=chosen,
        mask=mask,
        metric=judge.metric.name,
        gain=found.gain,
        low=found.low,
        high=found.high,
        chance_of_loss=found.chance_of_loss,
        candidates=tuple(Candidate(kind, gain) for kind, gain in zip(kinds, found.gains, strict=True)),
        examples=len(judge.examples),
        units=work.units,
    )


@contextmanager
def memory_journal(seed: int) -> Iterator[Journal]:
    """A journal that is deleted at the end."""
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", {"seed": seed}) as run:
        yield run.journal


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


def _check(scored: Scored, judge: MaskJudge, plan: BestMaskPlan) -> None:
    if scored.plan.method != Stars.name:
        raise HeadwiseError(
            f"masks are compared for runs of stars, not of {scored.plan.method}: score with stars, or choose a rule"
        )
    if (count := len(judge.examples)) < _FEWEST * plan.folds:
        raise HeadwiseError(
            f"{plan.folds} folds need at least {_FEWEST * plan.folds} examples, but {judge.language} has {count}: "
            "score more examples, or choose a rule"
        )
    if scored.scores[judge.language].provenance.data != scored.problems[judge.language].data:
        raise HeadwiseError(
            f"the examples of {judge.language} have changed since they were scored: restore the data, or score them in "
            "another folder"
        )


def _select(base: Array, systems: list[Array], judge: MaskJudge, plan: BestMaskPlan, seed: int) -> Selection:
    sign = -1.0 if judge.metric.name == "perplexity" else 1.0  # only perplexity is better if it is lower
    return select_system(
        base, systems, lambda totals: sign * judge.metric.value(totals), plan.risk, plan.resamples, seed=seed
    )


class _Comparison:
    """Makes masks without a fold and measures them on the fold; everything is kept in the journal."""

    def __init__(self, scored: Scored, judge: MaskJudge, plan: BestMaskPlan) -> None:
        self.scored, self.judge, self.plan, self.language = scored, judge, plan, judge.language
        self.problem, self.scores = scored.problems[self.language], scored.scores[self.language]
        self.journal, self.seed = scored.journal, scored.plan.seed
        self.folds = fold_numbers(len(judge.examples), plan.folds, self.seed)
        self.full = self.scores.without(())
        self.units = 0.0
        self._masks: dict[tuple[Kind, int | None], AnyMask] = {}

    def offers(self, kind: Kind) -> bool:
        """Whether a kind of mask can be made: pooled masks need other languages, layers cannot be scaled."""
        if kind == "pooled":
            return len(self.scored.scores) > 1
        return kind != "soft" or self.scored.plan.players != "layers"

    def score_fold(self, fold: int) -> None:
        """Score the players on the examples of a fold, with an equal share of the budget of the run."""
        part = self._part(self.folds == fold, f"fold {fold}")
        budget = Budget(self.scored.plan.budget / (self.plan.folds - 1))
        found = run_method(self.scored.method, part, budget, self.seed, self.journal, self._stream(fold))
        if not found.units:
            raise FieldError(
                "budget",
                f"{self.scored.plan.budget:g} units do not cover a round for each of {self.plan.folds} folds: raise it",
            )
        self.units += found.units

    def mask(self, kind: Kind, fold: int | None) -> AnyMask:
        """The mask of a kind from the examples outside a fold; from all examples if the fold is None."""
        if (kind, fold) not in self._masks:
            self._masks[kind, fold] = self._make(kind, fold)
        return self._masks[kind, fold]

    def measure(self, mask: AnyMask, fold: int) -> Array:
        """The statistics of the examples of a fold under a mask, (examples, statistics)."""
        index = np.flatnonzero(self.folds == fold)
        gates = mask.gates if isinstance(mask, SoftMask) else mask.on

        def compute() -> dict[str, Array]:
            found = self.judge.measure([mask], [index])
            return {"statistics": found.statistics[0], "units": np.array(found.cost.units)}

        about = hash_json((mask.kind, list(gates), self.problem.data, index.tolist()))
        kept = self.journal.once(f"best {self.language} measured {about}", compute)
        self.units += float(kept["units"])
        return np.asarray(kept["statistics"])

    def _make(self, kind: Kind, fold: int | None) -> AnyMask:
        match kind:
            case "harmful" | "likely":
                return self._scores(fold).mask(kind)
            case "refined":
                found = refine_mask(self._without(fold), self._scores(fold).mask("harmful"), self._refine, self.journal)
                self.units += found.units
                return found.mask
            case "pooled":
                return self._pooled
            case "soft":
                return self._soft(fold)

    def _scores(self, fold: int | None) -> HeadScores:
        """The scores without a fold: the rounds of all other folds together."""
        if fold is None:
            return self.scores
        rounds, units = self.scored.method.start(self._without(fold), self.seed), 0.0
        for other in range(self.plan.folds):
            if other != fold:
                for kept in self.journal.rounds(self._stream(other)):
                    rounds.absorb(kept.arrays)
                    units += float(kept.arrays["units"])
        return rounds.scores(units, self.seed)

    def _soft(self, fold: int | None) -> SoftMask:
        """The soft mask, trained with at most the budget of the run."""
        stream = f"best {self.language} soft {'all' if fold is None else fold} of {self.plan.folds}"
        budget = Budget(self.scored.plan.budget)
        found = run_method(Soft(), self._without(fold), budget, self.seed, self.journal, stream)
        self.units += found.units
        return soft_mask(found.scores)

    @cached_property
    def _pooled(self) -> HeadMask:
        """The mask of the mean over the other languages of the run; it depends on no example of this one."""
        others = {name: each for name, each in self.scored.scores.items() if name != self.language}
        pooled = pool_languages(others, self.scored.method, self.scored.problems, self.journal, self.seed)
        return replace(pooled_mask(pooled, self.scores), language=self.language)

    @property
    def _refine(self) -> RefinementPlan:
        return replace(self.plan.refine, seed=self.seed)

    def _without(self, fold: int | None) -> Problem:
        return self.problem if fold is None else self._part(self.folds != fold, f"without fold {fold}")

    def _part(self, chosen: NDArray[np.bool_], name: str) -> Problem:
        """The problem with some of its examples."""
        encoded = tuple(self.problem.examples.encoded[place] for place in np.flatnonzero(chosen))
        examples = replace(self.problem.examples, encoded=encoded)
        return replace(self.problem, examples=examples, data=f"{self.problem.data} {name} of {self.plan.folds}")

    def _stream(self, fold: int) -> str:
        return f"best {self.language} fold {fold} of {self.plan.folds}"
