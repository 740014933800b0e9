"""Several source languages (table 6 of Ma et al., 2021): heads are removed by a ranking of all sources, then tuned.

Each target language is left out in turn: models are tuned on the other training languages. Heads are ranked in three
ways:

- `MD`: by the pooled dev examples of all sources, with the whole model tuned on all sources.
- `SD`: by the sum of the matrices of the sources, each from a model tuned on that source alone.
- `EC`: by the matrix of each source in turn; the best one is kept.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.errors import FieldError
from headwise.scores import HeadScores
from headwise.scores.sources import sum_sources
from headwise.scoring.run_folder import SCORING
from headwise.scoring.sources import rank_sources
from headwise.studies.cells import Cell, CellTuning
from headwise.studies.claims import Claim, above, within
from headwise.studies.papers import MA_PAPER, ma_sources
from headwise.studies.plots import CurvePlot
from headwise.studies.ranked import (
    CHOSEN,
    MA_SHORT,
    UNPRUNED,
    RankedPlan,
    Series,
    Trials,
    check_complete,
    check_fits,
    collect,
    count_curves,
    gain,
    rank_tuned,
    trial_table,
)
from headwise.studies.resampled import Array, Resampled
from headwise.studies.tables import Figure, StudyTable, TableCell
from headwise.studies.tuned_plan import trained_of
from headwise.studies.tuned_study import TunedStudy, load_rankings, load_tuned_study
from headwise.studies.work import GridKind, Work

NAME = "multi-source"
MD, SD, EC = "MD", "SD", "EC"
RANKINGS = (MD, SD, EC)
#: Metrics that differ by at most this many points are called the same.
MARGIN = 1.0
#: The orders of heads of each target language, by ranking and by the name of the order.
Orders = Mapping[str, Mapping[tuple[str, str], tuple[str, ...]]]


@dataclass(frozen=True)
class MultiSourcePlan(RankedPlan):
    """The plan of a study with several source languages.

    Attributes:
        train_languages: Codes of the training languages. A target that is one of them is left out of its own sources.

    Example:
        >>> from headwise.scoring import ScoringPlan
        >>> plan = MultiSourcePlan(ScoringPlan("e5-small", "ner", "data"), train_languages="en,de,ar")
        >>> plan.sources("de"), plan.sources("zh")
        (('en', 'ar'), ('en', 'de', 'ar'))
    """

    train_languages: str = "en,de,ar,he,zh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.trained) < 3:
            raise FieldError("train_languages", f"at least 3, since one is left out, not {self.train_languages}")

    def sources(self, target: str) -> tuple[str, ...]:
        """The languages that models are tuned on before they are tested on a target."""
        return tuple(code for code in self.trained if code != target)

    def source_tuning(self, target: str, draw: int) -> CellTuning:
        """How models are tuned on the sources of a target."""
        return dataclasses.replace(self.tuning(draw), languages=self.sources(target))


def prepare(plan: MultiSourcePlan, work: Work) -> Orders:
    """Rank the heads for every target by all rankings."""
    check_fits(plan.counts, work.setting.heads)
    matrices: dict[str, HeadScores] = {}
    for code in plan.trained:
        alone = dataclasses.replace(plan.tuning(0), languages=(code,))
        asked = dataclasses.replace(plan.scoring, languages=code)
        [matrices[code]] = rank_tuned(
            work, alone, asked, f"{SCORING}-{code}", f"ranking heads by {code}"
        ).scores.values()  # fmt: skip
    return {target: _orders(plan, work, target, matrices) for target in plan.languages(work)}


def _orders(
    plan: MultiSourcePlan, work: Work, target: str, matrices: Mapping[str, HeadScores]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """The orders of heads for one target."""
    sources, words = plan.sources(target), f"tuning on {'+'.join(plan.sources(target))} to rank heads"
    tuned = work.grid.tuned_setting(plan.source_tuning(target, 0), work.saying(words))
    asked = dataclasses.replace(plan.scoring, languages=",".join(sources))
    [pooled] = rank_sources(asked, "MD", tuned, work.journal).values()
    check_complete(pooled)
    found = {(MD, MD): pooled.ranked(), (SD, SD): sum_sources({code: matrices[code] for code in sources}).ranked()}
    return {**found, **{(EC, code): matrices[code].ranked() for code in sources}}


def _series(plan: MultiSourcePlan, orders: Orders) -> list[Series]:
    found = []
    for target, rankings in orders.items():
        for draw in range(plan.draws):
            tuning = plan.source_tuning(target, draw)
            found.append(Series(UNPRUNED, (target,), tuning, draw))
            found += [
                Series(ranking, (target,), tuning, draw, order, heads) for (ranking, order), heads in rankings.items()
            ]
    return found


def cells(plan: MultiSourcePlan, work: Work, orders: Orders) -> list[Cell]:
    """Every target, ranking, number of heads and draw."""
    return [cell for series in _series(plan, orders) for cell in series.cells(plan, work)]


def finish(plan: MultiSourcePlan, work: Work, orders: Orders, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Compare the measurements with the paper."""
    trials, metric = collect(plan, work, _series(plan, orders), measured), work.grid.task.metric.name
    lines = {MD: [MD], SD: [SD], **{f"{EC} {code}": [code] for code in plan.trained}}
    text = (
        f"{metric[:1].upper()}{metric[1:]} (%) on test data by heads removed before tuning, for each target left out."
    )
    return TunedStudy(
        work.folder,
        NAME,
        metric,
        (_table(plan, trials, metric), trial_table(trials, metric)),
        claims(trials.found, plan.scoring.task),
        (CurvePlot("Several sources", text, count_curves(trials, lines), "heads removed"),),
        paper=MA_SHORT,
        scores=load_rankings(work.folder),
    )


def _table(plan: MultiSourcePlan, trials: Trials, metric: str) -> StudyTable:
    """The layout of table 6 of the paper: rankings below each other, targets side by side."""
    targets, paper = trials.found.languages, ma_sources(plan.scoring.task)
    rows: list[tuple[TableCell, ...]] = []

    def add(choice: str, ranking: str, values: list[TableCell], base: list[float | None]) -> None:
        numbers = [value.value if isinstance(value, Figure) else value for value in values]
        gains = [a - b for a, b in zip(numbers, base, strict=True) if isinstance(a, float) and b is not None]
        mean = None if ranking == UNPRUNED or not gains else Figure(float(np.mean(gains)), signed=True)
        rows.append((choice, ranking, *values, mean))

    whole: list[float | None] = [trials.value(target, UNPRUNED, "dev") for target in targets]
    add("", UNPRUNED, [*whole], whole)
    for ranking in RANKINGS:
        add("best on dev", ranking, [trials.figure(target, ranking) for target in targets], whole)
    for ranking in RANKINGS:
        best: list[TableCell] = [trials.value(target, ranking, "test") for target in targets]
        add("best on test (paper's rule)", ranking, best, whole)
    if stated := [target for target in targets if target in paper]:
        given = {name: [paper.get(target, {}).get(name) for target in targets] for name in (UNPRUNED, *RANKINGS)}
        for name, values in given.items():
            add("paper, mBERT", name, [*values], given[UNPRUNED])
    extra = trials.chosen_on_test(RANKINGS)
    note = (
        f"Columns are targets; models are tuned on the other languages of {', '.join(plan.trained)}. {CHOSEN} "
        f"Choosing on test data adds {extra:.2f} points on average."
    )
    cited = f" Paper: {MA_PAPER}, table 6, F1, with the sources en, de, ar, he, zh." if stated else ""
    title = f"{metric} on test data, heads ranked by {plan.scoring.method} on several sources"
    return StudyTable(NAME, title, ("choice", "ranking", *targets, "mean gain"), tuple(rows), note + cited)


def claims(found: Resampled, task: str) -> tuple[Claim, ...]:
    """The claims of the paper about several sources, with what its table has for the task."""
    table, result = ma_sources(task).values(), []

    def stated(holds: Callable[[Mapping[str, float]], bool]) -> str:
        return f"for {sum(map(holds, table))} of {len(table)} targets (table 6)" if table else ""

    for ranking in RANKINGS:
        text = f"Removing heads by {ranking} before tuning on several sources helps."
        paper = stated(lambda row, name=ranking: row[name] > row[UNPRUNED])  # type: ignore[misc]
        result.append(above(text, found, gain(found, [ranking]), paper=paper))
    text = f"{EC} helps more than {MD} and {SD}."
    paper = stated(lambda row: row[EC] > max(row[MD], row[SD]))
    result.append(above(text, found, gain(found, [EC], [MD, SD]), paper=paper))
    text = f"{MD} and {SD} are equally good."
    result.append(within(text, found, gain(found, [MD], [SD]), MARGIN, "comparable in most cases"))
    return tuple(result)


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


MULTI_SOURCE = GridKind(
    NAME, MultiSourcePlan, prepare, cells, finish, load, trained_of,
    about=(
        "Each target language is left out in turn: heads are ranked on all other training languages, the "
        "lowest-ranked are removed, and the model is tuned on these languages."
    ),
)  # fmt: skip
