"""Figures of a run folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from headwise.errors import HeadwiseError
from headwise.report import Curve, MaskGains, noun_of
from headwise.report.plots import plot_curves, plot_gains, plot_likeness, plot_maps
from headwise.runs.config import read_config
from headwise.scoring.run_folder import load_scores
from headwise.studies.figure_kinds import FigureKind
from headwise.studies.page import load_study


@runtime_checkable
class HasGains(Protocol):
    """A study that measures the gains of masks."""

    @property
    def metric(self) -> str:
        """The metric's name."""

    def mask_gains(self) -> Sequence[MaskGains]:
        """The gains of each kind of mask."""


@runtime_checkable
class HasCurves(Protocol):
    """A study that measures curves."""

    @property
    def metric(self) -> str:
        """The metric's name."""

    @property
    def lines(self) -> Sequence[Curve]:
        """The curves."""


def figure_of(folder: str | os.PathLike[str], kind: FigureKind | str) -> Any:
    """A matplotlib figure of a run folder.

    Args:
        folder: A run folder of a study or of `headwise score`.
        kind: What it shows.

    Raises:
        HeadwiseError: The run has no such figure, or matplotlib is not installed.
    """
    path, kind = Path(folder), FigureKind(kind)
    study = load_study(path) if "study" in read_config(path) else None
    scores = study.scores if study is not None else load_scores(path)
    found: Any = study
    if kind is FigureKind.maps:
        return plot_maps(scores)
    if kind is FigureKind.likeness:
        return plot_likeness(scores)
    if kind is FigureKind.gains and isinstance(found, HasGains):
        return plot_gains(found.mask_gains(), found.metric)
    if kind is FigureKind.curves and isinstance(found, HasCurves):
        return plot_curves(found.lines, found.metric, noun_of(scores))
    needed = {"gains": "a targeted study", "curves": "an iterative study"}[kind.value]
    raise HeadwiseError(f"{path}: has no {kind.value}: they come from {needed}")
