"""Iterative pruning: the metric on test data while heads are removed, lowest-ranked first, until none is left.

Figure 3 of Held & Yang, after Michel et al. Every ranking is computed on dev examples with the same budget. A good
ranking keeps the metric high until many heads are removed; if it finds harmful heads, the metric rises at first.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import FieldError, require_whole
from headwise.methods import METHODS
from headwise.report import Curve, Section, noun_of
from headwise.scores import HeadScores
from headwise.scoring import ScoringPlan, ScoringRun
from headwise.scoring.run_folder import SCORING, load_scores
from headwise.studies.grid import Array, Cell
from headwise.studies.judge import Judge, check_split
from headwise.studies.plots import CurvePlot
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import StudyTable, TableCell, section_of
from headwise.studies.work import GridKind, Work

#: The ranking with several random draws.
_RANDOM = "random"
FORMAT, VERSION = "headwise-iterative-study", 1
_FIGURES = "iterative.json"
#: Largest loss, in percentage points, that is ignored.
TOLERANCE = 1.0
_CHOSEN = "chosen on the test data, so it is an upper bound on the result of any rule"


@dataclass(frozen=True)
class IterativePlan:
    """The plan of an iterative study.

    Attributes:
        scoring: The plan of the scoring run; its method is one of the rankings, and the report shows its scores.
        rankings: Methods from `headwise.methods.METHODS`; the options of `scoring` apply only to its own method.
        test_split: The split that the metric is measured on.
        step: Number of heads removed between two points; at the last point all heads are removed.
        randoms: The number of draws of the `random` ranking.
        resamples: Number of bootstrap resamples.
        limit_test: The maximum number of test examples of each language; None for all.

    Example:
        >>> plan = IterativePlan(ScoringPlan("e5-small-pos", "pos", "phrasebook"), step=60)
        >>> plan.points(144)
        (0, 60, 120, 144)
    """

    scoring: ScoringPlan
    rankings: Sequence[str] = ("stars", "gradient-screen", "michel", "random")
    test_split: str = "test"
    step: int = 6
    randoms: int = 3
    resamples: int = 1000
    limit_test: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rankings, list | tuple) or not self.rankings:
            raise FieldError("rankings", f"a list of methods such as [stars, random], not {self.rankings!r}")
        for ranking in self.rankings:
            if ranking not in METHODS:
                raise FieldError("rankings", f"there is no method {ranking!r}: choose from {', '.join(METHODS)}")
            if self.rankings.count(ranking) > 1:
                raise FieldError("rankings", f"{ranking!r} occurs twice")
        if self.scoring.method not in self.rankings:
            raise FieldError("rankings", f"the method {self.scoring.method!r} is missing: add it, or change 'method'")
        check_split(self.scoring, self.test_split)
        for name in ("step", "randoms", "resamples", "limit_test"):
            if (name, getattr(self, name)) != ("limit_test", None):
                require_whole(name, getattr(self, name))

    def points(self, players: int) -> tuple[int, ...]:
        """The number of heads removed at each point, from none to all."""
        return (*range(0, players, self.step), players)


def area(curve: Curve) -> float:
    """The area under the curve of the metric over the share of removed heads.

    Example:
        >>> area(Curve("zh", "stars", removed=(0, 2, 3), value=(90.0, 60.0, 30.0)))
        65.0
    """
    removed, value = np.array(curve.removed, dtype=np.float64), np.array(curve.value)
    return float(((value[1:] + value[:-1]) / 2 * np.diff(removed)).sum() / (removed[-1] - removed[0]))


def removable(curve: Curve) -> int:
    """The largest number of removed heads at which the metric is at most one point below that of the whole model.

    Example:
        >>> removable(Curve("zh", "stars", removed=(0, 2, 3, 4), value=(60.0, 57.5, 59.0, 30.0)))
        3
    """
    floor = _whole(curve) - TOLERANCE - 1e-9  # tolerate rounding errors at a loss of exactly one point
    return max(removed for removed, value in zip(curve.removed, curve.value, strict=True) if value >= floor)


def best(curve: Curve) -> tuple[int, float]:
    """The first point with the highest metric: the number of removed heads, and the metric.

    Example:
        >>> best(Curve("zh", "stars", removed=(0, 2, 3), value=(60.0, 61.5, 61.5)))
        (2, 61.5)
    """
    place = int(np.argmax(curve.value))
    return curve.removed[place], curve.value[place]


def _whole(curve: Curve) -> float:
    """The metric with all heads."""
    return curve.value[0]


@dataclass(frozen=True)
class IterativeStudy:
    """The results of an iterative study.

    Attributes:
        folder: The run folder.
        metric: The metric's name.
        lines: The curve of every language and ranking. Bands are 95% bootstrap intervals of the metric; for the random
            ranking they are the range of the draws.
        scores: The scores of each language by the plan's method.
        seconds: The time of that scoring, by language.
        notes: Notes to print with the results.
    """

    folder: Path
    metric: str
    lines: tuple[Curve, ...]
    scores: Mapping[str, HeadScores]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    def tables(self) -> tuple[StudyTable, ...]:
        """Areas under the curves, numbers of removable heads, the best points, and the curves."""
        return self._areas(), self._removable(), self._best(), self._points()

    @property
    def _rankings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(curve.ranking for curve in self.lines))

    def _rows(
        self, first: Callable[[Curve], TableCell], cell: Callable[[Curve], TableCell]
    ) -> tuple[tuple[TableCell, ...], ...]:
        """One row per language: its name, a cell that does not depend on the ranking, and one cell per ranking."""
        rows: dict[str, list[TableCell]] = {}
        for curve in self.lines:
            rows.setdefault(curve.language, [curve.language, first(curve)]).append(cell(curve))
        return tuple(tuple(row) for row in rows.values())

    def _areas(self) -> StudyTable:
        rows = self._rows(_whole, area)
        if len(rows) > 1:
            numbers = np.array([row[1:] for row in rows], dtype=np.float64)  # (languages, columns)
            rows = (*rows, ("mean", *numbers.mean(0).tolist()))
        title = f"{self.metric} on test data, mean over the share of {noun_of(self.scores)}s removed"
        return StudyTable("iterative", title, ("language", "none", *self._rankings), rows)

    def _removable(self) -> StudyTable:
        rows = self._rows(lambda curve: curve.removed[-1], removable)
        title = (
            f"{noun_of(self.scores)}s removable for at most {TOLERANCE:g} point of {self.metric}, lowest-ranked first"
        )
        note = f"Removable: the point is {_CHOSEN}."
        return StudyTable("removable", title, ("language", "all", *self._rankings), rows, note)

    def _best(self) -> StudyTable:
        rows = tuple((curve.language, _whole(curve), curve.ranking, *best(curve)) for curve in self.lines)
        note = f"off: number removed at the best point. The point is {_CHOSEN}."
        title = f"best {self.metric} along the curve"
        return StudyTable("best", title, ("language", "none", "ranking", "off", "best"), rows, note)

    def _points(self) -> StudyTable:
        columns = ("language", "ranking", "removed", "value", "low", "high")
        rows = tuple(
            (curve.language, curve.ranking, *point)
            for curve in self.lines
            for point in zip(curve.removed, curve.value, curve.low, curve.high, strict=True)
        )
        return StudyTable("curves", f"{self.metric} by {noun_of(self.scores)}s removed", columns, rows, printed=False)

    def plots(self) -> tuple[CurvePlot, ...]:
        """The curves as one plot."""
        axis = f"{noun_of(self.scores)}s removed"
        text = f"{self.metric[:1].upper()}{self.metric[1:]} (%) by {axis}, lowest ranked first."
        return (CurvePlot("Iterative pruning", text, self.lines, axis),)

    def sections(self) -> tuple[Section, ...]:
        """The curves with a headline, and the tables."""
        curves, *others = (plot.section(self.metric) for plot in self.plots())
        tables = (section_of(table) for table in self.tables() if table.printed)
        return dataclasses.replace(curves, headline=self._headline()), *others, *tables

    def _headline(self) -> str:
        """How many heads can be removed by each ranking, on average over languages."""
        if not self.lines:
            return ""
        counts: dict[str, list[int]] = {}
        for curve in self.lines:
            counts.setdefault(curve.ranking, []).append(removable(curve))
        means = {ranking: sum(found) / len(found) for ranking, found in counts.items()}
        order = sorted(means, key=lambda ranking: -means[ranking])
        noun, players = noun_of(self.scores), max(curve.removed[-1] for curve in self.lines)
        languages = len(next(iter(counts.values())))
        over = f", on average over {languages} languages" if languages > 1 else ""
        best, *others = order
        found = (
            f"{means[best]:.0f} of {players} {noun}s can be removed for at most {TOLERANCE:g} point of {self.metric}"
            f"{over}, if {best} ranks them"
        )
        shown = ", ".join(f"{means[ranking]:.0f} with {ranking}" for ranking in others)
        return f"{found}; {shown}." if others else f"{found}."

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "metric": self.metric,
            "curves": [dataclasses.asdict(curve) for curve in self.lines],
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }


def load_iterative(folder: Path) -> IterativeStudy:
    """The iterative study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    with read_figures(folder, _FIGURES, FORMAT, VERSION) as data:
        lines = tuple(_curve(each) for each in data["curves"])
        scores = load_scores(folder / SCORING)
        return IterativeStudy(folder, data["metric"], lines, scores, data["seconds"], tuple(data["notes"]))


def _curve(data: Mapping[str, Any]) -> Curve:
    parts = [tuple(data[name]) for name in ("removed", "value", "low", "high")]
    check_numbers(*(number for part in parts for number in part))
    return Curve(data["language"], data["ranking"], *parts)


def prepare(plan: IterativePlan, work: Work) -> dict[str, list[ScoringRun]]:
    """The scoring runs of every ranking: one, or one per draw for the random ranking."""
    return {ranking: _score(plan, ranking, work) for ranking in plan.rankings}


def _score(plan: IterativePlan, ranking: str, work: Work) -> list[ScoringRun]:
    main, found = ranking == plan.scoring.method, []
    for draw in range(plan.randoms if ranking == _RANDOM else 1):
        name = f"scoring-{ranking}-{draw}" if ranking == _RANDOM else f"scoring-{ranking}"
        options = plan.scoring.options if main else {}
        asked = dataclasses.replace(plan.scoring, method=ranking, options=options, seed=plan.scoring.seed + draw)
        run = work.score(asked, SCORING if main and not draw else name, ranking)
        for language, each in run.languages.items():
            _check_complete(ranking, language, each.scores)
        found.append(run)
    return found


def _check_complete(ranking: str, language: str, scores: HeadScores) -> None:
    """Raise an error if a head has no value, since it cannot be ranked."""
    if missing := len(scores.players) - len(scores.ranked()):
        raise FieldError("budget", f"{missing} players of {language} have no value by {ranking} yet: raise it")


def cells(plan: IterativePlan, _work: Work, scored: Mapping[str, Sequence[ScoringRun]]) -> list[Cell]:
    """Every point of every ranking, for every language."""
    return [
        cell
        for runs in scored.values()
        for run in runs
        for language, scores in run.scores.items()
        for cell in _points(plan, language, scores)
    ]


def _points(plan: IterativePlan, language: str, scores: HeadScores) -> list[Cell]:
    points = plan.points(len(scores.players))
    masks = [scores.mask(count=removed) if removed else None for removed in points]
    return [Cell(language, plan.test_split, mask, plan.limit_test) for mask in masks]


def finish(
    plan: IterativePlan, work: Work, scored: Mapping[str, Sequence[ScoringRun]], measured: dict[Cell, Array]
) -> IterativeStudy:
    """Make the study from the measurements."""
    judge, main = Judge(work.grid.task.metric, plan.resamples), scored[plan.scoring.method][0]
    lines = tuple(
        _line(plan, judge, ranking, [run.languages[language].scores for run in scored[ranking]], language, measured)
        for language in main.languages
        for ranking in scored
    )
    seconds = {language: each.seconds for language, each in main.languages.items()}
    return IterativeStudy(work.folder, judge.metric.name, lines, main.scores, seconds, main.notes)


def _line(
    plan: IterativePlan,
    judge: Judge,
    ranking: str,
    draws: Sequence[HeadScores],
    language: str,
    measured: Mapping[Cell, Array],
) -> Curve:
    """The curve of one language, with a bootstrap band or the range of several draws."""
    found = [[measured[cell] for cell in _points(plan, language, scores)] for scores in draws]
    values = np.array([[judge.value(each) for each in points] for points in found])  # (draws, points)
    low, high = (values.min(0), values.max(0)) if ranking == _RANDOM else judge.bands(found[0])
    points, mean = plan.points(len(draws[0].players)), values.mean(0)
    return Curve(language, ranking, points, tuple(mean.tolist()), tuple(low.tolist()), tuple(high.tolist()))


ITERATIVE = GridKind(
    "iterative", IterativePlan, prepare, cells, finish, load_iterative,
    about=(
        "Heads are removed until none is left, lowest ranked first, and the metric is measured on test data. A "
        "good ranking keeps it high for long; if a ranking finds harmful heads, the metric rises at first."
    ),
)  # fmt: skip
