"""Few training examples of the target (figures 2 and 3 of Ma et al., 2021): models with and without pruning.

Models are tuned on the source language and on a share of the training examples of a target language. The examples of a
smaller share are part of those of a larger one; each draw has its own. Heads are ranked on the source alone.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.errors import FieldError, HeadwiseError
from headwise.report import Curve
from headwise.studies.cells import Cell, CellTuning
from headwise.studies.claims import Claim, above
from headwise.studies.papers import MA_PAPER
from headwise.studies.plots import CurvePlot
from headwise.studies.ranked import (
    CHOSEN,
    MA_SHORT,
    UNPRUNED,
    RankedPlan,
    Series,
    Trials,
    check_fits,
    collect,
    gain,
    rank_tuned,
    the_source,
    trial_table,
)
from headwise.studies.resampled import Array, Resampled
from headwise.studies.tables import Figure, StudyTable, TableCell
from headwise.studies.tuned_study import TunedStudy, load_rankings, load_tuned_study
from headwise.studies.work import GridKind, Work
from headwise.tuning.untuned import can_train

NAME = "low-resource"
PRUNED = "pruned"
#: A model that is worse by at most this many points is called comparable.
MARGIN = 0.5


@dataclass(frozen=True)
class LowResourcePlan(RankedPlan):
    """The plan of a study of few training examples.

    Attributes:
        train_languages: The source language. The languages of `scoring` are the targets.
        train_share: Share of the training examples of the source.
        shares: Shares of the training examples of the target, in ascending order.

    Example:
        >>> from headwise.scoring import ScoringPlan
        >>> LowResourcePlan(ScoringPlan("e5-small", "ner", "data"), shares=[0.1, 0.5]).percents
        (10, 50)
    """

    shares: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

    def __post_init__(self) -> None:
        super().__post_init__()
        the_source(self)
        whole = all(abs(100 * share - round(100 * share)) < 1e-6 and 0 < share <= 1 for share in self.shares)
        if not self.shares or not whole or list(self.shares) != sorted(set(self.shares)):
            raise FieldError("shares", f"ascending whole percents, above 0 and at most 1, not {list(self.shares)}")

    @property
    def percents(self) -> tuple[int, ...]:
        """The shares in percent."""
        return tuple(round(100 * share) for share in self.shares)

    def target_tuning(self, target: str, percent: int, draw: int) -> CellTuning:
        """How models are tuned on the source and a share of a target."""
        source = the_source(self)
        own = ((source, self.train_share),)
        return CellTuning((source, target), self.settings(draw), percent / 100, own, self.scoring.limit)


@dataclass(frozen=True)
class Prepared:
    """The ranking.

    Attributes:
        heads: The heads, lowest-ranked first.
        targets: The targets that have training examples.
        notes: Which languages have none.
    """

    heads: tuple[str, ...]
    targets: tuple[str, ...]
    notes: tuple[str, ...]


def prepare(plan: LowResourcePlan, work: Work) -> Prepared:
    """Tune the whole model on the source, and rank its heads on dev."""
    check_fits(plan.counts, work.setting.heads)
    source, targets = the_source(plan), plan.languages(work)
    able = tuple(code for code in targets if code != source and can_train(work.setting.dataset, code))
    if not able:
        raise HeadwiseError(
            "languages: no target has training examples: choose languages with the splits train and dev"
        )
    missing = [code for code in targets if code not in (*able, source)]
    notes = (f"Languages without training examples are left out: {', '.join(missing)}.",) if missing else ()
    scored = rank_tuned(work, plan.tuning(0), dataclasses.replace(plan.scoring, languages=source))
    [scores] = scored.scores.values()
    return Prepared(scores.ranked(), able, (*scored.notes, *notes))


def condition_of(percent: int, state: str) -> str:
    """The name of a condition.

    Example:
        >>> condition_of(10, PRUNED)
        '10% pruned'
    """
    return f"{percent}% {state}"


def _series(plan: LowResourcePlan, prepared: Prepared) -> list[Series]:
    found = []
    for target in prepared.targets:
        for percent in plan.percents:
            for draw in range(plan.draws):
                tuning = plan.target_tuning(target, percent, draw)
                whole, pruned = (condition_of(percent, state) for state in (UNPRUNED, PRUNED))
                found.append(Series(whole, (target,), tuning, draw))
                found.append(Series(pruned, (target,), tuning, draw, plan.scoring.method, prepared.heads))
    return found


def cells(plan: LowResourcePlan, work: Work, prepared: Prepared) -> list[Cell]:
    """Every target, share, number of heads and draw."""
    return [cell for series in _series(plan, prepared) for cell in series.cells(plan, work)]


def finish(plan: LowResourcePlan, work: Work, prepared: Prepared, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Compare the measurements with the paper."""
    trials, metric = collect(plan, work, _series(plan, prepared), measured), work.grid.task.metric.name
    text = (
        f"{metric[:1].upper()}{metric[1:]} (%) on test data by share of the training examples of the target, with the "
        "number of heads chosen on dev; with 95% intervals."
    )
    return TunedStudy(
        work.folder,
        NAME,
        metric,
        (_table(plan, trials, metric), trial_table(trials, metric)),
        claims(plan, trials.found),
        (CurvePlot("Few training examples", text, _curves(plan, trials.found), "% of the training examples"),),
        notes=prepared.notes,
        paper=MA_SHORT,
        scores=load_rankings(work.folder),
    )


def _table(plan: LowResourcePlan, trials: Trials, metric: str) -> StudyTable:
    rows: list[tuple[TableCell, ...]] = []
    for target in trials.found.languages:
        for percent in plan.percents:
            whole, pruned = (condition_of(percent, state) for state in (UNPRUNED, PRUNED))
            chosen = [part for by in ("dev", "test") for part in _chosen(trials, target, pruned, whole, by)]
            rows.append((target, f"{percent}%", trials.value(target, whole, "dev"), *chosen))
    for percent in plan.percents:
        whole, pruned = (condition_of(percent, state) for state in (UNPRUNED, PRUNED))
        test = trials.found.compare(gain(trials.found, [pruned], [whole]))
        mean = Figure(test.difference, test.difference, test.p_value, signed=True)
        rows.append(("mean gain", f"{percent}%", None, None, mean, None, None))
    columns = ("target", "data", "unpruned", "off", "best on dev", "off on test", "best on test (paper's rule)")
    extra = trials.chosen_on_test([condition_of(percent, PRUNED) for percent in plan.percents])
    source = the_source(plan)
    note = (
        f"data: share of the training examples of the target, besides those of {source}. off: heads removed. {CHOSEN} "
        f"Choosing on test data adds {extra:.2f} points on average. Dev data are whole, of {source} and the target. "
        f"Paper: {MA_PAPER}, figures 2 and 3, which give no numbers."
    )
    title = f"{metric} on test data with few training examples, heads ranked by {plan.scoring.method} on {source}"
    return StudyTable(NAME, title, columns, tuple(rows), note)


def _chosen(trials: Trials, target: str, pruned: str, whole: str, by: str) -> tuple[TableCell, TableCell]:
    if by == "dev":
        return trials.removed(target, pruned, "dev"), trials.figure(target, pruned, whole)
    return trials.removed(target, pruned, "test"), trials.value(target, pruned, "test")


def _curves(plan: LowResourcePlan, found: Resampled) -> tuple[Curve, ...]:
    low, high = np.quantile(found.drawn, [0.025, 0.975], axis=0)  # (languages, conditions) each
    return tuple(
        Curve(target, state, plan.percents, *(tuple(each[row, places].tolist()) for each in (found.mean, low, high)))
        for row, target in enumerate(found.languages)
        for state in (UNPRUNED, PRUNED)
        for places in [[found.place(condition_of(percent, state)) for percent in plan.percents]]
    )


def claims(plan: LowResourcePlan, found: Resampled) -> tuple[Claim, ...]:
    """The claims of the paper about few training examples."""
    first, last = plan.percents[0], plan.percents[-1]

    def conditions(state: str, percents: Sequence[int]) -> list[str]:
        return [condition_of(percent, state) for percent in percents]

    def of(*percents: int) -> tuple[list[str], list[str]]:
        return conditions(PRUNED, percents), conditions(UNPRUNED, percents)

    text = f"With {first} to {last}% of the target's training examples, removing the lowest-ranked heads helps."
    paper = "the pruned model generally outperforms the full one"
    result = [above(text, found, gain(found, *of(*plan.percents)), paper=paper)]
    if len(plan.percents) > 1:
        small, large = gain(found, *of(first)), gain(found, *of(last))
        text = f"Removing heads helps more with {first}% than with {last}% of the target's training examples."
        paper = "models are easier to train with less data; no number"
        result.append(above(text, found, lambda values: small(values) - large(values), paper=paper))
    if fewer := [percent for percent in plan.percents if percent <= last - 20]:
        text = (
            f"With {fewer[-1]}% of the target's training examples, the pruned model is at most {MARGIN:g} points worse "
            f"than the whole model with {last}%."
        )
        contrast = gain(found, conditions(PRUNED, fewer[-1:]), conditions(UNPRUNED, [last]))
        paper = "en-ja NER: comparable with 20% less data"
        result.append(above(text, found, contrast, -MARGIN, paper))
    return tuple(result)


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


def trained(plan: LowResourcePlan) -> str:
    """The languages that models are trained on."""
    if plan.scoring.languages == "all":
        return "all"
    return ",".join(dict.fromkeys([the_source(plan), *plan.scoring.languages.split(",")]))


LOW_RESOURCE = GridKind(
    NAME, LowResourcePlan, prepare, cells, finish, load, trained,
    about=(
        "Models with and without their lowest-ranked heads are tuned on the source language and on a growing "
        "share of the training examples of a target language."
    ),
)  # fmt: skip
