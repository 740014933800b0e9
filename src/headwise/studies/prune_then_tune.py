"""Prune, then tune (Ma et al., 2021): is a model better if its lowest-ranked heads are removed before it is tuned?

1. The pre-trained model is tuned on the source language, and its heads are ranked on the dev examples of the source.
2. The k lowest-ranked heads are cut out of the pre-trained model, which is then tuned on the source alone (`cross`), or
   on the source and a target language (`multi`); for k = 1, 2, … until the dev value drops.
3. The k with the best dev value is the result. The best k on test data, which the paper reports, is shown beside it.

Controls remove the highest-ranked heads, or heads in random order, by the same rule.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.masks import HeadMask
from headwise.scores import HeadScores
from headwise.scoring import ScoringPlan, ScoringRun
from headwise.studies.grid import Array, Cell, CellTuning
from headwise.studies.judge import Judge, check_split
from headwise.studies.prune_then_tune_study import (
    HIGHEST,
    LOWEST,
    Arm,
    Point,
    PruneThenTuneStudy,
    TargetOutcome,
    load_prune_then_tune,
)
from headwise.studies.ranked import check_counts, check_cut, check_fits, random_orders, rank_tuned
from headwise.studies.work import GridKind, Work
from headwise.tuning import TuningSettings
from headwise.tuning.plan import check_share
from headwise.tuning.untuned import can_train

#: The modes: training on the source alone, and on the source and the target.
MODES = ("cross", "multi")


@dataclass(frozen=True)
class PruneThenTunePlan:
    """The plan of a study that prunes, then tunes.

    Attributes:
        scoring: Model, task, data, target languages, and the method that ranks heads. The heads are scored on the
            source language alone, after tuning on it.
        source: The source language.
        modes: `cross` (train on the source), `multi` (train on the source and the target; only for targets that have
            training examples), or both.
        counts: The numbers of heads to remove, in ascending order.
        patience: Stop after this number of counts without a better dev value; 0 to try all counts.
        randoms: Number of random orders; 0 for none.
        highest: Whether the highest-ranked heads are removed as a control.
        epochs: Number of epochs of each tuning; the best epoch on dev is kept.
        learning_rate: Peak learning rate.
        batch_tokens: Number of tokens in a batch.
        train_embeddings: Train the embeddings too.
        lora_rank: Train LoRA adapters of this rank instead of all weights (see `TuningSettings`); 0 for all weights.
        share: Share of the training examples of each language.
        test_split: The split that results are measured on.
        limit_test: The maximum number of test examples of each language, the first ones; None for all.
        resamples: Number of resamples of the paired bootstrap.

    Raises:
        HeadwiseError: A value is out of range, or the test split overlaps with the scoring split.
    """

    scoring: ScoringPlan
    source: str = "en"
    modes: Sequence[str] = MODES
    counts: Sequence[int] = tuple(range(1, 13))
    patience: int = 0
    randoms: int = 3
    highest: bool = True
    epochs: int = 3
    learning_rate: float = 5e-5
    batch_tokens: int = 1024
    train_embeddings: bool = False
    lora_rank: int = 0
    share: float = 1.0
    test_split: str = "test"
    limit_test: int | None = None
    resamples: int = 10_000

    def __post_init__(self) -> None:
        check_split(self.scoring, self.test_split)
        if self.test_split in ("train", "dev"):
            raise FieldError("test_split", f"models are tuned on {self.test_split!r}: judge them on another split")
        if not self.modes or not set(self.modes) <= set(MODES):
            raise FieldError("modes", f"a list of {' and '.join(MODES)}, not {self.modes!r}")
        check_counts(self.counts)
        for name, least in (("patience", 0), ("randoms", 0), ("resamples", 1)):
            require_whole(name, getattr(self, name), least)
        if self.limit_test is not None:
            require_whole("limit_test", self.limit_test)
        check_cut(self.scoring)
        check_share(self.share)
        _ = self.tuning((self.source,))  # checks the settings

    def tuning(self, languages: tuple[str, ...]) -> CellTuning:
        """How models are tuned on some languages."""
        settings = TuningSettings(
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            batch_tokens=self.batch_tokens,
            freeze_embeddings=not self.train_embeddings,
            bfloat16=self.scoring.bfloat16,
            seed=self.scoring.seed,
            lora_rank=self.lora_rank,
        )
        return CellTuning(languages, settings, self.share, limit_dev=self.scoring.limit)


@dataclass(frozen=True)
class Prepared:
    """The rankings.

    Attributes:
        scored: The scoring run of the source.
        orders: The heads in the order of their removal, by arm.
        trainings: The languages to train on and the languages to test, by mode and target; the target of `cross` is
            empty, because one model is tested on all targets.
    """

    scored: ScoringRun
    orders: Mapping[str, tuple[str, ...]]
    trainings: Mapping[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True)
class _Series:
    """The models that lose more and more heads by one arm and are tuned alike.

    Attributes:
        mode: The mode.
        target: The target that is trained on; empty if none.
        arm: The arm; empty for the whole model.
        tests: The languages to test.
        tuning: How the models are tuned.
    """

    mode: str
    target: str
    arm: str
    tests: tuple[str, ...]
    tuning: CellTuning

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.mode, self.target, self.arm or "unpruned")))


def prepare(plan: PruneThenTunePlan, work: Work) -> Prepared:
    """Tune the whole model on the source, rank its heads on dev, and draw the random orders."""
    check_fits(plan.counts, work.setting.heads)
    scored = rank_tuned(work, plan.tuning((plan.source,)), dataclasses.replace(plan.scoring, languages=plan.source))
    [scores] = scored.scores.values()
    orders = {LOWEST: scores.ranked()}
    if plan.highest:
        orders[HIGHEST] = scores.ranked()[::-1]
    orders |= random_orders(work.setting.heads, plan.randoms, plan.scoring.seed)
    return Prepared(scored, orders, _trainings(plan, work))


def _trainings(plan: PruneThenTunePlan, work: Work) -> dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    targets = work.setting.codes(plan.scoring.languages)
    found: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {}
    if "cross" in plan.modes:
        found["cross", ""] = (plan.source,), tuple(targets)
    if "multi" in plan.modes:
        able = [code for code in targets if code != plan.source and can_train(work.setting.dataset, code)]
        if not able:
            raise HeadwiseError("modes: no target language has training examples: leave out 'multi'")
        found |= {("multi", code): ((plan.source, code), (code,)) for code in able}
    return found


def _series(plan: PruneThenTunePlan, prepared: Prepared) -> Iterator[_Series]:
    """All series of models with heads removed."""
    for (mode, target), (trained, tests) in prepared.trainings.items():
        for arm in prepared.orders:
            yield _Series(mode, target, arm, tests, plan.tuning(trained))


def _cells(plan: PruneThenTunePlan, work: Work, prepared: Prepared, series: _Series, count: int) -> list[Cell]:
    """The cells of one model, one for each language to test."""
    mask = None
    if count:
        [scores] = prepared.scored.scores.values()
        mask = _mask(scores, prepared.orders[series.arm][:count], work)
    return [
        Cell(code, plan.test_split, mask, plan.limit_test, tuning=series.tuning, series=series.name)
        for code in series.tests
    ]


def _mask(scores: HeadScores, off: Sequence[str], work: Work) -> HeadMask:
    """The mask of the pre-trained model; the scores are those of the tuned one."""
    return scores.without(off).moved_to(work.setting.heads)


def _whole(plan: PruneThenTunePlan, work: Work, prepared: Prepared, mode: str, target: str) -> list[Cell]:
    """The cells of the whole model."""
    trained, tests = prepared.trainings[mode, target]
    return _cells(plan, work, prepared, _Series(mode, target, "", tests, plan.tuning(trained)), 0)


def cells(plan: PruneThenTunePlan, work: Work, prepared: Prepared) -> list[Cell]:
    """The whole models, and every number of heads; with patience, only the first number."""
    whole = [cell for place in prepared.trainings for cell in _whole(plan, work, prepared, *place)]
    first = plan.counts[:1] if plan.patience else plan.counts
    return whole + [
        cell
        for series in _series(plan, prepared)
        for count in first
        for cell in _cells(plan, work, prepared, series, count)
    ]


def follow(plan: PruneThenTunePlan, work: Work, prepared: Prepared, measured: Mapping[Cell, Array]) -> list[Cell]:
    """The next number of heads of each series that is measured so far and has not stopped."""
    found = []
    for series in _series(plan, prepared):
        counts = _tried(plan, work, prepared, series, measured)
        if counts and counts[-1] != plan.counts[-1] and not stopped(_dev(plan, work, prepared, series, counts), plan):
            following = plan.counts[list(plan.counts).index(counts[-1]) + 1]
            found += _cells(plan, work, prepared, series, following)
    return found


def stopped(values: Sequence[float], plan: PruneThenTunePlan) -> bool:
    """Return whether the dev values of a series have not become better for `patience` counts.

    Example:
        >>> plan = PruneThenTunePlan(ScoringPlan("e5-small", "pos", "phrasebook"), patience=2)
        >>> stopped([80.0, 81.0, 80.5], plan), stopped([80.0, 81.0, 80.5, 81.0], plan)
        (False, True)
    """
    return bool(plan.patience) and len(values) - 1 - int(np.argmax(values)) >= plan.patience


def _tried(
    plan: PruneThenTunePlan, work: Work, prepared: Prepared, series: _Series, measured: Mapping[Cell, Array]
) -> list[int]:
    """The numbers of heads that are measured, up to the first at which the series stops."""
    counts: list[int] = []
    for count in plan.counts:
        if any(cell not in measured for cell in _cells(plan, work, prepared, series, count)):
            break
        counts.append(count)
        if stopped(_dev(plan, work, prepared, series, counts), plan):
            break
    return counts


def _dev(
    plan: PruneThenTunePlan, work: Work, prepared: Prepared, series: _Series, counts: Sequence[int]
) -> list[float]:
    """The dev value of each model: that of its best epoch, on the languages that it is trained on."""
    return [work.grid.tuning(_cells(plan, work, prepared, series, count)[0]).best_value for count in counts]


def finish(plan: PruneThenTunePlan, work: Work, prepared: Prepared, measured: dict[Cell, Array]) -> PruneThenTuneStudy:
    """Make the study from the measurements."""
    judge = Judge(work.grid.task.metric, plan.resamples)
    outcomes = []
    for place, (_, tests) in prepared.trainings.items():
        whole = _whole(plan, work, prepared, *place)
        chosen = [series for series in _series(plan, prepared) if (series.mode, series.target) == place]
        for number, language in enumerate(tests):
            base = measured[whole[number]]
            arms = {
                series.arm: _arm(plan, work, prepared, series, measured, (judge, number, base)) for series in chosen
            }
            dev = work.grid.tuning(whole[number]).best_value
            outcomes.append(TargetOutcome(place[0], language, judge.value(base), dev, len(base), arms))
    [source] = prepared.scored.languages.values()
    seconds = {plan.source: source.seconds}
    notes = (*prepared.scored.notes, *_notes(plan, prepared))
    about = (plan.scoring.task, plan.source, plan.scoring.method)
    return PruneThenTuneStudy(
        work.folder, judge.metric.name, *about, tuple(outcomes), prepared.scored.scores, seconds, notes
    )


def _arm(
    plan: PruneThenTunePlan,
    work: Work,
    prepared: Prepared,
    series: _Series,
    measured: Mapping[Cell, Array],
    judging: tuple[Judge, int, Array],
) -> Arm:
    """The results of one arm in one language, which is given by its number among the languages to test."""
    judge, number, base = judging
    counts = _tried(plan, work, prepared, series, measured)
    dev = _dev(plan, work, prepared, series, counts)
    found = [measured[_cells(plan, work, prepared, series, count)[number]] for count in counts]
    points = [Point(count, value, judge.value(each)) for count, value, each in zip(counts, dev, found, strict=True)]
    return Arm(tuple(points), judge.compare(base, found[int(np.argmax(dev))]))


def _notes(plan: PruneThenTunePlan, prepared: Prepared) -> Iterator[str]:
    cross = any(mode == "cross" for mode, _ in prepared.trainings)
    if cross and len(plan.modes) > 1:
        yield "The number of heads is chosen on dev data of the source (cross), or of source and target (multi)."
    if plan.share < 1:
        yield f"Models are trained on {100 * plan.share:g}% of the training examples."


def trained(plan: PruneThenTunePlan) -> str:
    """The languages that models are trained on."""
    if "multi" not in plan.modes or plan.scoring.languages == "all":
        return plan.source if "multi" not in plan.modes else "all"
    return ",".join(dict.fromkeys([plan.source, *plan.scoring.languages.split(",")]))


PRUNE_THEN_TUNE = GridKind(
    "prune-then-tune", PruneThenTunePlan, prepare, cells, finish, load_prune_then_tune, trained, follow,
    about=(
        "The lowest-ranked heads are cut out of the pre-trained model before it is tuned, 1, 2, 3 and so on, to "
        "see whether the tuned model is better without them. Controls remove the highest-ranked or random heads."
    ),
)  # fmt: skip
