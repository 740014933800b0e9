"""What an iterative study found: a curve for every language and ranking, and what it comes to."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.report import Curve, noun_of
from headwise.results import SCORING, load_scores
from headwise.scores import HeadScores
from headwise.studies.study import Cell, Shown, StudyTable, check_numbers, read_figures

#: Where a finished study's figures are.
FIGURES = "iterative.json"
FORMAT, VERSION = "headwise-iterative-study", 1
#: Percentage points that may be lost before a loss counts as one.
TOLERANCE = 1.0
_CHOSEN = "chosen on the test data, so it is an upper bound, not what a rule reaches"


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
class IterativeStudy(Shown):
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

    def _rows(self, first: Callable[[Curve], Cell], cell: Callable[[Curve], Cell]) -> tuple[tuple[Cell, ...], ...]:
        """A row for each language: its name, what does not depend on the ranking, and a cell for every ranking."""
        rows: dict[str, list[Cell]] = {}
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

    def curves(self) -> tuple[Curve, ...]:
        """What the page shows of removing one after the other."""
        return self.lines

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
    with read_figures(folder, FIGURES, FORMAT, VERSION) as data:
        lines = tuple(_curve(each) for each in data["curves"])
        scores = load_scores(folder / SCORING)
        return IterativeStudy(folder, data["metric"], lines, scores, data["seconds"], tuple(data["notes"]))


def _curve(data: Mapping[str, Any]) -> Curve:
    parts = [tuple(data[name]) for name in ("removed", "value", "low", "high")]
    check_numbers(*(number for part in parts for number in part))
    return Curve(data["language"], data["ranking"], *parts)
