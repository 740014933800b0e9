"""`headwise study`: running a YAML plan, printing its tables, and writing reports."""

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwise.runs.config import read_config, write_config
from headwise.studies.page import report_of
from tests.cli.running import run
from tests.report.samples import sample_roles, scores_of
from tests.scoring.world import save_data, save_model
from tests.studies.targeted_folder import save_targeted


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


@pytest.fixture(scope="module")
def scored(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of `headwise score`."""
    folder = tmp_path_factory.mktemp("scored") / "run"
    world = ("--task", "pos", "--data", plan.parent / "data", "--languages", "sw", "--out", folder)
    with pytest.MonkeyPatch.context() as patch:
        assert run(patch, "score", plan.parent / "model", *world, "--budget", 500) == 0
    return folder


def test_a_study_prints_its_tables_and_json(
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


def test_reports_of_a_study_and_of_its_scores(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "report", tmp_path) == 1
    assert "not a run folder" in capsys.readouterr().err
    run(monkeypatch, "study", plan, "--out", tmp_path / "run")
    assert run(monkeypatch, "report", tmp_path / "run") == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "encoder.2.3" in page
    assert "random" in page
    assert run(monkeypatch, "report", tmp_path / "run" / "scoring", "--out", tmp_path / "scores.html") == 0
    assert "encoder.2.3" in (tmp_path / "scores.html").read_text()
    model, data = plan.parent / "model", plan.parent / "data"
    assert run(monkeypatch, "roles", model, "--data", data, "--languages", "sw", "--out", tmp_path / "roles") == 0
    assert run(monkeypatch, "report", tmp_path / "run", "--roles", tmp_path / "roles") == 0
    loaded = report_of(tmp_path / "run", tmp_path / "roles")
    assert loaded.roles is not None
    assert set(loaded.cost[0].units) == {"scoring", "controls", "refining", "testing"}
    for kind in ("gains", "maps", "likeness"):
        assert run(monkeypatch, "plot", tmp_path / "run", kind, "--out", tmp_path / f"{kind}.svg") == 0
        assert (tmp_path / f"{kind}.svg").read_bytes().startswith(b"<?xml")
    capsys.readouterr()
    assert run(monkeypatch, "plot", tmp_path / "run", "curves", "--out", tmp_path / "curves.svg") == 1
    assert "has no curves: they come from an iterative study" in capsys.readouterr().err


def test_roles_of_other_weights_are_refused(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {"sw": scores_of([0.1, -0.1])}
    scores["sw"] = replace(scores["sw"], provenance=replace(scores["sw"].provenance, language="sw", fingerprint="abc"))
    save_targeted(tmp_path / "run", {"sw": 1.0}, scores)
    sample_roles(["sw"]).save(tmp_path / "roles" / "roles.json")
    assert run(monkeypatch, "report", tmp_path / "run", "--roles", tmp_path / "roles") == 1
    assert "the roles are of the weights 8d1c0c4d3b7aee10, but the heads of abc were scored" in capsys.readouterr().err


def test_set_changes_the_plan_but_not_an_existing_run(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("study", plan, "--out", tmp_path / "run", "--set", "languages=sw", "--json")
    assert run(monkeypatch, *command) == 0
    assert list(json.loads(capsys.readouterr().out)["languages"]) == ["sw"]
    assert run(monkeypatch, *command, "--set", "randoms=3") == 1
    assert "randoms" in capsys.readouterr().err


def test_a_changed_option_is_an_error_before_scoring(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, option in (("targeted", "randoms"), ("iterative", "step")):
        mine = tmp_path / f"{kind}.yaml"
        text = plan.read_text().replace("targeted", kind).replace("randoms: 2", "randoms: 1")
        mine.write_text(text.replace("budget: 1200", "budget: 300") + ("step: 6\n" if kind == "iterative" else ""))
        command = ("study", mine, "--out", tmp_path / kind, "--set", "languages=sw")
        assert run(monkeypatch, *command) == 0
        before = (tmp_path / kind / "scoring" / "config.yaml").read_text()
        assert run(monkeypatch, *command, "--set", f"{option}=3", "--set", "budget=2000") == 1
        assert f"contains a run with '{option}'" in capsys.readouterr().err
        assert (tmp_path / kind / "scoring" / "config.yaml").read_text() == before
        assert run(monkeypatch, *command) == 0


def test_a_study_does_not_score_in_the_folder_of_another_run(
    plan: Path, scored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(scored.rglob("*"))
    assert run(monkeypatch, "study", plan, "--out", scored) == 1
    assert "contains a run with 'study' = nothing, not 'targeted'" in capsys.readouterr().err
    assert sorted(scored.rglob("*")) == before


def test_a_failed_first_attempt_can_be_repeated_with_other_options(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("study", plan, "--out", tmp_path / "run", "--set", "languages=sw", "--set", "randoms=0")
    mistakes = {
        "model=nowhere/at-all": "nowhere/at-all",
        "piece=last": "piece: must be one of text, first",
        "budget=1": "budget: 1 units do not cover the first round",
    }
    for change, message in mistakes.items():
        assert run(monkeypatch, *command, "--set", change) == 1
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert message in error
        assert "--" not in error
    assert run(monkeypatch, *command) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "'model' must be text"),
        ({"task": 3}, "'task' must be text, not 3"),
        ({"study": "nosuch"}, "'study' is one of targeted, iterative, stability, correlates, prune-then-tune"),
        ({"languages": 5}, "'languages' must be a list of codes, not 5"),
        ({"options": 5}, "'options' must be a map"),
        ({"budget": ...}, "has no 'budget'"),
    ],
)
def test_a_damaged_config_is_named(
    scored: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    message: str,
) -> None:
    folder = shutil.copytree(scored, tmp_path / "run")
    config = {key: value for key, value in {**read_config(folder), **change}.items() if value is not ...}
    write_config(folder, config)
    assert run(monkeypatch, "report", folder) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith(f"headwise: {folder}")
    assert message in error
    if "languages" in change:  # refine reads this field too
        assert run(monkeypatch, "refine", folder) == 1
        assert message in capsys.readouterr().err


def test_the_command_in_the_report_of_a_run_repeats_it(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--estimand", "truncated", "--players", "ffn", "--limit", 3, "--piece", "first", "--error-rate", 0.2)
    world = ("--task", "pos", "--data", plan.parent / "data", "--languages", "sw", "--out", tmp_path / "my run")
    assert run(monkeypatch, "score", plan.parent / "model", *world, "--budget", 400, "--seed", 3, *options) == 0
    [command] = report_of(tmp_path / "my run").commands
    capsys.readouterr()
    program, *words = shlex.split(command)
    assert program == "headwise"
    before = read_config(tmp_path / "my run")
    words[words.index("--out") + 1] = str(tmp_path / "again")
    assert run(monkeypatch, *words) == 0
    assert read_config(tmp_path / "again") == before


def test_the_command_in_the_report_of_a_study_repeats_it(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my run"
    assert run(monkeypatch, "study", plan, "--set", "budget=300", "--out", folder) == 0
    [command] = report_of(folder).commands
    capsys.readouterr()
    _, *words = shlex.split(command)
    assert run(monkeypatch, *words) == 0  # resumes the finished study
    words[words.index("--out") + 1] = str(tmp_path / "again")
    assert run(monkeypatch, *words) == 0
    assert read_config(tmp_path / "again") == read_config(folder)


def test_studies_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ls", "studies") == 0
    assert "phrasebook" in capsys.readouterr().out.split()


def test_an_unknown_study_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "study", "nothing") == 1
    assert "no such study" in capsys.readouterr().err
