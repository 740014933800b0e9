"""Plots as SVG and PNG: every curve is drawn in its colour, and files depend on the data alone."""

import dataclasses
import struct
from pathlib import Path

import pytest

from headwise.errors import MissingPackageError
from headwise.report import Cloud, Curve
from headwise.report.palette import LINE_COLOURS
from headwise.studies.plots import CloudPlot, CurvePlot, Plot, save_plots


@dataclasses.dataclass
class Sample:
    drawn: tuple[Plot, ...]

    def plots(self) -> tuple[Plot, ...]:
        return self.drawn


def sample() -> Sample:
    curves = tuple(
        Curve(language, ranking, (0, 2, 4), (60.0, 61.0, 50.0), (59.0, 60.0, 49.0), (61.0, 62.0, 51.0))
        for language in ("German", "Arabic", "Chinese", "Urdu")
        for ranking in ("lowest", "random")
    )
    empty = Curve("German", "nothing", (), ())
    cloud = Cloud("before tuning", {"en": ((0.0, 1.0), (1.0, 1.0)), "zh": ((2.0, 0.5),)})
    return Sample(
        (
            CurvePlot("Pruned, then tuned", "Accuracy (%) on test data.", (*curves, empty), "heads removed"),
            CloudPlot("Sentences", "", (cloud,)),
        ),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return save_plots(sample(), tmp_path_factory.mktemp("plots"))


def test_every_plot_is_written_twice_with_its_labels(files: tuple[Path, ...]) -> None:
    assert [path.name for path in files] == [
        "pruned-then-tuned.svg", "pruned-then-tuned.png", "sentences.svg", "sentences.png",
    ]  # fmt: skip
    text = files[0].read_text()
    for word in (
        "German",
        "Arabic",
        "Chinese",
        "Urdu",
        "lowest",
        "random",
        "heads removed",
        "Accuracy (%) on test data.",
    ):
        assert f">{word}<" in text
    assert "nothing" not in text
    assert all(colour in text for colour in LINE_COLOURS[:2])
    width, height = struct.unpack(">II", files[1].read_bytes()[16:24])
    assert width > 1200
    assert height > 600, "four panels need two rows"


def test_the_same_study_gives_the_same_files(files: tuple[Path, ...], tmp_path: Path) -> None:
    again = save_plots(sample(), tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in files]


def test_a_study_without_plots_needs_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise MissingPackageError("drawing plots needs the package matplotlib: pip install 'headwise[plots]'")

    monkeypatch.setattr("headwise.studies.plots.require", missing)
    assert save_plots(Sample(()), tmp_path) == ()
    with pytest.raises(MissingPackageError, match="plots"):
        save_plots(sample(), tmp_path)
