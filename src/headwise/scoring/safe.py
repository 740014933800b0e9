"""One mask for all languages of a run that makes no language worse by more than a margin.

Half of the examples choose a path of masks: players are ranked by their mean value over languages, and each step
removes more of them. The other half tests the steps in their order. A step is safe if the lower bounds of the gains of
all languages, which hold together, are above minus the margin. The path ends at the first step that is not safe.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError, HeadwiseError
from headwise.masks import HeadMask
from headwise.scores import HeadScores
from headwise.scoring.folds import Array, Folds, Scored, metric_value
from headwise.stats.changes import example_gains
from headwise.stats.simultaneous import count_safe
from headwise.support.progress import Advance

#: Number of folds, of which the first half chooses the path. `best_mask` uses the same folds.
_FOLDS = 4
#: A player that is more than this number of standard errors above zero in any language is not removed.
_CLEAR = 2.0
#: Maximum number of steps of a path.
_STEPS = 16


@dataclass(frozen=True)
class SafeMask:
    """A mask for all languages.

    Attributes:
        mask: The mask; all heads are on if no step was safe.
        margin: No language loses more than this number of points of the metric, with the stated confidence.
        confidence: The probability of this statement, for all languages and steps together.
        metric: Name of the metric.
        gains: The gain in each language on the examples that tested the mask.
        steps: Number of removed players at each step of the path.
        safe: How many of the steps are safe.
        units: Cost in units, including what was done in earlier calls.

    Example:
        >>> mask = HeadMask(("encoder.0.0", "encoder.0.1"), (True, False))
        >>> print(SafeMask(mask, 0.5, 0.95, "accuracy", {"sw": 0.75, "zh": 1.5}, (1, 2), 1, 9000.0))
        1 of 2 heads off for 2 languages; 1 of 2 steps are safe
        No language loses more than 0.5 points of accuracy, with 95% confidence for all languages together.
        Gains on the examples that tested the mask: sw +0.75, zh +1.50.
        Cost: 9,000 units.
    """

    mask: HeadMask
    margin: float
    confidence: float
    metric: str
    gains: Mapping[str, float]
    steps: tuple[int, ...]
    safe: int
    units: float

    def __str__(self) -> str:
        off, players = len(self.mask.off), len(self.mask.players)
        gains = ", ".join(f"{language} {gain:+.2f}" for language, gain in self.gains.items())
        claim = (
            f"No language loses more than {self.margin:g} points of {self.metric}, with {self.confidence:.0%} "
            "confidence for all languages together."
        )
        lines = [
            f"{off} of {players} {self.mask.kind} off for {len(self.gains)} languages; "
            f"{self.safe} of {len(self.steps)} steps are safe",
            claim if self.safe else f"No mask is certain enough to cost no language more than {self.margin:g} points.",
            f"Gains on the examples that tested the mask: {gains}.",
            f"Cost: {self.units:,.0f} units.",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON, without the mask."""
        names = ("margin", "confidence", "metric", "safe", "units")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        return {**found, "gains": dict(self.gains), "steps": list(self.steps), "removed": len(self.mask.off)}


def find_safe_mask(
    scored: Scored,
    judges: Mapping[str, MaskJudge],
    margin: float = 0.5,
    confidence: float = 0.95,
    progress: Advance | None = None,
) -> SafeMask:
    """Find the largest mask of a path that makes no language worse by more than a margin.

    Args:
        scored: The scoring run.
        judges: For each language, what measures the model under masks on its examples.
        margin: The largest loss that is allowed, in points of the metric.
        confidence: Probability that no language loses more, for all languages and steps together.
        progress: Called after each step.

    Raises:
        HeadwiseError: There are fewer than two languages, the margin or the confidence is not valid, or see `Folds`.
    """
    _check(scored, judges, margin, confidence)
    budget = scored.plan.budget / (_FOLDS - 1)
    folds = {language: Folds(scored, judge, _FOLDS, budget) for language, judge in judges.items()}
    half = _FOLDS // 2
    choosing, testing = list(range(half)), list(range(half, _FOLDS))
    steps, done = len(folds) * half + _STEPS, 0

    def advance(status: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(min(done, steps), steps, status)

    for language, each in folds.items():
        for fold in choosing:
            each.score(fold)
            advance(f"{language}: scored fold {fold + 1} of {half}")
    path = mask_path([each.scores(choosing) for each in folds.values()])
    value = metric_value(next(iter(judges.values())))
    full = replace(next(iter(folds.values())).full, language=None)
    bases = [each.measure(full, testing) for each in folds.values()]
    measured = [bases]

    def measure() -> Iterator[list[Array]]:
        for mask in path:
            measured.append([each.measure(mask, testing) for each in folds.values()])
            advance(f"{len(mask.off)} {mask.kind} off")
            yield measured[-1]

    safe = count_safe(bases, measure(), value, margin, confidence)
    gains = {
        language: float(example_gains(base, [system], value)[0][0])
        for language, base, system in zip(folds, bases, measured[safe], strict=True)
    }
    if progress is not None:
        progress(steps, steps, f"{safe} of {len(path)} steps are safe")
    return SafeMask(
        mask=path[safe - 1] if safe else full,
        margin=margin,
        confidence=confidence,
        metric=next(iter(judges.values())).metric.name,
        gains=gains,
        steps=tuple(len(mask.off) for mask in path),
        safe=safe,
        units=sum(each.units for each in folds.values()),
    )


def _check(scored: Scored, judges: Mapping[str, MaskJudge], margin: float, confidence: float) -> None:
    if margin < 0:
        raise FieldError("margin", f"must be at least 0, not {margin:g}")
    if not 0 < confidence < 1:
        raise FieldError("confidence", f"must be between 0 and 1, not {confidence:g}")
    if scored.plan.baseline != "zero":
        raise HeadwiseError(
            "a mask for all languages cannot use the mean outputs of each language: score with --baseline zero"
        )
    if len(judges) < 2:
        raise HeadwiseError(f"a mask for all languages needs a run with at least 2 languages, not {len(judges)}")


def mask_path(scores: Sequence[HeadScores]) -> list[HeadMask]:
    """Masks that remove more and more players: those with the lowest mean over languages, while it is below zero.

    The numbers of removed players are 1, 2, 3, 4, 6, 8, 12, 16 and so on. Players that are clearly helpful in any
    language stay.

    Args:
        scores: The scores of each language.
    """
    values, errors = (np.array([getattr(each, name) for each in scores]) for name in ("value", "stderr"))
    ranking = np.mean([each.ranking_values() for each in scores], axis=0)
    wanted = (ranking < 0) & ~(values > _CLEAR * errors).any(0)  # False for players without a value
    order = [int(place) for place in np.argsort(ranking, kind="stable") if wanted[place]]
    counts = [1, *(size for power in range(1, 12) for size in (2**power, 3 * 2 ** (power - 1)))]
    players, like = scores[0].players, scores[0]
    chosen = [count for count in counts if count <= len(order)][:_STEPS]
    return [replace(like.without([players[place] for place in order[:count]]), language=None) for count in chosen]
