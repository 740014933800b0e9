"""`headwise study` with `--only`, `--shard` and `--part`: several machines measure one study."""

import json
import shlex
from pathlib import Path

import pytest

from headwise.errors import MissingPackageError
from headwise.studies.parts import Part
from tests.cli.running import run
from tests.studies.planted import save_world


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of one ranking, one number of heads, and the whole model: two tuned models in two languages."""
    folder = save_world(tmp_path_factory.mktemp("world"))
    path = folder / "mine.yaml"
    path.write_text(
        f"study: rank-then-tune\nmodel: {folder / 'model'}\ntask: pos\ndata: {folder / 'data'}\nlanguages: es,tr\n"
        "method: michel\nrankings: [michel]\ncounts: [8]\nepochs: 1\nlearning_rate: 1.0e-4\nresamples: 50\n"
    )
    return path


@pytest.fixture(scope="module")
def whole(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study on one machine."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        assert run(patch, "study", plan, "--out", folder) == 0
    return folder


def test_shards_are_measured_apart_and_merged(
    plan: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / f"part {shard}" for shard in (1, 2)]
    for shard, folder in enumerate(folders, 1):
        assert run(monkeypatch, "study", plan, "--shard", f"{shard}/2", "--out", folder) == 0
        shown = capsys.readouterr().out
        assert f"2 of 4 cells are measured in {folder}" in shown
        [line] = [line for line in shown.splitlines() if line.startswith("When all parts are done: ")]
        words = shlex.split(line.partition(": ")[2])
        assert words[:3] == ["headwise", "study", str(plan)]
        assert words[words.index("--part") + 1] == str(folder)
        assert not (folder / "rank-then-tune.json").exists()
    monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)  # nothing is tuned again
    parts = [word for folder in folders for word in ("--part", folder)]
    assert run(monkeypatch, "study", plan, *parts, "--out", tmp_path / "all", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == json.loads((whole / "rank-then-tune.json").read_text())


def test_only_measures_the_cells_that_match(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "study", plan, "--only", "michel*test tr") == 0
    assert "1 of 4 cells are measured in runs/study-mine-michel-test-tr" in capsys.readouterr().out
    assert run(monkeypatch, "study", plan, "--only", "nothing like this", "--out", tmp_path / "none") == 1
    assert "none of the 4 cells matches 'nothing like this'" in capsys.readouterr().err


def test_mistakes_are_named(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*options: object) -> str:
        assert run(monkeypatch, "study", plan, "--out", tmp_path / "run", *options) != 0
        return capsys.readouterr().err

    assert "must be NUMBER/SHARDS such as 1/4" in error("--shard", "two")
    assert "must be from 1/2 to 2/2" in error("--shard", "3/2")
    assert "leave it out with --only and --shard" in error("--shard", "1/2", "--part", tmp_path)
    assert "not a run folder" in error("--part", tmp_path / "nowhere")
    assert Part.read(None, None) is None


def test_a_part_of_another_plan_is_refused(
    plan: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("study", plan, "--set", "epochs=2", "--part", whole, "--out", tmp_path / "run")
    assert run(monkeypatch, *command) == 1
    assert "'epochs'" in capsys.readouterr().err


def test_plots_are_drawn_at_the_end(
    plan: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (whole / "ranked-then-tuned.svg").read_text().count("michel") >= 1
    assert (whole / "ranked-then-tuned.png").stat().st_size > 1000

    def missing(*_: object) -> None:
        raise MissingPackageError("drawing plots needs the package matplotlib: pip install 'headwise[plots]'")

    monkeypatch.setattr("headwise.studies.plots.require", missing)
    assert run(monkeypatch, "study", plan, "--out", whole) == 0
    assert "Plots are not drawn: drawing plots needs the package matplotlib" in capsys.readouterr().out
