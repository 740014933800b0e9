"""Pruning curves: the metric on test data while heads are removed by a ranking, lowest or highest first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from headwise import HeadMask
from headwise.engine.evaluation import MaskJudge
from headwise.scores import HeadScores
from headwise.stats import bootstrap_interval

Array = NDArray[np.float64]
#: Shares of the heads that are removed; closer together at the start, where harmful heads are removed.
SHARES = (0, 1 / 24, 1 / 12, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1)
RESAMPLES = 1000


@dataclass(frozen=True)
class PruningCurve:
    """What each test example adds to the metric at each point of the curves of one ranking.

    Attributes:
        removed: Number of heads removed at each point, (points,).
        lowest: Statistics with the lowest-ranked heads removed first, (examples, points, statistics).
        highest: The same with the highest-ranked heads removed first.
    """

    removed: NDArray[np.int64]
    lowest: Array
    highest: Array


def points_of(players: int) -> NDArray[np.int64]:
    """The numbers of removed heads.

    Example:
        >>> points_of(144).tolist()
        [0, 6, 12, 24, 36, 48, 72, 96, 120, 144]
    """
    return np.unique(np.rint(np.array(SHARES) * players).astype(np.int64))


def measure_curve(judge: MaskJudge, scores: HeadScores) -> dict[str, Array]:
    """The statistics of both curves of a ranking, as arrays of a journal."""
    removed, ranked = points_of(len(scores.players)), scores.ranked()
    masks: dict[str, list[HeadMask]] = {
        "lowest": [scores.without(ranked[:count]) for count in removed],
        "highest": [scores.without(ranked[len(ranked) - count :]) for count in removed],
    }
    # The first and the last point are the same in both.
    found = judge.measure([*masks["lowest"], *masks["highest"][1:-1]]).statistics
    lowest, between = found[: len(removed)], found[len(removed) :]
    highest = [lowest[0], *between, lowest[-1]]
    return {"lowest": np.stack(lowest, axis=1), "highest": np.stack(highest, axis=1)}


def area(removed: NDArray[np.int64], values: Array) -> Array:
    """The mean metric over the share of removed heads, by trapezoids; values are (..., points).

    Example:
        >>> float(area(np.array([0, 2, 3]), np.array([90.0, 60.0, 30.0])))
        65.0
    """
    steps = np.diff(removed) / (removed[-1] - removed[0])
    return np.asarray(((values[..., 1:] + values[..., :-1]) / 2 * steps).sum(-1))


def mean_area(
    removed: NDArray[np.int64], curves: Sequence[Array], metric: Callable[[Array], Array]
) -> tuple[float, float, float]:
    """The mean area of several curves, and its 95% interval when test examples are drawn with replacement.

    Args:
        removed: Number of heads removed at each point, (points,).
        curves: Statistics of each curve, (examples, points, statistics). Examples are the same in all of them: in
            several languages, they are translations of each other.
        metric: The metric of summed statistics.
    """
    stacked = np.stack(curves, axis=1)  # (examples, curves, points, statistics)
    shape = stacked.shape[1:]

    def value(totals: Array) -> Array:
        values = metric(totals.reshape(*totals.shape[:-1], *shape))  # (..., curves, points)
        return np.asarray(area(removed, values).mean(-1))

    flat = stacked.reshape(len(stacked), -1)
    low, high = bootstrap_interval(flat, value, RESAMPLES)
    return float(value(flat.sum(0))), low, high


#: The colours of Okabe and Ito. Scorers with the same colour differ in dashes and markers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
STYLES, MARKERS = ("-", "--", ":"), ("o", "^", "s")


def draw_curves(curves: dict[str, list[PruningCurve]], metric: Callable[[Array], Array], path: Path) -> None:
    """Plot the mean metric of each scorer against the number of heads removed, lowest and highest first."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(13, 5), sharey=True, layout="constrained")
    for panel, (side, title) in zip(panels, (("lowest", "lowest first"), ("highest", "highest first")), strict=True):
        for number, (name, found) in enumerate(curves.items()):
            values = np.mean([metric(cast(Array, getattr(each, side)).sum(0)) for each in found], axis=0)
            colour, kind = COLOURS[number % len(COLOURS)], number // len(COLOURS) % len(STYLES)
            panel.plot(
                found[0].removed, values, STYLES[kind], color=colour, marker=MARKERS[kind], markersize=4, label=name
            )
        panel.set(title=f"heads removed {title}", xlabel="heads removed")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy on test data, mean over languages")
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
