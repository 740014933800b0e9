"""Rank, then tune: does a better ranking beat gradients when the model is tuned after pruning?

Ma et al. (2021) rank heads by gradients. Here several methods rank the heads of the same tuned model on the same dev
examples. The lowest-ranked heads of each ranking are cut out of the pre-trained model, which is then tuned. Beside it
stands what each ranking is worth without tuning: the metric of the tuned whole model with the same heads turned off.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwise.errors import FieldError, require_whole
from headwise.masks import HeadMask
from headwise.methods import METHODS
from headwise.report import SIGNIFICANT
from headwise.scores import HeadScores
from headwise.scoring.run_folder import SCORING
from headwise.studies.cells import Cell
from headwise.studies.claims import Claim, above, increasing
from headwise.studies.grid import Grid
from headwise.studies.plots import CurvePlot
from headwise.studies.ranked import (
    RANDOM,
    UNPRUNED,
    RankedPlan,
    Series,
    Trials,
    check_fits,
    collect,
    count_curves,
    gain,
    random_orders,
    rank_tuned,
    the_source,
    trial_table,
)
from headwise.studies.resampled import Array, Resampled, resample
from headwise.studies.tables import Figure, StudyTable, TableCell
from headwise.studies.tuned_plan import trained_of
from headwise.studies.tuned_study import TunedStudy, load_rankings, load_tuned_study
from headwise.studies.work import GridKind, Work

NAME = "rank-then-tune"
#: What makes the claims: no paper has asked this.
SOURCE = "this study"


@dataclass(frozen=True)
class RankThenTunePlan(RankedPlan):
    """The plan of a comparison of rankings before tuning.

    Attributes:
        scoring: Its method is the ranking that the others are compared with. Its options apply to that method only;
            its budget is for each ranking.
        train_languages: The source language: models are tuned on it, and heads are ranked on its dev examples.
        rankings: The methods, and `random`.
        randoms: Number of random orders.

    Example:
        >>> from headwise.scoring import ScoringPlan
        >>> plan = RankThenTunePlan(ScoringPlan("e5-small", "pos", "data", method="gradient"))
        >>> plan.others
        ('stars', 'relevance', 'l0', 'soft')
    """

    rankings: Sequence[str] = ("gradient", "stars", "relevance", "l0", "soft", RANDOM)
    randoms: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        the_source(self)
        require_whole("randoms", self.randoms)
        if unknown := [name for name in self.rankings if name not in METHODS]:
            raise FieldError("rankings", f"there is no method {unknown[0]!r}: choose from {', '.join(METHODS)}")
        if len(set(self.rankings)) < len(self.rankings):
            raise FieldError("rankings", f"names a method twice: {', '.join(self.rankings)}")
        if self.scoring.method not in self.rankings or self.scoring.method == RANDOM:
            raise FieldError("method", f"must be one of the rankings, and not random, not {self.scoring.method!r}")

    @property
    def others(self) -> tuple[str, ...]:
        """The rankings that are compared with the method of the plan."""
        return tuple(name for name in self.rankings if name not in (self.scoring.method, RANDOM))

    def orders_of(self, ranking: str) -> tuple[str, ...]:
        """The names of the orders of a ranking: one, or several for random orders."""
        return (
            tuple(f"{RANDOM} {number + 1}" for number in range(self.randoms)) if ranking == RANDOM else (ranking,)
        )  # fmt: skip


@dataclass(frozen=True)
class Prepared:
    """The rankings.

    Attributes:
        orders: The heads in the order of their removal, by the name of the order.
        notes: Which rankings tell nothing.
    """

    orders: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...]


def prepare(plan: RankThenTunePlan, work: Work) -> Prepared:
    """Tune the whole model on the source, and rank its heads by all methods."""
    check_fits(plan.counts, work.setting.heads)
    orders: dict[str, tuple[str, ...]] = {}
    notes: list[str] = []
    for ranking in plan.rankings:
        if ranking == RANDOM:
            orders |= random_orders(work.setting.heads, plan.randoms, plan.scoring.seed)
            continue
        scores = _rank(plan, work, ranking)
        orders[ranking] = scores.ranked()
        if len(set(scores.value)) == 1:
            notes.append(f"All values of {ranking} are equal, so it removes heads in the order of the model.")
    return Prepared(orders, tuple(notes))


def _rank(plan: RankThenTunePlan, work: Work, ranking: str) -> HeadScores:
    own = ranking == plan.scoring.method
    options = plan.scoring.options if own else {}
    asked = dataclasses.replace(plan.scoring, languages=the_source(plan), method=ranking, options=options)
    name = SCORING if own else f"{SCORING}-{ranking}"
    [scores] = rank_tuned(work, plan.tuning(0), asked, name, f"ranking heads by {ranking}").scores.values()
    return scores


def _series(plan: RankThenTunePlan, work: Work, prepared: Prepared) -> list[Series]:
    tests, found = plan.languages(work), []
    for draw in range(plan.draws):
        tuning = plan.tuning(draw)
        found.append(Series(UNPRUNED, tests, tuning, draw))
        found += [Series(name, tests, tuning, draw, name, heads) for name, heads in prepared.orders.items()]
    return found


def cells(plan: RankThenTunePlan, work: Work, prepared: Prepared) -> list[Cell]:
    """Every ranking, number of heads, draw and language."""
    return [cell for series in _series(plan, work, prepared) for cell in series.cells(plan, work)]


def finish(plan: RankThenTunePlan, work: Work, prepared: Prepared, measured: Mapping[Cell, Array]) -> TunedStudy:
    """Compare the rankings, with tuning and without."""
    trials, metric = collect(plan, work, _series(plan, work, prepared), measured), work.grid.task.metric
    ids, seed = plan.test_ids(work), plan.scoring.seed
    every = {(trial.language, _point(trial.order, trial.count), trial.draw): trial.statistics for trial in trials.every}
    tuned = resample(every, ids, metric, plan.resamples, seed)
    masked = resample(_masked(plan, work, prepared), ids, metric, plan.resamples, seed)
    text = f"{metric.name[:1].upper()}{metric.name[1:]} (%) on test data by heads removed before tuning."
    lines = {ranking: plan.orders_of(ranking) for ranking in plan.rankings}
    return TunedStudy(
        work.folder,
        NAME,
        metric.name,
        (_table(plan, trials, tuned, masked), trial_table(trials, metric.name)),
        claims(plan, trials.found, tuned, masked),
        (CurvePlot("Ranked, then tuned", text, count_curves(trials, lines), "heads removed"),),
        notes=prepared.notes,
        paper=SOURCE,
        scores=load_rankings(work.folder),
    )


def _point(order: str, count: int) -> str:
    """The name of a condition: an order and a number of heads."""
    return f"{order} {count}" if count else UNPRUNED


def _points(plan: RankThenTunePlan, ranking: str) -> list[str]:
    """All numbers of heads of all orders of a ranking."""
    return [_point(order, count) for order in plan.orders_of(ranking) for count in plan.counts]


def _masked(plan: RankThenTunePlan, work: Work, prepared: Prepared) -> dict[tuple[str, str, int], Array]:
    """The tuned whole model with the same heads turned off, not tuned again."""
    setting = work.grid.tuned_setting(plan.tuning(0))
    masks: dict[str, HeadMask | None] = {UNPRUNED: None}
    for order, heads in prepared.orders.items():
        masks |= {_point(order, count): HeadMask.without(setting.heads, heads[:count]) for count in plan.counts}
    wanted = {
        (language, name, 0): Cell(language, plan.test_split, mask, plan.limit_test)
        for language in plan.languages(work)
        for name, mask in masks.items()
    }
    found = Grid(setting, work.journal).measure(wanted.values(), work.saying("masks without tuning"))
    return {key: found[cell] for key, cell in wanted.items()}


def _table(plan: RankThenTunePlan, trials: Trials, tuned: Resampled, masked: Resampled) -> StudyTable:
    found, main = trials.found, plan.scoring.method
    whole = float(found.mean[:, found.place(UNPRUNED)].mean())
    same = float(masked.mean[:, masked.place(UNPRUNED)].mean())
    rows: list[tuple[TableCell, ...]] = [(UNPRUNED, 0, whole, None, whole, None, same)]
    for ranking in plan.rankings:
        orders = plan.orders_of(ranking)
        pairs = [(language, order) for language in found.languages for order in orders]
        off = float(np.mean([trials.removed(*pair, "dev") for pair in pairs]))
        on_test = float(np.mean([trials.value(*pair, "test") for pair in pairs]))
        best = _level(found, orders, main, ranking)
        over = _level(tuned, _points(plan, ranking), main, ranking, _points(plan, main))
        without = _level(masked, _points(plan, ranking), main, ranking, _points(plan, main))
        rows.append((ranking, off, best, on_test, over, over.value - whole, without))
    columns = ("ranking", "off", "best on dev", "best on test", "mean over counts", "gain", "mean without tuning")
    note = (
        f"Means over {len(found.languages)} languages ({', '.join(found.languages)}) and draws. off: heads removed "
        "from the best model on dev. best on test is chosen on the data that it is measured on. mean over counts: over "
        f"all numbers of heads ({', '.join(map(str, plan.counts))}); gain: that minus unpruned. "
        "mean without tuning: the tuned whole model with the same heads turned off. "
        f"+ and - mark differences from {main} (P < {SIGNIFICANT}, paired bootstrap)."
    )
    title = f"heads ranked by several methods on {the_source(plan)}, removed, then tuned"
    return StudyTable(NAME, title, columns, tuple(rows), note)


def _level(
    found: Resampled, conditions: Sequence[str], main: str, ranking: str, bases: Sequence[str] | None = None
) -> Figure:
    """The mean of conditions, with the test of their difference from the main ranking."""
    places = [found.place(name) for name in conditions]
    value = float(found.mean[:, places].mean())
    if ranking == main:
        return Figure(value)
    test = found.compare(gain(found, conditions, bases or [main]))
    return Figure(value, test.difference, test.p_value)


def claims(plan: RankThenTunePlan, found: Resampled, tuned: Resampled, masked: Resampled) -> tuple[Claim, ...]:
    """Whether rankings are better than the plan's method: with the best number of heads on dev, and over all numbers.

    Args:
        plan: The plan.
        found: The metric of the best models on dev.
        tuned: The metric of all models.
        masked: The metric of the tuned whole model under the same masks.
    """
    main, result = plan.scoring.method, []
    for other in plan.others:
        text = f"Tuned afterwards, heads ranked by {other} are better to remove than those ranked by {main}"
        result.append(above(f"{text}: best number of heads on dev.", found, gain(found, [other], [main])))
        contrast = gain(tuned, _points(plan, other), _points(plan, main))
        result.append(above(f"{text}: mean over the numbers of heads.", tuned, contrast))
    if RANDOM in plan.rankings:
        text = f"Tuned afterwards, heads ranked by {main} are better to remove than random ones."
        contrast = gain(tuned, _points(plan, main), _points(plan, RANDOM))
        result.append(above(text, tuned, contrast, paper="Ma et al. (2021), table 5: yes"))
    orders = [order for ranking in plan.rankings for order in plan.orders_of(ranking)]
    after, before = (
        {order: float(gain(each, [_point(order, count) for count in plan.counts])(each.mean)) for order in orders}
        for each in (tuned, masked)
    )
    text = "Rankings that lose less without tuning also lose less with tuning."
    result.append(increasing(text, after, before, plan.resamples, over="orders of heads"))
    return tuple(result)


def load(folder: Path) -> TunedStudy:
    """The finished study of a folder."""
    return load_tuned_study(folder, NAME)


RANK_THEN_TUNE = GridKind(NAME, RankThenTunePlan, prepare, cells, finish, load, trained_of)
