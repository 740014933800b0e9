"""Figures and tables of run folders: the numbers of the run, in every format, and errors that name the right run."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.files import write_json
from headwise.report import Curve
from headwise.runs import open_run
from headwise.studies.figure_kinds import FigureKind
from headwise.studies.figures import figure_of, save_plot, table_of
from headwise.studies.kinds import KINDS
from headwise.studies.plots import CurvePlot
from headwise.studies.tables import Figure, StudyTable, as_latex, save_table
from headwise.studies.tuned_study import TunedStudy
from tests.report.samples import HEADS, sample_roles, sample_scores
from tests.studies.targeted_folder import save_targeted

pytest.importorskip("matplotlib")


def save_tuned(folder: Path, kind: str, tables: tuple[StudyTable, ...], curves: tuple[Curve, ...]) -> Path:
    """Write the folder of a finished study, without running one."""
    plots = (CurvePlot("Curves", "A text.", curves, "layers emptied"),) if curves else ()
    study = TunedStudy(folder, kind, "accuracy", tables, (), plots)
    with open_run(folder, {"study": kind, "model": "m", "task": "pos", "data": "d", "seed": 0}):
        write_json(folder / f"{kind}.json", study.to_dict())
    return folder


CURVES = (
    Curve("in-language", "top", (0, 2, 4), (0.0, 1.0, 3.0), (0.0, 0.5, 2.0), (0.0, 1.5, 4.0)),
    Curve("in-language", "odd", (0, 6), (0.0, 5.0), (0.0, 4.0), (0.0, 6.0)),
)


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    table = StudyTable("layers", "accuracy", ("layers emptied", "in-language"), (("top 2", 71.5),))
    return save_tuned(tmp_path / "layers", "layers", (table,), CURVES)


@pytest.fixture
def paths(tmp_path: Path) -> Path:
    points = StudyTable(
        "l0-path",
        "heads kept",
        ("gates", "penalty", "heads", "accuracy"),
        (("all", "0.1", 5, Figure(70.0, -1.0, 0.01)),),
    )
    kept = StudyTable(
        "l0-path-layers", "", ("gates", "penalty", "encoder.0", "encoder.1"), (("all", "0", 4, 4), ("all", "0.1", 1, 4))
    )
    curve = Curve("all gates", "l0", (0, 3), (71.0, 70.0))
    return save_tuned(tmp_path / "paths", "l0-path", (points, kept), (curve,))


@pytest.fixture
def targeted(tmp_path: Path) -> Path:
    scores = sample_scores(["zh", "tr"], HEADS[:6])
    return save_targeted(tmp_path / "targeted", {"zh": 2.0, "tr": -1.0}, scores)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_emptied_layers_have_their_curves(layers: Path) -> None:
    [axis] = figure_of(layers, "layers").axes
    drawn = {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axis.lines}
    assert drawn == {curve.ranking: (list(curve.removed), list(curve.value)) for curve in CURVES}
    assert axis.get_xlabel() == "layers emptied"
    assert table_of(layers, "layers").rows == (("top 2", 71.5),)
    points = table_of(layers, "curves")
    assert points.rows[1] == ("in-language", "top", 2, 1.0, 0.5, 1.5)
    assert len(points.rows) == 5


def test_paths_have_the_metric_and_the_heads_of_every_layer(paths: Path) -> None:
    curve, kept, *_ = figure_of(paths, "paths").axes
    assert curve.lines[0].get_ydata().tolist() == [71.0, 70.0]
    np.testing.assert_array_equal(kept.images[0].get_array(), [[4, 1], [4, 4]])  # (sites, penalties)
    assert [text.get_text() for text in kept.get_yticklabels()] == ["encoder.0", "encoder.1"]
    assert table_of(paths, "paths").columns == ("gates", "penalty", "heads", "accuracy")


def test_roles_by_layer(tmp_path: Path) -> None:
    roles = sample_roles(["zh", "tr"])
    roles.save(tmp_path / "roles" / "roles.json")
    table = table_of(tmp_path / "roles", "roles")
    assert table.columns[:3] == ("stack", "role", "layer 0")
    drawn: Any = figure_of(tmp_path / "roles" / "roles.json", "roles").axes[0].images[0].get_array()
    np.testing.assert_allclose(np.array([row[2:] for row in table.rows], dtype=float), drawn)


def test_maps_gains_and_likeness_as_tables(targeted: Path) -> None:
    [first, *_] = table_of(targeted, "maps").rows
    scores = sample_scores(["zh", "tr"], HEADS[:6])
    assert first[:2] == ("tr", "encoder.0.0")
    assert first[2] == pytest.approx(scores["tr"].value[0])
    gains = table_of(targeted, "gains")
    assert "parameters" not in gains.columns, "columns without a value are left out"
    assert {(row[0], row[3], row[4]) for row in gains.rows} == {("zh", 70.0, 72.0), ("tr", 70.0, 69.0)}
    rho = scores["zh"].compare(scores["tr"]).correlation.rho
    assert table_of(targeted, "likeness").rows[0][2] == pytest.approx(rho)


def test_the_ending_chooses_figure_or_table(targeted: Path, tmp_path: Path) -> None:
    for ending, start in ((".svg", b"<?xml"), (".tex", b"\\begin{tabular}"), (".csv", b"language,mask")):
        save_plot(targeted, "gains", tmp_path / f"gains{ending}")
        assert (tmp_path / f"gains{ending}").read_bytes().startswith(start)
    [turkish, chinese] = sorted(read(tmp_path / "gains.csv"), key=lambda row: row["language"])
    assert (float(chinese["difference"]), float(chinese["difference P"])) == (2.0, 0.5)
    assert turkish["language"] == "tr"
    with pytest.raises(HeadwiseError, match=r"gains\.docx: the ending is one of \.svg, \.pdf, \.png, \.csv, \.tex"):
        save_plot(targeted, "gains", tmp_path / "gains.docx")
    with pytest.raises(HeadwiseError, match=r"the ending of a table is one of \.csv, \.tex"):
        save_table(table_of(targeted, "gains"), tmp_path / "gains.svg")


def test_text_from_data_is_escaped_in_latex() -> None:
    table = StudyTable("one", "", ("a_b", "50%"), ((r"x & \input{y} # $z$ ~^", 1.0), ("a\nb", -2.0)))
    lines = as_latex(table).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[2] == r"a\_b & 50\% \\"
    assert lines[4] == (r"x \& \textbackslash{}input\{y\} \# \$z\$ \textasciitilde{}\textasciicircum{} & 1.00 \\")
    assert lines[5] == r"a b & -2.00 \\"


@pytest.mark.parametrize("kind", ["layers", "paths", "curves", "roles"])
def test_a_run_without_the_figure_is_named(targeted: Path, kind: str) -> None:
    for make in (figure_of, table_of):
        with pytest.raises(HeadwiseError, match=rf"targeted: has no {kind}: they come from"):
            make(targeted, kind)


def test_studies_without_scores_have_no_maps(layers: Path) -> None:
    with pytest.raises(HeadwiseError, match="has no maps: they come from a run that scores heads"):
        figure_of(layers, FigureKind.maps)


def test_every_kind_of_study_says_what_is_done() -> None:
    for name, kind in KINDS.items():
        assert kind.about.endswith((".", "?")), name
        assert 60 < len(kind.about) < 260, name
