"""`headwise score` and `headwise compare`: run folders can be resumed, compared and used for pruning."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, HeadScores, HeadwiseError, load_pruned
from headwise.cli.score import show_estimate
from headwise.runs import read_run
from tests.cli.running import run
from tests.scoring.world import Dawdler, save_data, save_model

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, ...]:
    """The command to score a tiny tagger on tiny treebanks."""
    folder = tmp_path_factory.mktemp("world")
    model, data = save_model(folder / "model"), save_data(folder / "data")
    return ("score", model, "--task", "pos", "--data", data, "--languages", "en,sw", "--budget", 40)


@pytest.fixture
def dawdler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick method in place of headwise's own."""
    monkeypatch.setattr("headwise.scoring.run.find_method", lambda name, **options: Dawdler(**options))


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def last_error(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.usefixtures("dawdler")
def test_scores_are_printed_and_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    assert run(monkeypatch, *world, "--out", tmp_path / "run", "--json") == 0
    result = shown(capsys)
    scores = HeadScores.load(tmp_path / "run" / "scores" / "sw.json")
    row = result["languages"]["sw"]
    assert row["harmful"] == list(scores.decided("harmful"))
    assert (row["units"], row["examples"], row["finished"], len(row["rows"])) == (40, 4, True, 12)
    assert result["out"] == str(tmp_path / "run")
    assert run(monkeypatch, *world, "--out", tmp_path / "run") == 0
    table = capsys.readouterr().out
    lowest = scores.ranked()[0]
    place = scores.players.index(lowest)
    assert f"{lowest} {show_estimate(scores.value[place], scores.stderr[place])}" in table
    assert f"{scores.ranked()[-1]} +" in table
    assert "undecided at an error rate of 0.1" in table
    assert "aligned" in table
    assert str(len(scores.decided("helpful"))) in table


def test_the_output_lists_likely_harmful_heads_and_next_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    """No head is decided harmful with this small budget, but `prune --likely` removes heads."""
    command = (*world, "--languages", "en", "--method", "permutation", "--budget", 800, "--out", tmp_path / "a run")
    assert run(monkeypatch, *command, "--json") == 0
    result = shown(capsys)
    row = result["languages"]["en"]
    scores = HeadScores.load(tmp_path / "a run" / "scores" / "en.json")
    off = scores.mask("likely").off
    assert off
    assert sorted(row["likely_harmful"]) == sorted(off)
    assert len(row["harmful"]) < len(off)
    assert run(monkeypatch, *command) == 0
    table = capsys.readouterr().out
    assert f"en: {len(row['harmful'])} proved harmful" in table
    assert f"{len(off)} likely harmful (about 10% of them may not be): encoder " in table
    assert row["likely_harmful"][0].removeprefix("encoder.") in table.split("likely harmful (", 1)[1]
    lines = [line.strip() for line in table.splitlines()[-3:]]
    assert lines == result["next"]
    program, *words = shlex.split(lines[0])
    assert program == "headwise"
    assert "--likely" in words
    words[words.index("--out") + 1] = str(tmp_path / "cut")
    assert run(monkeypatch, *words) == 0
    assert f"{len(off)} of 12 heads off" in capsys.readouterr().out


def test_methods_without_likely_harmful_heads_print_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    command = (*world, "--languages", "en", "--method", "michel", "--budget", 400, "--out", tmp_path / "run")
    assert run(monkeypatch, *command, "--json") == 0
    assert shown(capsys)["languages"]["en"]["likely_harmful"] is None
    assert run(monkeypatch, *command) == 0
    table = capsys.readouterr().out
    assert "of them may not be" not in table
    assert "--likely" not in table


@pytest.mark.parametrize(
    ("value", "stderr", "expected"),
    [
        (-0.01234, 0.00456, "-0.0123 ± 0.0046"),
        (-1.234e-06, 4.5e-07, "-1.23e-06 ± 4.5e-07"),
        (31.9, 15.2, "+32 ± 15"),
        (0.25, 0.0, "+0.25"),
        (-2.5e-07, float("nan"), "-2.5e-07"),
    ],
)
def test_values_have_significant_digits(value: float, stderr: float, expected: str) -> None:
    assert show_estimate(value, stderr) == expected


@pytest.mark.usefixtures("dawdler")
def test_the_default_folder_is_named_and_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *world, "--limit", 2, "--option", "error_rate=0.05", "--json") == 0
    out = shown(capsys)["out"]
    assert out.startswith("runs/")
    assert out.endswith("-pos-stars")
    assert run(monkeypatch, "ls", "runs", "--json") == 0
    listed = shown(capsys)["runs"]
    assert (listed[out]["limit"], listed[out]["options"]["error_rate"]) == (2, 0.05)
    assert run(monkeypatch, "ls", "runs") == 0
    assert "en, sw" in capsys.readouterr().out


@pytest.mark.usefixtures("dawdler")
def test_a_broken_run_is_named_and_the_others_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *world, "--out", "runs/whole") == 0
    Path("runs/broken").mkdir()
    Path("runs/broken/config.yaml").write_text("seed: [")
    capsys.readouterr()
    assert run(monkeypatch, "ls", "runs") == 0
    shown = capsys.readouterr()
    assert "runs/whole" in shown.out
    assert "runs/broken/config.yaml, line 1: not YAML" in shown.err


@pytest.mark.usefixtures("dawdler")
def test_ctrl_c_prints_how_to_resume(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    command = (*world, "--out", tmp_path / "a run")
    monkeypatch.setenv("STOP_AT", "2")
    assert run(monkeypatch, *command) == 130
    error = last_error(capsys)
    assert error.startswith("headwise: stopped; the results so far are saved; resume with: headwise score ")
    assert f"--out '{tmp_path}/a run'" in error
    with read_run(tmp_path / "a run") as kept:
        assert kept.journal.count("en") == 2
    monkeypatch.delenv("STOP_AT")
    assert run(monkeypatch, *command, "--json") == 0
    assert shown(capsys)["languages"]["sw"]["finished"]


@pytest.mark.usefixtures("dawdler")
def test_a_reached_time_limit_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    monkeypatch.setenv("PAUSE", "0.6")
    assert run(monkeypatch, *world, "--languages", "fi", "--seconds", 0.1, "--out", tmp_path / "run") == 0
    assert "repeat the command to continue" in capsys.readouterr().out


@pytest.mark.usefixtures("dawdler")
def test_runs_are_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    for seed, estimand in ((0, "full"), (1, "full"), (2, "truncated")):
        options = ("--seed", seed, "--estimand", estimand, "--out", tmp_path / str(seed), "--json")
        assert run(monkeypatch, *world, *options) == 0
    capsys.readouterr()
    one, two, three = (tmp_path / str(seed) for seed in range(3))
    assert run(monkeypatch, "compare", one, two, "--json") == 0
    found = shown(capsys)["languages"]["sw"]
    expected = HeadScores.load(one / "scores" / "sw.json").compare(HeadScores.load(two / "scores" / "sw.json"))
    assert found == json.loads(json.dumps(expected.to_dict()))
    assert run(monkeypatch, "compare", one, two) == 0
    assert f"{expected.correlation.rho:.3f}" in capsys.readouterr().out
    assert run(monkeypatch, "compare", one, three) == 1
    assert "estimate full cannot be compared with scores that estimate truncated(0.5)" in last_error(capsys)
    assert run(monkeypatch, "compare", one, tmp_path / "nowhere") == 1
    assert "nowhere: not a run folder" in last_error(capsys)


@pytest.mark.usefixtures("dawdler")
def test_a_run_can_be_pruned_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    assert run(monkeypatch, *world, "--out", tmp_path / "run", "--json") == 0
    assert run(monkeypatch, "prune", tmp_path / "run", "--language", "en", "--harmful", "--out", tmp_path / "cut") == 0
    mask = HeadMask.load(tmp_path / "run" / "masks" / "en.json")
    assert f"{len(mask.off)} of 12 heads off" in capsys.readouterr().out
    assert load_pruned(tmp_path / "cut")
    assert run(monkeypatch, "prune", tmp_path / "run", "--language", "zh", "--out", tmp_path / "no") == 1
    assert "has no scores of --language zh: it has en, sw" in last_error(capsys)
    assert run(monkeypatch, "prune", tmp_path / "run", "--out", tmp_path / "no") == 1
    assert "give a model and --mask, or a run folder and --language" in last_error(capsys)


def test_methods_agree_on_clear_heads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    for method in ("stars", "gradient-screen"):
        command = (*world, "--languages", "en", "--method", method, "--budget", 3000, "--out", tmp_path / method)
        assert run(monkeypatch, *command, "--json") == 0
        row = shown(capsys)["languages"]["en"]
        assert row["units"] <= 3000
        assert row["provenance"]["method"] == method
    assert run(monkeypatch, "compare", tmp_path / "stars", tmp_path / "gradient-screen", "--json") == 0
    assert shown(capsys)["languages"]["en"]["clear_signs"]["share"] > 0.7


def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[object, ...], tmp_path: Path
) -> None:
    mistakes = [
        (("--method", "guess"), "there is no method 'guess': choose one of stars"),
        (("--game", "chess"), "--game: must be one of accuracy, probability"),
        (("--game", "f1"), "--game: 'f1' is for entities and slots, not for pos: use accuracy"),
        (("--estimand", "half"), "--estimand: 'full', 'truncated' or 'truncated(SHARE)'"),
        (("--players", "neurons"), "--players: must be one of heads, ffn, layers, kv, not 'neurons'"),
        (("--piece", "last"), "--piece: must be one of text, first, not 'last'"),
        (("--languages", "xx"), "no language 'xx'"),
        (("--split", "train"), "no split 'train'"),
        (("--data", tmp_path / "nowhere"), "no such file or folder"),
        (("--task", "nli"), "nli"),
        (("--method", "gradient-screen", "--error-rate", 0.1), "has no option 'error_rate'"),
        (("--option", "rule"), "--option: rule: must be NAME=VALUE"),
        (("--option", "rule=voita"), "the method 'stars' has no option 'rule'"),
        (("--method", "relevance", "--option", "rule=guess"), "'guess'"),
        (("--budget", "inf"), "--budget: must be a finite number, not inf"),
        (("--budget", 1), "--budget: 1 units do not cover the first round"),
        (("--out", "/proc/nowhere/run"), "cannot be written"),
    ]
    for options, message in mistakes:
        assert run(monkeypatch, *world, "--out", tmp_path / "run", *options) == 1, options
        error = last_error(capsys)
        assert error.startswith("headwise: ")
        assert message in error
    for options in (("--budget", "much"), ("--limit", 0), ("--budget", 0), ("--whatever",)):
        assert run(monkeypatch, *world, *options) == 2


def test_choices_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for what, name in (("methods", "stars"), ("games", "probability")):
        assert run(monkeypatch, "ls", what) == 0
        assert name in capsys.readouterr().out.split()
        assert run(monkeypatch, "ls", what, "--json") == 0
        assert name in shown(capsys)[what]


@pytest.fixture
def slow_run(world: tuple[object, ...], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in a separate process, after a few rounds."""
    arguments = map(str, (*world, "--out", tmp_path / "run"))
    environment = {**os.environ, "PAUSE": "0.3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.scoring.world", *arguments]
    worker = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    try:
        wait_for_rounds(tmp_path / "run", worker)
        yield worker
    finally:
        worker.kill()
        worker.wait()


def wait_for_rounds(folder: Path, worker: subprocess.Popen[bytes], rounds: int = 2) -> None:
    for _ in range(1200):
        with suppress(HeadwiseError), read_run(folder) as found:
            if found.journal.count("en") >= rounds:
                return
        assert worker.poll() is None, "the run ended too soon"
        time.sleep(0.05)
    pytest.fail("the run never began")


@pytest.mark.usefixtures("dawdler")
def test_a_run_has_one_writer_and_resumes_after_a_kill(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: tuple[object, ...],
    tmp_path: Path,
    slow_run: subprocess.Popen[bytes],
) -> None:
    command = (*world, "--out", tmp_path / "run")
    assert run(monkeypatch, *command) == 1
    assert f"process {slow_run.pid} is writing to this run" in last_error(capsys)
    slow_run.kill()
    slow_run.wait()
    with read_run(tmp_path / "run") as cut:
        assert 2 <= cut.journal.count("en") + cut.journal.count("sw") < 10
    assert not (tmp_path / "run" / "scores.parquet").exists()
    assert run(monkeypatch, *command, "--json") == 0
    assert run(monkeypatch, *world, "--out", tmp_path / "whole", "--json") == 0
    for language in ("en", "sw"):
        files = [(tmp_path / name / "scores" / f"{language}.json").read_bytes() for name in ("run", "whole")]
        assert files[0] == files[1]


@pytest.mark.usefixtures("dawdler")
def test_sigterm_saves_and_prints_how_to_resume(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: tuple[object, ...],
    tmp_path: Path,
    slow_run: subprocess.Popen[bytes],
) -> None:
    slow_run.send_signal(signal.SIGTERM)
    _, errors = slow_run.communicate(timeout=60)
    assert slow_run.returncode == 143
    # The device and one line, and none of the progress bars of other libraries, which loaded a model.
    device, line = errors.decode().splitlines()
    assert device == "headwise: device cpu, dtype float32"
    assert line.startswith("headwise: stopped; the results so far are saved; resume with: headwise score ")
    assert run(monkeypatch, *world, "--out", tmp_path / "run", "--json") == 0
    assert shown(capsys)["languages"]["sw"]["finished"]
