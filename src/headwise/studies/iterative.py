"""Iterative pruning: the metric on test data while heads are removed, lowest-ranked first, until none is left.

Figure 3 of Held & Yang, after Michel et al. Every ranking is computed on dev examples with the same budget. A good
ranking keeps the metric high for long; one that finds harmful heads raises it at first.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import FieldError, require_whole
from headwise.methods import METHODS
from headwise.report import Curve, Section, curves_section, noun_of
from headwise.scores import HeadScores
from headwise.scoring import ScoringPlan, ScoringRun
from headwise.scoring.run_folder import SCORING, load_scores
from headwise.studies.grid import Array, Cell
from headwise.studies.judge import Judge, check_split
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import StudyTable, TableCell
from headwise.studies.work import GridKind, Work

#: The ranking that is drawn several times.
_RANDOM = "random"
FORMAT, VERSION = "headwise-iterative-study", 1
_FIGURES = "iterative.json"
#: Percentage points that may be lost before a loss counts as one.
TOLERANCE = 1.0
_CHOSEN = "chosen on the test data, so it is an upper bound, not what a rule reaches"


@dataclass(frozen=True)
class IterativePlan:
    """What an iterative study is asked to do.

    Attributes:
        scoring: How heads are scored; its method is one of the rankings, and the report shows its scores.
        rankings: The methods that rank, from `headwise.methods.METHODS`; options are for the method of `scoring` alone.
        test_split: The split that the metric is measured on.
        step: Heads removed between two points; the last point is always without any head.
        randoms: The number of draws of the `random` ranking.
        resamples: Resamples of the bootstrap.
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
                raise FieldError("rankings", f"{ranking!r} is there twice")
        if self.scoring.method not in self.rankings:
            raise FieldError("rankings", f"the method {self.scoring.method!r} is missing: add it, or change 'method'")
        check_split(self.scoring, self.test_split)
        for name in ("step", "randoms", "resamples", "limit_test"):
            if (name, getattr(self, name)) != ("limit_test", None):
                require_whole(name, getattr(self, name))

    def points(self, players: int) -> tuple[int, ...]:
        """How many heads are removed at each point: from none to all."""
        return (*range(0, players, self.step), players)


def area(curve: Curve) -> float:
    """The mean of the metric from no head removed to all of them: the area under the curve over the share removed.

    Example:
        >>> area(Curve("zh", "stars", removed=(0, 2, 3), value=(90.0, 60.0, 30.0)))
        65.0
    """
    removed, value = np.array(curve.removed, dtype=np.float64), np.array(curve.value)
    return float(((value[1:] + value[:-1]) / 2 * np.diff(removed)).sum() / (removed[-1] - removed[0]))


def removable(curve: Curve) -> int:
    """The most heads removed, of the curve's points, with a metric that is at most one point below the first.

    Example:
        >>> removable(Curve("zh", "stars", removed=(0, 2, 3, 4), value=(60.0, 57.5, 59.0, 30.0)))
        3
    """
    floor = _whole(curve) - TOLERANCE - 1e-9  # a loss of exactly one point must not depend on rounding
    return max(removed for removed, value in zip(curve.removed, curve.value, strict=True) if value >= floor)


def best(curve: Curve) -> tuple[int, float]:
    """The point where the metric is highest, the first of equal ones: heads removed, and the metric.

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
    """What an iterative study found.

    Attributes:
        folder: The run folder.
        metric: The metric's name.
        lines: The curve of every language and ranking. Bands are 95% bootstrap intervals of the metric, those of
            the random ranking go from the worst to the best draw.
        scores: The scores of each language by the plan's method.
        seconds: What that scoring took, by language.
        notes: What must be said with it.
    """

    folder: Path
    metric: str
    lines: tuple[Curve, ...]
    scores: Mapping[str, HeadScores]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    def tables(self) -> tuple[StudyTable, ...]:
        """Areas under the curves, how much can go, the best points, and the curves themselves."""
        return self._areas(), self._removable(), self._best(), self._points()

    @property
    def _rankings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(curve.ranking for curve in self.lines))

    def _rows(
        self, first: Callable[[Curve], TableCell], cell: Callable[[Curve], TableCell]
    ) -> tuple[tuple[TableCell, ...], ...]:
        """A row for each language: its name, what does not depend on the ranking, and a cell for every ranking."""
        rows: dict[str, list[TableCell]] = {}
        for curve in self.lines:
            rows.setdefault(curve.language, [curve.language, first(curve)]).append(cell(curve))
        return tuple(tuple(row) for row in rows.values())

    def _areas(self) -> StudyTable:
        rows = self._rows(_whole, area)
        if len(rows) > 1:
            numbers = np.array([row[1:] for row in rows], dtype=np.float64)  # (languages, columns)
            rows = (*rows, ("mean", *numbers.mean(0).tolist()))
        title = f"{self.metric} on test data, mean from no {noun_of(self.scores)} removed to all"
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
        note = f"off: how many are removed at the best point. It is {_CHOSEN}."
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

    def sections(self) -> tuple[Section, ...]:
        """The curves."""
        return (curves_section(self.lines, self.metric, noun_of(self.scores)),)

    def to_dict(self) -> dict[str, Any]:
        """The study's figures as plain data."""
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
    """The runs of every ranking: one, or one for each draw of the random ranking."""
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
    """Heads without a value cannot be ranked."""
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
    """The study of what was measured."""
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
    """The curve of one language: with the bootstrap's band, or from the worst to the best of several draws."""
    found = [[measured[cell] for cell in _points(plan, language, scores)] for scores in draws]
    values = np.array([[judge.value(each) for each in points] for points in found])  # (draws, points)
    low, high = (values.min(0), values.max(0)) if ranking == _RANDOM else judge.bands(found[0])
    points, mean = plan.points(len(draws[0].players)), values.mean(0)
    return Curve(language, ranking, points, tuple(mean.tolist()), tuple(low.tolist()), tuple(high.tolist()))


ITERATIVE = GridKind("iterative", IterativePlan, prepare, cells, finish, load_iterative)
