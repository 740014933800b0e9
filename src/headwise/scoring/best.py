"""The best mask of a language: kinds of masks are compared by cross-fitting on the examples of a scoring run.

The examples are dealt out to folds. For each fold, every kind of mask is made from the examples of the other folds, and
measured on the examples of the fold. So each example is measured under masks that were made without it, and the gain of
a kind is the difference from the whole model over all examples. The best kind is then made from all examples.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError, require_whole
from headwise.files import hash_json
from headwise.masks import HeadMask
from headwise.methods import Budget, Problem, run_method
from headwise.methods.soft import Soft, soft_mask
from headwise.scores import HeadScores
from headwise.scoring.best_result import BestMask, Candidate, Kind
from headwise.scoring.climbing import RefinementPlan
from headwise.scoring.folds import Array, Folds, Scored, metric_value
from headwise.scoring.pool import pool_languages, pooled_mask
from headwise.scoring.refine import refine_mask
from headwise.soft_masks import AnyMask, SoftMask
from headwise.stats.selection import left_behind, select_system
from headwise.support.progress import Advance

#: Maximum probability of a loss of a kind that is clearly better than no mask.
_CLEAR = 0.01


@dataclass(frozen=True)
class BestMaskPlan:
    """Settings of the comparison.

    Attributes:
        kinds: The kinds of masks to compare with no mask. The first ones win ties.
        folds: Number of folds.
        risk: A mask is chosen only if the probability that it is a loss is at most this.
        units: Maximum number of units for the scores of all folds together, and for the training of each soft mask. The
            budget of the run is a maximum too.
        refine: Settings of the refined masks. Steps are chosen on one half of the examples and must hold on the other.
        soft: Settings of the soft masks.

    Raises:
        HeadwiseError: A kind does not exist, or a number is not valid.
    """

    kinds: tuple[Kind, ...] = get_args(Kind)
    folds: int = 2
    risk: float = 0.2
    units: float = 6_000
    refine: RefinementPlan = field(default_factory=lambda: RefinementPlan(rounds=6, examples=256, cross_fit=True))
    soft: Soft = field(default_factory=lambda: Soft(batch=8, epochs=3, patience=2))

    def __post_init__(self) -> None:
        given: Any = self.kinds
        object.__setattr__(self, "kinds", (given,) if isinstance(given, str) else tuple(given))
        if unknown := [each for each in self.kinds if each not in get_args(Kind)]:
            raise FieldError("kinds", f"must be some of {', '.join(get_args(Kind))}, not {unknown[0]!r}")
        if not self.kinds:
            raise FieldError("kinds", f"must be some of {', '.join(get_args(Kind))}, not none")
        require_whole("folds", self.folds, 2)
        if not 0 < self.risk < 1:
            raise FieldError("risk", f"must be between 0 and 1, not {self.risk}")
        if not self.units > 0:
            raise FieldError("units", f"must be above 0, not {self.units}")


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
    makers = _Makers(scored, judge, how)
    folds = makers.folds
    kinds = [kind for kind in how.kinds if makers.offers(kind)]
    measured = _measure(folds, makers, kinds, how.risk, progress)
    found = select_system(measured["none"], [measured[kind] for kind in kinds], metric_value(judge), how.risk)
    chosen = None if found.chosen is None else kinds[found.chosen]
    mask = folds.full if chosen is None else makers.mask(chosen, None)
    return BestMask(
        language=judge.language,
        chosen=chosen or "none",
        mask=mask,
        metric=judge.metric.name,
        gain=found.gain,
        low=found.low,
        high=found.high,
        chance_of_loss=found.chance_of_loss,
        candidates=tuple(
            Candidate(kind, gain, len(measured[kind]) < len(measured["none"]))
            for kind, gain in zip(kinds, found.gains, strict=True)
        ),
        examples=len(measured["none"]),
        units=folds.units,
    )


def make_masks(scored: Scored, judge: MaskJudge, plan: BestMaskPlan | None = None) -> dict[Kind, AnyMask]:
    """The masks of all kinds, each made from all examples, for comparisons on other examples.

    Args:
        scored: The scoring run.
        judge: Measures the model under masks on the examples of the language.
        plan: Settings of the comparison; by default `BestMaskPlan()`.

    Raises:
        HeadwiseError: See `compare_masks`.
    """
    how = plan or BestMaskPlan()
    makers = _Makers(scored, judge, how)
    return {kind: makers.mask(kind, None) for kind in how.kinds if makers.offers(kind)}


def _measure(
    folds: Folds, makers: "_Makers", kinds: Sequence[Kind], risk: float, progress: Advance | None
) -> dict[str, Array]:
    """The statistics of examples without a mask and under each kind, in the order of the folds.

    Kinds that are far behind after half of the folds are not measured on the others. If no kind is left, or only one
    that is clearly better than no mask, the other folds are not needed.
    """
    left, half, value = list(kinds), (folds.count + 1) // 2, metric_value(folds.judge)
    shown = _Shown(folds, len(kinds), progress)
    measured: dict[str, list[Array]] = {name: [] for name in ("none", *kinds)}
    for fold in range(folds.count):
        for other in folds.without(fold):
            if folds.score(other):
                shown.advance(f"scored fold {other + 1}")
        measured["none"].append(folds.measure(folds.full, [fold]))
        shown.advance(f"measured fold {fold + 1}")
        for kind in left:
            measured[kind].append(folds.measure(makers.mask(kind, fold), [fold]))
            shown.advance(f"{kind} without fold {fold + 1}")
        if fold + 1 == half < folds.count:
            base, *systems = (np.concatenate(measured[name]) for name in ("none", *left))
            behind = left_behind(base, systems, value)
            shown.steps -= sum(behind) * (folds.count - half)
            left = [kind for kind, far in zip(left, behind, strict=True) if not far]
            found = select_system(base, systems, value, risk)
            clear = found.chosen is not None and not behind[found.chosen] and found.chance_of_loss <= _CLEAR
            if not left or (len(left) == 1 and clear):
                break
    return {name: np.concatenate(each) for name, each in measured.items()}


class _Shown:
    """The progress of a comparison."""

    def __init__(self, folds: Folds, kinds: int, progress: Advance | None) -> None:
        self.folds, self.progress = folds, progress
        self.done, self.steps = 0, folds.count * (2 + kinds)

    def advance(self, status: str) -> None:
        """Report that a step is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.steps, f"{self.folds.language}: {status} of {self.folds.count}")


class _Makers:
    """Makes masks of every kind from the examples outside a fold, or from all examples."""

    def __init__(self, scored: Scored, judge: MaskJudge, plan: BestMaskPlan) -> None:
        self.plan, self.scored, self.budget = plan, scored, min(plan.units, scored.plan.budget)
        self.folds = Folds(scored, judge, plan.folds, self.budget / plan.folds)
        self.seed, self.journal = self.folds.seed, scored.journal

    def offers(self, kind: Kind) -> bool:
        """Whether a kind can be made: it may need other languages, shrunk values, or players that can be scaled."""
        if kind == "pooled":
            return len(self.scored.scores) > 1
        if kind == "lowest":
            return bool(self.scored.scores[self.folds.language].shrunk)
        return kind != "soft" or self.scored.plan.players != "layers"

    def mask(self, kind: Kind, fold: int | None) -> AnyMask:
        """The mask of a kind from the examples outside a fold; from all examples if the fold is None."""
        match kind:
            case "harmful" | "likely":
                return self._scores(fold).mask(kind)
            case "lowest":
                return lowest_mask(self._scores(fold))
            case "refined":
                start, how = self._scores(fold).mask("harmful"), replace(self.plan.refine, seed=self.seed)
                found = refine_mask(self._problem(fold), start, how, self.journal)
                self.folds.units += found.units
                return found.mask
            case "pooled":
                return self._pooled
            case "soft":
                return self._soft(fold)

    def _scores(self, fold: int | None) -> HeadScores:
        if fold is None:
            return self.scored.scores[self.folds.language]
        return self.folds.scores(self.folds.without(fold))

    def _problem(self, fold: int | None) -> Problem:
        return self.folds.whole if fold is None else self.folds.problem(self.folds.without(fold))

    def _soft(self, fold: int | None) -> SoftMask:
        """The soft mask, trained with at most the budget of the run and the units of the plan."""
        part = "all" if fold is None else f"{fold} of {self.plan.folds}"
        stream = f"best {self.folds.language} soft {part} {hash_json(asdict(self.plan.soft))}"
        found = run_method(self.plan.soft, self._problem(fold), Budget(self.budget), self.seed, self.journal, stream)
        self.folds.units += found.units
        return soft_mask(found.scores)

    @cached_property
    def _pooled(self) -> HeadMask:
        """The mask of the mean over the other languages of the run; it depends on no example of this one."""
        language = self.folds.language
        others = {name: each for name, each in self.scored.scores.items() if name != language}
        pooled = pool_languages(others, self.scored.method, self.scored.problems, self.journal, self.seed)
        return replace(pooled_mask(pooled, self.scored.scores[language]), language=language)


def lowest_mask(scores: HeadScores) -> HeadMask:
    """The mask without the players whose shrunk values are at least one standard error below zero.

    It removes more players than `likely`, and more of them may be harmless. Use it only if its gain is measured on
    other examples.
    """
    low = np.array(scores.shrunk) + np.array(scores.shrunk_error) < 0  # False for players without a value
    return scores.without([name for name, off in zip(scores.players, low, strict=True) if off])
