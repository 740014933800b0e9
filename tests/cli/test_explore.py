"""`headwise explore`: from a model or a run to a page, and mistakes in one sentence."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, find_heads
from headwise.explorer import Explorer
from headwise.models import load_model
from tests.cli.running import run
from tests.scoring.world import save_data, save_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("world")
    return save_model(folder / "model"), save_data(folder / "data")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Explorer]:
    """The explorers that were started; each gets Ctrl-C at once."""
    found: list[Explorer] = []

    def interrupted(explorer: Explorer) -> None:
        found.append(explorer)
        raise KeyboardInterrupt

    monkeypatch.setattr(Explorer, "wait", interrupted)
    return found


def test_a_model_with_data_and_a_mask(
    monkeypatch: Any, capsys: Any, world: tuple[Path, Path], seen: list[Explorer], tmp_path: Path
) -> None:
    model, data = world
    mask = HeadMask.without(find_heads(load_model(str(model))), ["encoder.1.0"])
    mask.save(tmp_path / "mask.json")
    options = ["--languages", "sw,fi", "--limit", 2, "--mask", tmp_path / "mask.json", "--out", tmp_path / "masks"]
    assert run(monkeypatch, "explore", model, "--task", "pos", "--data", data, *options) == 0
    [explorer] = seen
    assert {code: len(each) for code, each in explorer.session.examples.items()} == {"sw": 2, "fi": 2}
    assert explorer.mask.off == ("encoder.1.0",)
    assert explorer.session.out == tmp_path / "masks"
    printed = capsys.readouterr().err
    assert f"headwise: open {explorer.url}" in printed
    assert "headwise: the explorer has ended" in printed
    assert repr(explorer) == "Explorer(ended)"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--data", "DATA"], "--task: "),
        (["--task", "pos"], "--data: "),
        (["--task", "pos", "--data", "DATA", "--host", "0.0.0.0"], "--host: other machines can reach 0.0.0.0"),
        (["--task", "pos", "--data", "DATA", "--languages", "xx"], "xx"),
        (["--task", "pos", "--data", "DATA", "--mask", "nothing.json"], "nothing.json: no such file"),
        (["--task", "pos", "--data", "DATA", "--export-dir", "DATA"], "not empty"),
    ],
)
def test_mistakes_are_one_sentence(
    monkeypatch: Any, capsys: Any, world: tuple[Path, Path], seen: list[Explorer], options: list[str], problem: str
) -> None:
    model, data = world
    arguments = [str(data) if each == "DATA" else each for each in options]
    assert run(monkeypatch, "explore", model, *arguments) == 1
    printed = capsys.readouterr().err.strip().splitlines()
    assert printed[-1].startswith("headwise: ")
    assert problem in printed[-1]
    assert seen == []


def test_ctrl_c_ends_the_program_cleanly(world: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = world
    command = [sys.executable, "-m", "headwise", "explore", str(model), "--task", "pos", "--data", str(data)]
    started = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs of a shell may ignore it
    )  # fmt: skip
    assert started.stderr is not None
    for line in started.stderr:
        if "Ctrl-C" in line:
            break
    started.send_signal(signal.SIGINT)
    _, rest = started.communicate(timeout=60)
    assert started.returncode == 0
    assert rest == "headwise: the explorer has ended\n"
