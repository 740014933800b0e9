"""Two models side by side: how much each loses when random shares of its heads are removed and the rest is tuned.

Figure 1 of Budhraja et al. (2021), which compares BERT and mBERT on English tasks: any two checkpoints can be compared.
Both are pruned, tuned and measured in the same way, and resampled on the same examples.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.errors import FieldError
from headwise.report import Curve
from headwise.report.names import short_name
from headwise.studies.cells import Cell
from headwise.studies.claims import Claim, above, within
from headwise.studies.plots import CurvePlot
from headwise.studies.random_share import PAPER_DROPS, check_shares, share_cells, to_percents
from headwise.studies.resampled import Array, Resampled, relative_drops, resample
from headwise.studies.tables import StudyTable, TableCell
from headwise.studies.tuned_plan import GroupedPlan, Key, by_key, trained_of
from headwise.studies.tuned_study import CITATION, TunedStudy, load_tuned_study
from headwise.studies.work import GridKind, Work
from headwise.tuning.untuned import load_untuned

NAME = "compare-models"
#: Drops that differ by at most this many percent are called the same.
MARGIN = 1.0


@dataclass(frozen=True)
class ComparePlan(GroupedPlan):
    """The plan of a comparison of two models.

    Attributes:
        other: The other model: a name on the hub, a folder, or a default model.
        shares: Shares of the heads to remove, in increasing order and below 1; whole models are always measured.
    """

    other: str = ""
    shares: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    draws: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares)
        if not self.other or self.other == self.scoring.model:
            raise FieldError("other", "the name or folder of a second model is needed")

    @property
    def percents(self) -> tuple[int, ...]:
        """The shares in percent, with 0 for the whole model."""
        return to_percents(self.shares)


def prepare(plan: ComparePlan, work: Work) -> Work:
    """The other model with the same data; its measurements are in the same journal."""
    setting, classifier = load_untuned(
        dataclasses.replace(plan.scoring, model=plan.other), plan.train_languages, plan.mean_pooling
    )
    return Work(work.folder, setting, work.journal, work.progress, classifier)


def _cells(plan: ComparePlan, work: Work) -> dict[Key, Cell]:
    return share_cells(plan, work, plan.percents, range(plan.draws))


def cells(plan: ComparePlan, work: Work, _other: Work) -> list[Cell]:
    """The cells of the first model; those of the other model are measured at the end, by a grid of its own."""
    return list(_cells(plan, work).values())


def finish(plan: ComparePlan, work: Work, other: Work, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Measure the other model, and compare both with the paper."""
    theirs = _cells(plan, other)
    also = other.grid.measure(theirs.values(), other.counting_on(len(measured)))
    metric, ids = work.grid.task.metric, plan.test_ids(work)
    pair = tuple(
        resample(each, ids, metric, plan.resamples, plan.scoring.seed)
        for each in (by_key(_cells(plan, work), measured), by_key(theirs, also))
    )
    names = (plan.scoring.model, plan.other)
    if len(set(map(short_name, names))) > 1:
        names = (short_name(names[0]), short_name(names[1]))
    text = f"Loss of {metric.name} relative to the whole model (%), mean over languages, with 95% intervals."
    curves = tuple(_curve(plan, name, found) for name, found in zip(names, pair, strict=True))
    return TunedStudy(
        work.folder,
        NAME,
        metric.name,
        (_table(plan, names, pair, metric.name),),
        claims(plan, names, *pair),
        (CurvePlot("Relative drop of both models", text, curves),),
    )


def _table(plan: ComparePlan, names: Sequence[str], pair: Sequence[Resampled], metric: str) -> StudyTable:
    rows: list[tuple[TableCell, ...]] = []
    for place, percent in enumerate(plan.percents):
        values = [float(found.mean[:, place].mean()) for found in pair]
        drops = [float(relative_drops(found.mean)[:, place].mean()) for found in pair]
        rows.append((f"{percent}%", *values, *drops, PAPER_DROPS.get(percent, ("",))[0]))
    columns = ("removed", *names, *(f"drop of {name}" for name in names), "paper: drop of mBERT")
    note = (
        f"{metric} in percent, mean over languages ({', '.join(pair[0].languages)}) and draws; drops relative to the "
        f"whole model. {CITATION} Figure 1: mBERT drops like BERT on four English tasks; its text states these numbers."
    )
    return StudyTable(NAME, f"{metric} of both models by share of heads removed", columns, tuple(rows), note)


def _curve(plan: ComparePlan, name: str, found: Resampled) -> Curve:
    low, high = np.quantile(relative_drops(found.drawn).mean(-2), [0.025, 0.975], axis=0)
    value = relative_drops(found.mean).mean(-2)
    points = (tuple(np.nan_to_num(each).tolist()) for each in (value, low, high))
    return Curve("all languages", name, plan.percents, *points)


def claims(plan: ComparePlan, names: Sequence[str], one: Resampled, two: Resampled) -> tuple[Claim, ...]:
    """Whether both models are equally robust, at the share closest to one half and on average over shares."""
    # Both models as conditions of one table: resamples of both use the same examples.
    both = Resampled(
        one.languages,
        (*one.conditions, *(f"other {name}" for name in two.conditions)),
        np.concatenate([one.values, two.values], axis=1),
        np.concatenate([one.drawn, two.drawn], axis=-1),
    )
    place = min(range(1, len(plan.percents)), key=lambda each: abs(plan.percents[each] - 50))

    def gaps(values: Array) -> Array:
        """How much more the second model loses at each share, mean over languages; (..., shares)."""
        first, second = (relative_drops(part).mean(-2) for part in np.split(values, 2, axis=-1))
        return np.asarray(second - first)

    half, paper = f"{plan.percents[place]}%", "mBERT and BERT drop alike, by about 2% at 50%"
    return (
        within(f"Without {half} of the heads, {names[0]} and {names[1]} lose the same share (within {MARGIN:g} point).",
               both, lambda values: gaps(values)[..., place], MARGIN, paper),
        within(f"On average over all shares, both lose the same share (within {MARGIN:g} point).",
               both, lambda values: gaps(values)[..., 1:].mean(-1), MARGIN, paper),
        above(f"{names[1]} loses a larger share than {names[0]}, on average over all shares.",
              both, lambda values: gaps(values)[..., 1:].mean(-1), paper="no"),
    )  # fmt: skip


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


COMPARE_MODELS = GridKind(
    NAME, ComparePlan, prepare, cells, finish, load, trained_of,
    about=(
        "Two models lose the same random shares of their heads and are tuned in the same way: which of them "
        "loses more?"
    ),
)  # fmt: skip
