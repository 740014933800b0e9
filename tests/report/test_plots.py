"""Figures for papers: they show the data, and the same data give the same file."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.report import Curve
from headwise.report.plots import plot_curves, plot_gains, plot_likeness, plot_maps, save_figure
from tests.report.samples import HEADS, sample_curves, sample_kinds, sample_scores

pytest.importorskip("matplotlib")
THREE = ("zh", "tr", "ar")


def test_maps_have_the_values_of_every_language() -> None:
    scores = sample_scores(THREE)
    axes = [axis for axis in plot_maps(scores).axes if axis.images]
    assert [axis.get_title() for axis in axes[:3]] == ["Chinese", "Turkish", "Arabic"]
    for axis, each in zip(axes, scores.values(), strict=False):
        np.testing.assert_array_equal(np.asarray(axis.images[0].get_array()), each.values().reshape(12, 12))
        assert len(axis.lines) == len(each.decided("harmful"))


def test_gains_have_dots_at_their_differences() -> None:
    kinds = sample_kinds(THREE)
    [axis] = plot_gains(kinds, "accuracy").axes
    drawn = sorted(
        float(line.get_xdata()[0]) for line in axis.lines if line.get_marker() in "os" and len(line.get_xdata())
    )
    expected = sorted(gain.difference for kind in kinds if kind.main for gain in kind.gains)
    assert drawn == pytest.approx(expected)
    assert [label.get_text() for label in axis.get_yticklabels()] == ["Chinese", "Turkish", "Arabic"]


def test_all_texts_of_a_figure_have_the_size_of_its_style() -> None:
    [gains] = plot_gains(sample_kinds(THREE), "accuracy").axes
    assert {text.get_fontsize() for text in gains.get_legend().get_texts()} == {8}
    maps = plot_maps(sample_scores(THREE))
    sizes = {text.get_fontsize() for axis in maps.axes for text in (axis.title, axis.yaxis.label, axis.xaxis.label)}
    assert sizes == {8}
    names = {line.get_label(): line.get_marker().lower() for line in gains.lines}
    assert [name for name, marker in names.items() if marker == "d" and not name.startswith("_")] == [
        "as many at random"
    ]


def test_curves_have_their_points() -> None:
    curves = sample_curves(THREE)
    axes = plot_curves(curves, "accuracy").axes
    first = [curve for curve in curves if curve.language == "zh"]
    for line, curve in zip(axes[0].lines, first, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), curve.value)


def test_likeness_has_the_rank_correlations() -> None:
    scores = sample_scores(THREE)
    axis = plot_likeness(scores).axes[0]
    rho = np.asarray(axis.images[0].get_array())
    np.testing.assert_allclose(np.diag(rho), 1)
    assert rho[0, 1] == pytest.approx(rho[1, 0])
    with pytest.raises(HeadwiseError, match="at least two languages"):
        plot_likeness(sample_scores(["zh"], HEADS))


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_files_are_the_same_for_the_same_data(tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        save_figure(plot_likeness(sample_scores(THREE, HEADS[:9])), tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[ending])


def test_other_endings_are_named(tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match=r"fig\.gif: the ending is one of \.svg, \.pdf, \.png"):
        save_figure(None, tmp_path / "fig.gif")


def test_one_legend_below_the_plots_names_the_curves_of_all_of_them() -> None:
    curves = [Curve("zh", "stars", (0, 9), (60.0, 50.0)), Curve("tr", "michel", (0, 9), (61.0, 52.0))]
    figure = plot_curves(curves, "accuracy")
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["stars", "michel"]
    assert [axis.get_legend() for axis in figure.axes] == [None, None]
    [single] = plot_curves(curves[:1], "accuracy").legends
    assert [text.get_text() for text in single.get_texts()] == ["stars"]


def test_plots_of_curves_have_the_same_scale_also_where_levels_differ() -> None:
    curves = [Curve("zh", "stars", (0, 9), (20.0, 24.0)), Curve("tr", "stars", (0, 9), (70.0, 72.0))]
    one, two = (axis.get_ylim() for axis in plot_curves(curves, "accuracy").axes)
    assert one[1] - one[0] == pytest.approx(two[1] - two[0])
    assert one[1] < two[0]


def test_maps_of_values_without_a_sign_start_at_zero() -> None:
    [scores] = sample_scores(["zh"]).values()
    unsigned = dataclasses.replace(scores, provenance=dataclasses.replace(scores.provenance, signed=False))
    axis, bar = plot_maps({"zh": unsigned}).axes
    assert axis.images[0].get_clim()[0] == 0
    assert "harmful" not in bar.get_ylabel()
