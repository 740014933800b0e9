"""`headwise study`: a plan in YAML becomes a table, and the second time it is only read."""

import json
from pathlib import Path

import pytest

from tests.cli.running import run
from tests.scoring_world import save_data, save_model


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    model, data = save_model(folder / "model"), save_data(folder / "data")
    path = folder / "mine.yaml"
    path.write_text(
        f"study: targeted\nmodel: {model}\ntask: pos\ndata: {data}\nlanguages: en,sw\nestimand: truncated\n"
        "budget: 1200\nrandoms: 2\nresamples: 100\noptions: {bases: 4, flips: 6, error_rate: 0.5}\n"
    )
    return path


def test_a_study_prints_a_table_and_its_figures(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "study", plan, "--out", tmp_path / "run") == 0
    shown = capsys.readouterr().out
    assert "targeted" in shown
    assert "mean gain" in shown
    assert run(monkeypatch, "study", plan, "--out", tmp_path / "run", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures["languages"]) == {"en", "sw"}
    assert figures == json.loads((tmp_path / "run" / "targeted.json").read_text())


def test_a_study_and_its_scores_become_pages(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", tmp_path) == 1
    assert "no run there" in capsys.readouterr().err
    run(monkeypatch, "study", plan, "--out", tmp_path / "run")
    assert run(monkeypatch, "report", tmp_path / "run") == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "encoder.2.3" in page
    assert "random" in page
    assert run(monkeypatch, "report", tmp_path / "run" / "scoring", "--out", tmp_path / "scores.html") == 0
    assert "encoder.2.3" in (tmp_path / "scores.html").read_text()


def test_a_study_may_differ_from_its_plan_but_not_from_what_is_in_its_folder(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("study", plan, "--out", tmp_path / "run", "--set", "languages=sw", "--json")
    assert run(monkeypatch, *command) == 0
    assert list(json.loads(capsys.readouterr().out)["languages"]) == ["sw"]
    assert run(monkeypatch, *command, "--set", "randoms=3") == 1
    assert "randoms" in capsys.readouterr().err


def test_studies_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ls", "studies") == 0
    assert "phrasebook" in capsys.readouterr().out.split()


def test_an_unknown_study_is_a_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "study", "nothing") == 1
    assert "no such study" in capsys.readouterr().err
