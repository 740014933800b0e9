"""Figures for papers, drawn by matplotlib: maps, gains, curves, L0 paths and the similarity of languages."""

import functools
import io
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from headwise.errors import FieldError, HeadwiseError
from headwise.files import write_bytes
from headwise.report.contents import Curve, MaskGains
from headwise.report.curves import axes_of
from headwise.report.grids import grids
from headwise.report.languages import clustered
from headwise.report.names import name_of
from headwise.report.numbers import plain
from headwise.report.palette import LINE_COLOURS, SCALE_COLOURS, limit_of
from headwise.report.scatter import Cloud
from headwise.scores import HeadScores
from headwise.scores.affinity import shared_scores
from headwise.support.extras import require

P = ParamSpec("P")
#: Endings of figure files.
FORMATS = (".svg", ".pdf", ".png")
#: Style of all figures. Text in SVG and PDF files stays text; the same data give the same SVG file.
_STYLE = {
    "font.size": 8, "axes.titlesize": 8, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "svg.fonttype": "none", "pdf.fonttype": 42, "svg.hashsalt": "headwise", "savefig.dpi": 300,
}  # fmt: skip
_MARKERS = "os^vPX"  # no diamonds: they are the random control
#: Kinds of lines: curves differ without colours too.
_DASHES = ("-", "--", ":", "-.")
#: Points of curves with at most this number of them are marked.
_FEW = 12
#: Colours of numbers that are not negative: white is 0.
_COUNTS = "Blues"
#: Inches: width of a figure in two columns of a paper, and the greatest width of a map.
_WIDTH, _WIDEST = 6.8, 2.6
#: Letters of a title per inch.
_LETTERS = 15


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as `.svg`, `.pdf` or `.png`, by the ending of the name.

    Raises:
        HeadwiseError: The ending is another one, or the file cannot be written.
    """
    ending = Path(path).suffix.lower()
    check_format(path)
    sink = io.BytesIO()
    with require("matplotlib", "plots", "a figure").rc_context(_STYLE):
        dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending)
        figure.savefig(sink, format=ending[1:], bbox_inches="tight", metadata=dated)
    write_bytes(path, sink.getvalue())


def check_format(path: str | os.PathLike[str]) -> None:
    """Raise an error if the ending of a file is not one of `FORMATS`."""
    if Path(path).suffix.lower() not in FORMATS:
        raise FieldError("out", f"{path}: the ending is one of {', '.join(FORMATS)}, such as figure.svg")


def _figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure with (rows, columns) axes; it is not registered anywhere, so it needs no closing."""
    figure = require("matplotlib.figure", "plots", "a figure").Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _styled(plot: Callable[P, Any]) -> Callable[P, Any]:
    """Draws all parts of a figure in the style of headwise, also legends and titles."""

    @functools.wraps(plot)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Any:
        with require("matplotlib", "plots", "a figure").rc_context(_STYLE):
            return plot(*args, **kwargs)

    return draw


def _colours() -> Any:
    return require("matplotlib.colors", "plots", "a figure").LinearSegmentedColormap.from_list(
        "headwise", SCALE_COLOURS
    )


@_styled
def plot_maps(scores: Mapping[str, HeadScores]) -> Any:
    """The values of all heads, one map per language and stack; a dot marks heads that are decided to be harmful.

    Args:
        scores: The scores by language.
    """
    maps = [(language, each, grid) for language, each in scores.items() for grid in grids(each.players, each.kind)]
    columns, signed = min(4, len(maps)), any(each.provenance.signed for each in scores.values())
    limit = limit_of([value for each in scores.values() for value in each.value]) or 1.0
    low, label = (-limit, "value (below 0: harmful)") if signed else (0.0, "value (how much it matters)")
    rows, width = math.ceil(len(maps) / columns), min((_WIDTH - 0.8) / columns, _WIDEST)
    tallest = max(len(grid.row_names) / grid.columns for _, _, grid in maps)
    figure, axes = _figure(rows, columns, (width * columns + 0.8, rows * (0.45 + width * min(tallest, 2.0))))
    drawn = None
    for axis, (language, each, grid) in zip(axes.flat, maps, strict=False):
        values = np.full((len(grid.row_names), grid.columns), np.nan)
        for at, place in grid.places.items():
            values[at] = each.value[place]
            if each.decision[place] == "harmful":
                axis.plot(at[1], at[0], ".", color="black", markersize=2)
        drawn = axis.imshow(values, cmap=_colours() if signed else _COUNTS, vmin=low, vmax=limit)
        axis.set_title(", ".join(filter(None, (name_of(language), grid.title))))
        axis.set(xlabel=grid.column_title, ylabel=grid.row_title)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.yaxis.get_major_locator().set_params(integer=True)
    for axis in axes.flat[len(maps) :]:
        axis.set_axis_off()
    figure.colorbar(drawn, ax=axes, shrink=0.5 if rows > 1 else 0.8, label=label)
    return figure


@_styled
def plot_gains(kinds: Sequence[MaskGains], metric: str) -> Any:
    """The change of the metric in every language by every main kind of mask, with 95% intervals and random controls.

    Args:
        kinds: The gains.
        metric: Name of the metric.
    """
    kinds = [kind for kind in kinds if kind.main and kind.gains]
    languages = list(dict.fromkeys(gain.language for kind in kinds for gain in kind.gains))
    figure, [[axis]] = _figure(1, 1, (_WIDTH * 0.7, 0.7 + 0.16 * len(kinds) * len(languages)))
    for place, kind in enumerate(kinds):
        colour = LINE_COLOURS[place % len(LINE_COLOURS)]
        for gain in kind.gains:
            y = languages.index(gain.language) + (place - (len(kinds) - 1) / 2) * 0.8 / len(kinds)
            axis.plot([gain.low, gain.high], [y, y], color=colour, linewidth=1)
            fill = colour if gain.mark else "white"
            axis.plot(
                gain.difference, y, _MARKERS[place % len(_MARKERS)], color=colour, markerfacecolor=fill, markersize=4
            )
            if gain.random_difference is not None:
                axis.plot(gain.random_difference, y, "d", color="0.55", markersize=3)
        axis.plot([], [], _MARKERS[place % len(_MARKERS)], color=colour, label=kind.name, markersize=4)
    if any(gain.random_mean is not None for kind in kinds for gain in kind.gains):
        axis.plot([], [], "d", color="0.55", label="as many at random", markersize=3)
    axis.axvline(0, color="0.3", linewidth=0.8)
    axis.set_yticks(range(len(languages)), [name_of(language) for language in languages])
    axis.set_ylim(len(languages) - 0.5, -0.5)
    axis.set_xlabel(f"change of {metric}, percentage points")
    axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@_styled
def plot_curves(curves: Sequence[Curve], metric: str, axis: str = "heads removed", text: str = "") -> Any:
    """Curves, such as the metric as more and more heads are removed; one plot per language, all with the same scale.

    Args:
        curves: The curves; those without points are left out.
        metric: Name of the metric, for the vertical axes; left out if a text says what they show.
        axis: Title of the horizontal axes.
        text: A text above the plots.
    """
    curves = [curve for curve in curves if curve.removed]
    languages = list(dict.fromkeys(curve.language for curve in curves))
    columns = min(3, len(languages))
    rows = math.ceil(len(languages) / columns)
    figure, axes = _figure(rows, columns, (max(_WIDTH * columns / 3, _WIDTH / 2), 0.5 + 1.6 * rows + 0.3 * bool(text)))
    _draw_curves(axes.flat, curves)
    for place in axes.flat[len(languages) :]:
        place.set_axis_off()
    for lowest in axes.flat[max(len(languages) - columns, 0) : len(languages)]:  # of every column
        lowest.set_xlabel(textwrap.fill(axis, 32))
    if text:
        _title(figure, text)
    else:
        figure.supylabel(metric, fontsize=8)
    _legend_below(figure, axes.flat)
    return figure


def _draw_curves(axes: Iterable[Any], curves: Sequence[Curve]) -> None:
    """Draw the curves of each language on its own axes."""
    rankings = list(dict.fromkeys(curve.ranking for curve in curves))
    ranges = axes_of(curves)
    for axis, (language, (low, high)) in zip(axes, ranges.items(), strict=False):
        for curve in (curve for curve in curves if curve.language == language):
            line = rankings.index(curve.ranking)
            colour = LINE_COLOURS[line % len(LINE_COLOURS)]
            dash, mark = _DASHES[line % len(_DASHES)], "." if len(curve.removed) <= _FEW else ""
            axis.plot(curve.removed, curve.value, dash, marker=mark, color=colour, linewidth=1.2, label=curve.ranking)
            if curve.low:
                axis.fill_between(curve.removed, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
        axis.set_title(name_of(language))
        axis.set_ylim(low - 0.04 * (high - low), high + 0.04 * (high - low))
        axis.xaxis.get_major_locator().set_params(integer=True)


def _title(figure: Any, text: str) -> None:
    """Write a text above all plots, in lines that fit."""
    letters = round(_LETTERS * figure.get_size_inches()[0])
    lines = (line for part in text.split("\n") for line in textwrap.wrap(part, letters))
    figure.suptitle("\n".join(lines), fontsize=8)


def _legend_below(figure: Any, axes: Iterable[Any]) -> None:
    """One legend for all plots, below them."""
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    if lines:
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=min(len(lines), 4))


@_styled
def plot_clouds(clouds: Sequence[Cloud], text: str = "") -> Any:
    """Clouds of points, such as a t-SNE of sentence embeddings; groups have the same colour and mark in all plots.

    Args:
        clouds: The plots.
        text: A text above the plots.
    """
    names = list(dict.fromkeys(name for cloud in clouds for name in cloud.groups))
    columns = min(3, len(clouds))
    rows = math.ceil(len(clouds) / columns)
    figure, axes = _figure(rows, columns, (_WIDTH * columns / 3, 0.8 + 2.2 * rows))
    for axis, cloud in zip(axes.flat, clouds, strict=False):
        for name, points in cloud.groups.items():
            place = names.index(name)
            colour, mark = LINE_COLOURS[place % len(LINE_COLOURS)], _MARKERS[place % len(_MARKERS)]
            axis.plot([x for x, _ in points], [y for _, y in points], mark, ms=2, color=colour, label=name_of(name))
        axis.set(title=cloud.title, xticks=[], yticks=[])
        axis.spines[:].set_visible(True)
    for axis in axes.flat[len(clouds) :]:
        axis.set_axis_off()
    _title(figure, text)
    _legend_below(figure, axes.flat)
    return figure


@_styled
def plot_paths(
    curves: Sequence[Curve], metric: str, sites: Sequence[str], kept: Mapping[str, Mapping[str, Sequence[int]]]
) -> Any:
    """L0 paths: the metric by the number of removed heads, and the heads that each penalty keeps in each site.

    Args:
        curves: The curve of each path.
        metric: Name of the metric.
        sites: Names of the sites, such as `encoder.0`.
        kept: The number of heads kept in each site, by the gates that were trained and by penalty.
    """
    columns = max(len({curve.language for curve in curves}), len(kept))
    figure, axes = _figure(2, columns, (_WIDTH, 2.3 + 0.13 * len(sites)))
    _draw_curves(axes[0], curves)
    for axis in axes[0]:
        axis.set(xlabel="heads removed", ylabel=metric)
    most = max(count for penalties in kept.values() for counts in penalties.values() for count in counts)
    drawn = None
    for axis, (gates, penalties) in zip(axes[1], kept.items(), strict=False):
        counts = np.array(list(penalties.values())).T  # (sites, penalties)
        drawn = axis.imshow(counts, cmap=_COUNTS, vmin=0, vmax=most, aspect="auto")
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if count > 0.6 * most else "black"
            axis.text(column, row, str(count), ha="center", va="center", fontsize=5, color=colour)
        axis.set_title(f"heads kept, {gates} gates")
        axis.set_xlabel("penalty")
        axis.set_xticks(range(len(penalties)), list(penalties), rotation=45)
        axis.set_yticks(range(len(sites)), sites, fontsize=5)
    for row, count in zip(axes, (len({curve.language for curve in curves}), len(kept)), strict=True):
        for axis in row[count:]:
            axis.set_axis_off()
    figure.colorbar(drawn, ax=axes[1], label="heads")
    return figure


@_styled
def plot_likeness(scores: Mapping[str, HeadScores]) -> Any:
    """Spearman's rank correlation between the values of all pairs of languages; similar languages are neighbours.

    Args:
        scores: The scores by language.

    Raises:
        HeadwiseError: The languages cannot be compared.
    """
    shared = shared_scores(scores)
    if shared is None:
        raise HeadwiseError("the similarity of languages needs scores of the same heads in at least two languages")
    rho = shared.likeness()
    order = clustered(rho)
    rho = rho[np.ix_(order, order)]
    names = [name_of(shared.languages[place]) for place in order]
    size = 1.4 + 0.3 * len(names)
    figure, [[axis]] = _figure(1, 1, (size + 0.6, size))
    drawn = axis.imshow(rho, cmap=_colours(), vmin=-1, vmax=1)
    axis.set_xticks(range(len(names)), names, rotation=90)
    axis.set_yticks(range(len(names)), names)
    if len(names) <= 15:
        for (row, column), value in np.ndenumerate(rho):
            colour = "white" if abs(value) > 0.6 else "black"
            axis.text(column, row, plain(value, 2), ha="center", va="center", fontsize=6, color=colour)
    figure.colorbar(drawn, ax=axis, shrink=0.7, label="Spearman's ρ")
    return figure
