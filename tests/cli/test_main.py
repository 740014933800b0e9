"""The command line: tables, files, and one-line error messages."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise import HeadMask, find_heads, gated, load_pruned
from headwise.data.catalog import open_dataset
from tests.cli.running import run
from tests.families import BY_NAME, difference, inputs_for, outputs_of, uneven_mask

CASE = BY_NAME["xlm-roberta"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CASE.build().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def mask(tmp_path: Path) -> Path:
    uneven_mask(find_heads(CASE.build())).save(tmp_path / "mask.json")
    return tmp_path / "mask.json"


def test_heads_shows_every_site(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    assert run(monkeypatch, "heads", folder) == 0
    shown = capsys.readouterr().out
    assert "12 heads in 3 sites" in shown
    assert "encoder.2" in shown


def test_heads_prints_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run(monkeypatch, "heads", folder, "--json") == 0
    sites = json.loads(capsys.readouterr().out)["sites"]
    assert [site["site"] for site in sites] == ["encoder.0", "encoder.1", "encoder.2"]
    assert sites[0]["heads"] == 4


@torch.no_grad()
@pytest.mark.parametrize("export", ["mask", "folded", "shrunk"])
def test_prune_exports_the_same_model_three_ways(
    monkeypatch: pytest.MonkeyPatch, folder: Path, mask: Path, tmp_path: Path, export: str
) -> None:
    assert run(monkeypatch, "prune", folder, "--mask", mask, "--export", export, "--out", tmp_path / "out") == 0
    model, inputs = CASE.build(), inputs_for(CASE)
    with gated(model, HeadMask.load(mask)):
        expected = outputs_of(model, inputs)
    if export == "mask":
        with gated(model, HeadMask.load(tmp_path / "out" / "mask.json")):
            found = outputs_of(model, inputs)
    elif export == "folded":
        found = outputs_of(type(model).from_pretrained(tmp_path / "out").eval(), inputs)
    else:
        found = outputs_of(load_pruned(tmp_path / "out"), inputs)
    assert difference(found, expected) < 1e-5


def test_a_pruned_folder_is_a_model_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, mask: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, "prune", folder, "--mask", mask, "--out", tmp_path / "out") == 0
    assert "8 of 12 heads off" in capsys.readouterr().out
    assert run(monkeypatch, "heads", tmp_path / "out") == 0
    assert "4 heads in 3 sites" in capsys.readouterr().out


def test_a_mask_of_other_weights_needs_an_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mask: Path, tmp_path: Path
) -> None:
    CASE.build(seed=1).save_pretrained(tmp_path / "tuned")
    assert run(monkeypatch, "prune", tmp_path / "tuned", "--mask", mask, "--out", tmp_path / "o") == 1
    assert "--other-weights" in capsys.readouterr().err
    arguments = ("prune", tmp_path / "tuned", "--mask", mask, "--out", tmp_path / "o", "--other-weights", "--json")
    assert run(monkeypatch, *arguments) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == 8


@pytest.mark.parametrize("name", ["m[/b]", "[red]m", "m:smile:"])
def test_names_are_not_interpreted_as_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)  # the slash in the name is a path separator
    folder.rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "heads", name) == 0
    assert f"{name}: 12 heads in 3 sites" in capsys.readouterr().out


def test_ls_lists_the_architectures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ls", "architectures") == 0
    assert "xlm-roberta" in capsys.readouterr().out
    assert run(monkeypatch, "ls", "architectures", "--json") == 0
    assert json.loads(capsys.readouterr().out)["architectures"]


def test_errors_are_one_line_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, mask: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    BY_NAME["bert"].build().save_pretrained(tmp_path / "other")
    mistakes = [
        (("heads", "./nowhere"), "./nowhere: no such folder"),
        (("heads", tmp_path / "empty"), "not a model"),
        (("prune", folder, "--mask", tmp_path / "no.json", "--out", tmp_path / "o"), "no.json: no such file"),
        (("prune", tmp_path / "other", "--mask", mask, "--out", tmp_path / "o"), "the mask is for the weights"),
        (("prune", folder, "--mask", mask, "--out", folder, "--overwrite"), "this folder contains the model"),
        (
            ("prune", folder, "--mask", mask, "--out", tmp_path / "other"),
            "not empty: choose another for --out, or replace its contents with --overwrite",
        ),
        (("prune", folder, "--mask", mask, "--out", "/proc/nowhere/out"), "cannot be written"),
    ]
    for arguments, message in mistakes:
        assert run(monkeypatch, *arguments) == 1
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("headwise: ")
        assert message in error
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    "arguments", [("prune",), ("ls", "planets"), ("prune", "m", "--mask", "x", "--out", "y", "--export", "z")]
)
def test_wrong_usage_has_exit_code_2(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    assert run(monkeypatch, *arguments) == 2


def test_the_program_is_installed() -> None:
    program = Path(sys.executable).with_name("headwise")
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("headwise ")


def installed(arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    program = shlex.quote(str(Path(sys.executable).with_name("headwise")))
    return subprocess.run(f"{program} {arguments}", shell=True, stderr=subprocess.PIPE, text=True, **options)


def test_python_m_headwise_is_the_program() -> None:
    command = [sys.executable, "-m", "headwise", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("headwise ")


def test_a_shell_can_complete_commands() -> None:
    environment = {**os.environ, "_HEADWISE_COMPLETE": "complete_bash", "COMP_WORDS": "headwise sc", "COMP_CWORD": "1"}
    program = Path(sys.executable).with_name("headwise")
    assert subprocess.run([program], env=environment, capture_output=True, text=True).stdout.split() == ["score"]


def test_ls_data_describes_every_named_set(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ls", "data", "--json") == 0
    found = json.loads(capsys.readouterr().out)["data"]
    assert {"phrasebook", "commands", "hub:xnli"} <= {each["name"] for each in found}
    for each in found:
        opened = [open_dataset(each["name"], task) for task in each["tasks"]]
        assert {len(dataset.languages) for dataset in opened} == {each["languages"]}
    assert run(monkeypatch, "ls", "data") == 0
    table = capsys.readouterr().out
    assert all(each["name"] in table and each["about"] in table for each in found)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_a_one_line_error() -> None:
    for arguments in ("ls tasks", "ls architectures"):
        done = installed(f"{arguments} > /dev/full")
        assert done.returncode == 1
        assert done.stderr == "headwise: the output: cannot be read or written: No space left on device\n"


def test_a_closed_pipe_prints_no_error() -> None:
    assert installed("ls tasks | true").stderr == ""


def test_ctrl_c_during_imports_prints_one_line() -> None:
    program = Path(sys.executable).with_name("headwise")
    command = [sys.executable, "-X", "importtime", str(program), "heads", "./nowhere"]
    started = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # A shell starts background jobs with interrupts ignored, and their child processes inherit this.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert started.stderr is not None
    for line in started.stderr:
        if " torch." in line:
            break
    started.send_signal(signal.SIGINT)
    rest = started.stderr.read().splitlines()
    assert started.wait(60) == 130
    assert [line for line in rest if not line.startswith("import time:")] == ["headwise: stopped"]
