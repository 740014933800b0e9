"""Plots of studies: data that sections of the report show, and that matplotlib draws as SVG and PNG files."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from headwise.report import Cloud, Curve, Section, curves_section, scatter_section
from headwise.report.plots import plot_clouds, plot_curves, save_figure
from headwise.support.extras import require


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
    if plots:
        require("matplotlib", "plots", "drawing plots")
    files = []
    for plot in plots:
        text = "\n".join(filter(None, (plot.title, plot.text)))
        if isinstance(plot, CurvePlot):
            figure = plot_curves(plot.curves, "", plot.axis, text)
        else:
            figure = plot_clouds(plot.clouds, text)
        stem = re.sub(r"[^a-z0-9]+", "-", plot.title.lower()).strip("-")
        for ending in (".svg", ".png"):
            files.append(folder / f"{stem}{ending}")
            save_figure(figure, files[-1])
    return tuple(files)
