"""Studies that remove the lowest-ranked heads before tuning and choose their number on dev: what they have in common.

A *condition* is what a study compares, such as a ranking. A condition is tried with several numbers of heads, and
sometimes with several orders of the heads. The model with the best dev value is the result of a condition; the model
with the best value on test data, which Ma et al. (2021) report, is shown beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headwise.draws import Draws
from headwise.errors import FieldError
from headwise.heads import HeadMap
from headwise.masks import HeadMask
from headwise.report import SIGNIFICANT, Curve
from headwise.scores import HeadScores
from headwise.scoring import ScoringPlan, ScoringRun
from headwise.scoring.run_folder import SCORING
from headwise.studies.cells import Cell, CellTuning
from headwise.studies.judge import check_split
from headwise.studies.resampled import Array, Resampled, resample
from headwise.studies.tables import Figure, StudyTable
from headwise.studies.tuned_plan import Key, TunedPlan
from headwise.studies.work import Work
from headwise.tuning import TuningResult

#: The condition of the whole model.
UNPRUNED = "unpruned"
#: Random orders of heads.
RANDOM = "random"
#: The paper of the studies with these plans.
MA_SHORT = "Ma et al. (2021)"
#: How the best model is chosen.
By = Literal["dev", "test"]
CHOSEN = (
    "best on dev is the result; best on test is chosen on the data that it is measured on, as in the paper. "
    f"+ and - mark a difference from unpruned (P < {SIGNIFICANT}, paired bootstrap)."
)


@dataclass(frozen=True)
class RankedPlan(TunedPlan):
    """The common fields of these plans.

    Attributes:
        counts: The numbers of heads to remove, in ascending order; the whole model is always measured.
    """

    counts: Sequence[int] = tuple(range(1, 13))
    learning_rate: float = 5e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split(self.scoring, self.test_split)
        check_counts(self.counts)
        check_cut(self.scoring)


def check_counts(counts: Sequence[int]) -> None:
    """Raise an error if numbers of heads are not ascending."""
    if not counts or list(counts) != sorted(set(counts)) or counts[0] < 1:
        raise FieldError("counts", f"must be ascending numbers of at least 1, not {counts!r}")


def check_cut(scoring: ScoringPlan) -> None:
    """Raise an error if the players of a scoring plan cannot be cut out of a model."""
    if scoring.players != "heads":
        raise FieldError("players", f"only heads are cut out of a model, not {scoring.players}")
    if scoring.baseline != "zero":
        raise FieldError("baseline", "must be 'zero': heads are cut out before the model is tuned")


def check_fits(counts: Sequence[int], heads: HeadMap) -> None:
    """Raise an error if a model has too few heads."""
    if counts[-1] >= len(heads.players()):
        raise FieldError("counts", f"the model has only {len(heads.players())} heads")


def the_source(plan: TunedPlan) -> str:
    """The only training language of a plan.

    Raises:
        HeadwiseError: It has several.
    """
    if len(plan.trained) > 1:
        raise FieldError("train_languages", f"must be one language, the source, not {plan.train_languages}")
    return plan.trained[0]


def rank_tuned(
    work: Work, tuning: CellTuning, scoring: ScoringPlan, name: str = SCORING, status: str = "ranking heads"
) -> ScoringRun:
    """Tune the whole model, and rank its heads on dev data.

    Args:
        work: The state of the study.
        tuning: How the model is tuned.
        scoring: The method, and the languages whose dev data are used.
        name: Name of the subfolder for the scoring run.
        status: Prefix of the progress status.

    Raises:
        HeadwiseError: The tuned model has learned nothing, or some heads have no value.
    """
    words = f"tuning on {'+'.join(tuning.languages)} to rank heads"
    tuned = work.grid.tuned_setting(tuning, work.saying(words))
    check_learned(work.grid.tuning(Cell("", "", tuning=tuning)))
    found = work.score(scoring, name, status, setting=tuned)
    for scores in found.scores.values():
        check_complete(scores)
    return found


def check_learned(result: TuningResult) -> None:
    """Raise an error if a tuned model is never right on dev: neither would the pruned ones be."""
    if result.best_value <= 0:
        raise FieldError(
            "learning_rate", f"the tuned model has 0 {result.metric} on dev: change it, or raise epochs or the share"
        )


def check_complete(scores: HeadScores) -> None:
    """Raise an error if some heads have no value, since they cannot be ranked."""
    if len(scores.ranked()) < len(scores.players):
        raise FieldError("budget", f"some heads have no value by {scores.provenance.method} yet: raise it")


def random_orders(heads: HeadMap, count: int, seed: int) -> dict[str, tuple[str, ...]]:
    """Random orders of the heads, named `random 1`, `random 2` and so on."""
    players = heads.players()
    drawn = Draws(seed, "random heads").uniform(0, count, len(players)) if count else ()  # (orders, heads)
    return {
        f"{RANDOM} {number}": tuple(players[place] for place in np.argsort(each))
        for number, each in enumerate(drawn, 1)
    }


@dataclass(frozen=True)
class Series:
    """Models that lose more and more heads in one order and are tuned alike.

    Attributes:
        condition: The condition that the models belong to.
        tests: The languages to test.
        tuning: How the models are tuned.
        draw: Number of the draw.
        order: Name of the order; empty for the whole model.
        heads: The heads in the order of their removal; empty for the whole model.
    """

    condition: str
    tests: tuple[str, ...]
    tuning: CellTuning
    draw: int = 0
    order: str = ""
    heads: tuple[str, ...] = ()

    def counts(self, plan: RankedPlan) -> Sequence[int]:
        """The numbers of heads to remove."""
        return plan.counts if self.heads else (0,)

    def cell(self, plan: RankedPlan, work: Work, language: str, count: int) -> Cell:
        """The cell of one model and one language."""
        mask = HeadMask.without(work.setting.heads, self.heads[:count]) if count else None
        parts = [self.condition, *([self.order] if self.order not in ("", self.condition) else [])]
        parts += [*([self.tests[0]] if len(self.tests) == 1 else []), *([f"draw {self.draw}"] if self.draw else [])]
        return Cell(
            language, plan.test_split, mask, plan.limit_test, tuning=self.tuning, series=", ".join(parts)
        )  # fmt: skip

    def cells(self, plan: RankedPlan, work: Work) -> list[Cell]:
        """All cells."""
        return [self.cell(plan, work, code, count) for count in self.counts(plan) for code in self.tests]


@dataclass(frozen=True, eq=False)
class Trial:
    """One tuned model in one language.

    Attributes:
        language: The language.
        condition: The condition.
        draw: Number of the draw.
        order: Name of the order in which heads are removed.
        count: Number of heads removed.
        dev: Dev value.
        test: Metric on test data, in percent.
        statistics: What was measured on test data, (examples, statistics).
    """

    language: str
    condition: str
    draw: int
    order: str
    count: int
    dev: float
    test: float
    statistics: Array


@dataclass(frozen=True, eq=False)
class Trials:
    """All tuned models of a study.

    Attributes:
        every: The models.
        found: The metric of every language and condition, with the best model on dev, and its resamples.
    """

    every: tuple[Trial, ...]
    found: Resampled

    def best(self, language: str, condition: str, by: By = "dev") -> list[Trial]:
        """The best model of each draw."""
        chosen = choose(self.every, by)
        return [trial for (code, name, _), trial in chosen.items() if (code, name) == (language, condition)]

    def value(self, language: str, condition: str, by: By) -> float:
        """The metric of the best model on test data, mean over draws."""
        return float(np.mean([trial.test for trial in self.best(language, condition, by)]))

    def removed(self, language: str, condition: str, by: By) -> float:
        """The number of heads removed from the best model, mean over draws."""
        return float(np.mean([trial.count for trial in self.best(language, condition, by)]))

    def figure(self, language: str, condition: str, base: str = UNPRUNED) -> Figure:
        """The metric of the best model on dev, with the test of its difference from another condition."""
        place, [row] = self.found.place(condition), self.found.language_places([language])
        other = self.found.place(base)
        test = self.found.compare(lambda values: values[..., row, place] - values[..., row, other])
        return Figure(float(self.found.mean[row, place]), test.difference, test.p_value)

    def chosen_on_test(self, conditions: Sequence[str]) -> float:
        """What choosing on test data adds, mean over languages and conditions."""
        pairs = [(language, condition) for language in self.found.languages for condition in conditions]
        return float(np.mean([self.value(*pair, "test") - self.value(*pair, "dev") for pair in pairs]))


def choose(trials: Sequence[Trial], by: By) -> dict[Key, Trial]:
    """The best model of every language, condition and draw; of equal ones the first with the fewest heads removed."""
    found: dict[Key, Trial] = {}
    for trial in trials:
        key = trial.language, trial.condition, trial.draw
        if key not in found or _rank(trial, by) > _rank(found[key], by):
            found[key] = trial
    return found


def _rank(trial: Trial, by: By) -> tuple[float, int]:
    return (trial.dev if by == "dev" else trial.test), -trial.count


def collect(plan: RankedPlan, work: Work, series: Sequence[Series], measured: Mapping[Cell, Array]) -> Trials:
    """The dev values and the measurements of all models."""
    metric, every = work.grid.task.metric, []
    for each in series:
        for count in each.counts(plan):
            for language in each.tests:
                cell = each.cell(plan, work, language, count)
                dev, statistics = work.grid.tuning(cell).best_value, measured[cell]
                test = float(metric.value(statistics.sum(0)))
                every.append(
                    Trial(language, each.condition, each.draw, each.order, count, dev, test, statistics)
                )  # fmt: skip
    chosen = {key: trial.statistics for key, trial in choose(every, "dev").items()}
    return Trials(tuple(every), resample(chosen, plan.test_ids(work), metric, plan.resamples, plan.scoring.seed))


def gain(found: Resampled, conditions: Sequence[str], bases: Sequence[str] = (UNPRUNED,)) -> Callable[[Array], Array]:
    """The difference of conditions from others, mean over languages and conditions: from metrics to a number.

    Example:
        >>> values = np.array([[[60.0], [61.0], [64.0]]])
        >>> found = Resampled(("de",), ("unpruned", "MD", "SD"), values, values[None, ..., 0])
        >>> float(gain(found, ["MD", "SD"])(found.mean))
        2.5
    """
    places, others = ([found.place(name) for name in names] for names in (conditions, bases))
    return lambda values: np.asarray((values[..., places].mean(-1) - values[..., others].mean(-1)).mean(-1))


def trial_table(trials: Trials, metric: str) -> StudyTable:
    """Every tuned model, for a CSV file."""
    rows = tuple(
        (trial.language, trial.condition, trial.order, trial.draw, trial.count, trial.dev, trial.test)
        for trial in trials.every
    )
    columns = ("target", "condition", "order", "draw", "off", "dev", "test")
    return StudyTable("models", f"{metric} of every tuned model", columns, rows, printed=False)


def count_curves(trials: Trials, orders: Mapping[str, Sequence[str]]) -> tuple[Curve, ...]:
    """The metric on test data by number of heads removed, mean over draws and orders, for every language.

    Args:
        trials: The models.
        orders: Names of the orders of each line; the band of a line with several orders is their range.
    """
    return tuple(
        _curve(trials, language, line, names) for language in trials.found.languages for line, names in orders.items()
    )


def _curve(trials: Trials, language: str, line: str, orders: Sequence[str]) -> Curve:
    here = [trial for trial in trials.every if trial.language == language]
    counts = sorted({trial.count for trial in here})

    def means(order: str) -> list[float]:
        chosen = [[trial.test for trial in here if trial.count == count and trial.order in ("", order)]
                  for count in counts]  # fmt: skip
        return [float(np.mean(each)) for each in chosen]

    values = np.array([means(order) for order in orders if any(trial.order == order for trial in here)])
    if not len(values):
        return Curve(language, line, (), ())
    bands = (values.min(0), values.max(0)) if len(values) > 1 else ()
    return Curve(language, line, tuple(counts), *(tuple(each.tolist()) for each in (values.mean(0), *bands)))
