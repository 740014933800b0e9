"""Figures and tables of a run folder, for papers."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from headwise.errors import FieldError, HeadwiseError
from headwise.report import MaskGains, noun_of
from headwise.report.plots import FORMATS, plot_curves, plot_gains, plot_likeness, plot_maps, plot_paths, save_figure
from headwise.roles.plots import layers_figure
from headwise.roles.run import TABLE
from headwise.roles.table import HeadRoles
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scoring.run_folder import load_scores
from headwise.studies.emptied_layers import NAME as LAYERS
from headwise.studies.figure_kinds import FigureKind
from headwise.studies.l0_path_study import NAME as L0_PATH
from headwise.studies.page import load_study
from headwise.studies.plots import CurvePlot, PlottedStudy
from headwise.studies.run_tables import curve_table, gain_table, likeness_table, role_table, score_table
from headwise.studies.study import Study
from headwise.studies.tables import TABLE_FORMATS, StudyTable, save_table
from headwise.studies.tuned_study import TunedStudy


@runtime_checkable
class HasGains(Protocol):
    """A study that measures the gains of masks."""

    @property
    def metric(self) -> str:
        """The metric's name."""

    def mask_gains(self) -> Sequence[MaskGains]:
        """The gains of each kind of mask."""


@dataclass(frozen=True)
class _Run:
    """A run folder: its study, if it is one, and its scores."""

    folder: Path
    study: Study | None
    scores: Mapping[str, HeadScores]

    @classmethod
    def open(cls, folder: Path) -> "_Run":
        study = load_study(folder) if "study" in read_config(folder) else None
        return cls(folder, study, study.scores if study is not None else load_scores(folder))

    def gains(self, kind: FigureKind) -> tuple[Sequence[MaskGains], str]:
        """The gains and the metric of a targeted study."""
        study: object = self.study
        if not isinstance(study, HasGains):
            raise self.missing(kind, "a targeted study")
        return study.mask_gains(), study.metric

    def curves(self, kind: FigureKind) -> CurvePlot:
        """The first plot of curves of a study."""
        study: object = self.study
        for plot in study.plots() if isinstance(study, PlottedStudy) else ():
            if isinstance(plot, CurvePlot):
                return plot
        raise self.missing(kind, "an iterative study or one that tunes")

    def scored(self, kind: FigureKind) -> Mapping[str, HeadScores]:
        if not self.scores:
            raise self.missing(kind, "a run that scores heads")
        return self.scores

    def tuned(self, kind: FigureKind, name: str) -> TunedStudy:
        """The study of one kind."""
        if not isinstance(self.study, TunedStudy) or self.study.kind != name:
            raise self.missing(kind, f"a study of the kind {name}")
        return self.study

    def missing(self, kind: FigureKind, needed: str) -> HeadwiseError:
        return HeadwiseError(f"{self.folder}: has no {kind.value}: they come from {needed}")


def _draw_gains(run: _Run, kind: FigureKind) -> Any:
    return plot_gains(*run.gains(kind))


def _draw_curves(run: _Run, kind: FigureKind) -> Any:
    plot = run.curves(kind)
    assert run.study is not None
    return plot_curves(plot.curves, run.study.metric, plot.axis, plot.text)


def _draw_layers(run: _Run, kind: FigureKind) -> Any:
    study = run.tuned(kind, LAYERS)
    if not study.curves:
        raise HeadwiseError(f"{run.folder}: was made by an earlier version, without curves: repeat headwise study")
    [plot] = study.curves
    return plot_curves(plot.curves, study.metric, plot.axis, plot.text)


def _draw_paths(run: _Run, kind: FigureKind) -> Any:
    study = run.tuned(kind, L0_PATH)
    [kept] = [table for table in study.results if table.name == f"{L0_PATH}-layers"]
    return plot_paths(study.curves[0].curves, study.metric, kept.columns[2:], _kept(kept))


def _kept(table: StudyTable) -> dict[str, dict[str, tuple[int, ...]]]:
    """The number of heads kept in every site, by gates and penalty."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for gates, penalty, *counts in table.rows:
        found.setdefault(str(gates), {})[str(penalty)] = tuple(cast(int, count) for count in counts)
    return found


def _first_table(name: str) -> Callable[[_Run, FigureKind], StudyTable]:
    """The main table of a study of one kind."""
    return lambda run, kind: run.tuned(kind, name).results[0]


def _curve_table(run: _Run, kind: FigureKind) -> StudyTable:
    plot = run.curves(kind)
    assert run.study is not None
    return curve_table(plot.curves, run.study.metric, plot.axis)


#: How each kind is drawn, and its table. The kind `roles` is about runs of `headwise roles`.
_KINDS: Mapping[FigureKind, tuple[Callable[[_Run, FigureKind], Any], Callable[[_Run, FigureKind], StudyTable]]] = {
    FigureKind.maps: (
        lambda run, kind: plot_maps(run.scored(kind)),
        lambda run, kind: score_table(run.scored(kind), noun_of(run.scores)),
    ),
    FigureKind.likeness: (
        lambda run, kind: plot_likeness(run.scored(kind)),
        lambda run, kind: likeness_table(run.scored(kind)),
    ),
    FigureKind.gains: (_draw_gains, lambda run, kind: gain_table(*run.gains(kind))),
    FigureKind.curves: (_draw_curves, _curve_table),
    FigureKind.layers: (_draw_layers, _first_table(LAYERS)),
    FigureKind.paths: (_draw_paths, _first_table(L0_PATH)),
}


def _load_roles(folder: Path) -> HeadRoles:
    path = folder / f"{TABLE}.json" if folder.is_dir() else folder
    if not path.is_file():
        raise HeadwiseError(f"{folder}: has no roles: they come from headwise roles with --out {folder}")
    return HeadRoles.load(path)


def figure_of(folder: str | os.PathLike[str], kind: FigureKind | str) -> Any:
    """A matplotlib figure of a run folder.

    Args:
        folder: A run folder of a study, of `headwise score` or, for `roles`, of `headwise roles`.
        kind: What it shows.

    Raises:
        HeadwiseError: The run has no such figure, or matplotlib is not installed.
    """
    path, kind = Path(folder), FigureKind(kind)
    if kind is FigureKind.roles:
        return layers_figure(_load_roles(path))
    return _KINDS[kind][0](_Run.open(path), kind)


def table_of(folder: str | os.PathLike[str], kind: FigureKind | str) -> StudyTable:
    """The numbers of a figure as a table.

    Args:
        folder: As for `figure_of`.
        kind: What it shows.

    Raises:
        HeadwiseError: The run has no such table.
    """
    path, kind = Path(folder), FigureKind(kind)
    if kind is FigureKind.roles:
        return role_table(_load_roles(path))
    return _KINDS[kind][1](_Run.open(path), kind)


def save_plot(folder: str | os.PathLike[str], kind: FigureKind | str, path: str | os.PathLike[str]) -> None:
    """Write a figure (`.svg`, `.pdf`, `.png`) or a table (`.csv`, `.tex`) of a run folder, by the ending of the name.

    Raises:
        HeadwiseError: The ending is another one, the run has no such figure, or the file cannot be written.
    """
    ending = Path(path).suffix.lower()
    if ending not in (*FORMATS, *TABLE_FORMATS):
        known = ", ".join((*FORMATS, *TABLE_FORMATS))
        raise FieldError("out", f"{path}: the ending is one of {known}, such as figure.svg or table.csv")
    if ending in TABLE_FORMATS:
        save_table(table_of(folder, kind), path)
    else:
        save_figure(figure_of(folder, kind), path)
