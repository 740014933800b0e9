"""`headwise roles`."""

import json
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.scoring.world import save_data, save_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny tagger and tiny treebanks."""
    folder = tmp_path_factory.mktemp("world")
    return save_model(folder / "model"), save_data(folder / "data")


def test_roles_are_printed_saved_and_joined_with_scores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = world
    scored = ("score", model, "--task", "pos", "--data", data, "--languages", "en,sw", "--budget", 600)
    assert run(monkeypatch, *scored, "--out", tmp_path / "scores", "--json") == 0
    capsys.readouterr()
    command = ("roles", model, "--data", data, "--languages", "en,sw", "--out", tmp_path / "run")
    assert run(monkeypatch, *command, "--scores", tmp_path / "scores") == 0
    text = capsys.readouterr().out
    assert "number of heads with each role" in text
    assert "Mann-Whitney U test" in text
    assert (tmp_path / "run" / "roles.parquet").exists()
    assert run(monkeypatch, *command, "--scores", tmp_path / "scores", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["languages"]) == ["en", "sw"]
    assert {row["relation"] for row in found["languages"]["en"]["best_heads"]} == {"dep"}
    assert [row["language"] for row in found["separators"]] == ["en", "sw"]


def test_pairs_masks_means_and_other_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = world
    scored = ("score", model, "--task", "pos", "--data", data, "--languages", "en,sw", "--budget", 300, "--json")
    assert run(monkeypatch, *scored, "--out", tmp_path / "zero") == 0
    assert run(monkeypatch, *scored, "--baseline", "mean", "--out", tmp_path / "mean") == 0
    command = ("roles", model, "--data", data, "--languages", "en,sw", "--pairs", "en-sw", "--out", tmp_path / "run")
    capsys.readouterr()
    assert run(monkeypatch, *command, "--json") == 0
    assert list(json.loads(capsys.readouterr().out)["languages"]) == ["en", "sw", "en-sw"]
    joined = ("--scores", tmp_path / "zero", "--mean-scores", tmp_path / "mean", "--masks", tmp_path / "zero" / "masks",
              "--compare", tmp_path / "run", "--markdown", tmp_path / "page.md")  # fmt: skip
    assert run(monkeypatch, *command, *joined, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["baseline"] for row in found["values"]} <= {"zero", "mean"}
    assert {row["language"] for row in found["retained"]} == {"en", "sw"}
    assert all(row["same"] == 1.0 for row in found["compared"])
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("## model on ")
    for image in ("layers", "relations", "separators", "retained"):
        assert f"page-{image}.svg" in page or image == "relations"
        assert (tmp_path / f"page-{image}.svg").exists() or image == "relations"
    assert run(monkeypatch, *command, *joined) == 0
    text = capsys.readouterr().out
    assert "roles of the heads that masks keep" in text
    assert "compared with the other run" in text
    assert run(monkeypatch, *command, "--mean-scores", tmp_path / "zero") == 1
    assert "--mean-scores: " in capsys.readouterr().err
    assert run(monkeypatch, *command, "--compare", tmp_path) == 1
    assert "has no roles.json: give a finished run folder" in capsys.readouterr().err


def test_mistakes_name_the_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[Path, Path], tmp_path: Path
) -> None:
    model, data = world
    assert run(monkeypatch, "roles", model, "--data", "nosuch", "--out", tmp_path / "run") == 1
    assert "--data: nosuch: no such treebank" in capsys.readouterr().err
    assert run(monkeypatch, "roles", model, "--data", data, "--scores", tmp_path) == 1
    assert "not a run folder" in capsys.readouterr().err
