"""Plots of studies: data that sections of the report show, and that matplotlib draws as SVG and PNG files."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headwise.report import Cloud, Curve, Section, curves_section, scatter_section
from headwise.report.palette import LINE_COLOURS
from headwise.support.extras import require

#: Kinds of lines and of points: curves differ without colours too.
_DASHES = ("-", "--", "-.", ":")
_MARKERS = "os^Dv*X"
#: The maximum number of plots side by side, and the width and the height of each, in inches.
_ACROSS, _WIDTH, _HEIGHT = 3, 3.6, 2.6
#: Number of letters of the text above the plots in the width of one plot.
_LETTERS = 60
#: Settings that make files depend on the data alone: labels as text, and ids that are not random.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "headwise", "font.size": 8}


@dataclass(frozen=True)
class CurvePlot:
    """Curves, such as a metric over the share of removed heads.

    Attributes:
        title: Title of the section.
        text: The text above the plots.
        curves: The curves; each `language` is a panel, each `ranking` a line.
        axis: Title of the horizontal axis.
    """

    title: str
    text: str
    curves: tuple[Curve, ...]
    axis: str = "% of heads removed"

    def section(self, metric: str) -> Section:
        """The plot as a section of the report."""
        return curves_section(self.curves, metric, self.axis, self.title, self.text)


@dataclass(frozen=True)
class CloudPlot:
    """Clouds of points.

    Attributes:
        title: Title of the section.
        text: The text above the plots.
        clouds: The plots.
    """

    title: str
    text: str
    clouds: tuple[Cloud, ...]

    def section(self, _metric: str) -> Section:
        """The plot as a section of the report."""
        return scatter_section(self.clouds, self.title, self.text)


Plot = CurvePlot | CloudPlot


@runtime_checkable
class PlottedStudy(Protocol):
    """A study with plots."""

    def plots(self) -> tuple[Plot, ...]:
        """The plots."""


def save_plots(study: PlottedStudy, folder: Path) -> tuple[Path, ...]:
    """Draw every plot of a study as an SVG and a PNG file, named after its title.

    Args:
        study: The study.
        folder: The folder for the files, for example that of the study.

    Returns:
        The files.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    plots = study.plots()
    if not plots:
        return ()
    matplotlib, figures = (require(name, "plots", "drawing plots") for name in ("matplotlib", "matplotlib.figure"))
    files = []
    with matplotlib.rc_context(_SETTINGS):
        for plot in plots:
            figure = figures.Figure(layout="constrained")
            _draw(figure, plot)
            stem = re.sub(r"[^a-z0-9]+", "-", plot.title.lower()).strip("-")
            for ending, about in ((".svg", {"Date": None}), (".png", {"Software": None})):
                files.append(folder / f"{stem}{ending}")
                figure.savefig(files[-1], dpi=150, metadata=about)
    return tuple(files)


def _draw(figure: Any, plot: Plot) -> None:
    """Draw all panels of a plot, with its text above and one legend below."""
    if isinstance(plot, CurvePlot):
        drawn = [curve for curve in plot.curves if curve.removed]
        panels = list(dict.fromkeys(curve.language for curve in drawn))
        names = list(dict.fromkeys(curve.ranking for curve in drawn))
    else:
        panels = [cloud.title for cloud in plot.clouds]
        names = list(dict.fromkeys(name for cloud in plot.clouds for name in cloud.groups))
    columns = min(_ACROSS, max(len(panels), 1))
    rows = max(-(-len(panels) // columns), 1)
    figure.set_size_inches(_WIDTH * columns, _HEIGHT * rows + 0.8)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, axis in zip(panels, axes, strict=False):
        axis.set_title(panel)
        if isinstance(plot, CurvePlot):
            _draw_curves(axis, [curve for curve in drawn if curve.language == panel], names)
            axis.set_xlabel(plot.axis)
        else:
            [cloud] = [each for each in plot.clouds if each.title == panel]
            _draw_cloud(axis, cloud, names)
    for axis in axes[len(panels) :]:
        axis.remove()
    figure.suptitle("\n".join([plot.title, *textwrap.wrap(plot.text, _LETTERS * columns)]))
    lines = {line.get_label(): line for axis in axes[: len(panels)] for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=min(len(names), 4))


def _draw_curves(axis: Any, curves: Sequence[Curve], names: Sequence[str]) -> None:
    for curve in curves:
        place = names.index(curve.ranking)
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        dash, marker = _DASHES[place % len(_DASHES)], _MARKERS[place % len(_MARKERS)]
        axis.plot(curve.removed, curve.value, dash, marker=marker, ms=3, lw=1.2, color=colour, label=curve.ranking)
        if curve.low:
            axis.fill_between(curve.removed, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
    axis.grid(alpha=0.3)
    axis.xaxis.get_major_locator().set_params(integer=True)


def _draw_cloud(axis: Any, cloud: Cloud, names: Sequence[str]) -> None:
    for name, points in cloud.groups.items():
        place = names.index(name)
        colour, marker = LINE_COLOURS[place % len(LINE_COLOURS)], _MARKERS[place % len(_MARKERS)]
        axis.plot([x for x, _ in points], [y for _, y in points], marker, ms=2, color=colour, label=name)
    axis.set_xticks([])
    axis.set_yticks([])
