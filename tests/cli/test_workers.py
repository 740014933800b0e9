"""`--workers`: every command that has it prints the numbers that it prints without."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tests.engine.clusters import FakeCluster
from tests.scoring.world import save_model, save_training_data

PLAN = """
study: random-share
model: {folder}/model
task: pos
data: {folder}/data
languages: en,sw
train_languages: en
epochs: 1
learning_rate: 1.0e-2
batch_tokens: 16
shares: [0.5]
draws: 1
resamples: 10
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_training_data(folder / "data")
    save_model(folder / "model")
    (folder / "plan.yaml").write_text(PLAN.format(folder=folder))
    return folder


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> list[FakeCluster]:
    """The clusters that commands start, which are simulated."""
    started: list[FakeCluster] = []

    class Started(FakeCluster):
        def __init__(self, settings: Any) -> None:
            super().__init__(settings.workers)
            started.append(self)

    monkeypatch.setattr("headwise.engine.cluster.Cluster", Started)
    return started


def numbers(found: Any) -> Any:
    """What a command printed, without times and folders."""
    if isinstance(found, dict):
        return {name: numbers(each) for name, each in found.items() if name not in ("seconds", "out", "next", "notes")}
    return [numbers(each) for each in found] if isinstance(found, list) else found


COMMANDS: dict[str, tuple[str, ...]] = {
    "score": ("score", "{w}/model", "--task", "pos", "--data", "{w}/data", "--languages", "en,sw", "--budget", "400"),
    "eval": ("eval", "{w}/model", "--task", "pos", "--data", "{w}/data", "--languages", "en,sw", "--split", "test"),
    "roles": ("roles", "{w}/model", "--data", "{w}/data", "--languages", "en,sw"),
    "study": ("study", "{w}/plan.yaml"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_the_same_numbers_with_workers(
    name: str,
    world: Path,
    clusters: list[FakeCluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    for options in ((), ("--workers", "2")):
        words = [word.format(w=world) for word in COMMANDS[name]]
        out = () if name == "eval" else ("--out", tmp_path / f"run{len(options)}")
        assert run(monkeypatch, *words, *out, "--json", *options) == 0
        captured = capsys.readouterr()
        printed.append(numbers(json.loads(captured.out)))
    assert printed[0] == printed[1]
    [cluster] = clusters
    assert cluster.answered or cluster.tasks
    assert "headwise: 2 workers, one CPU each" in captured.err
    assert ("workers had no work in" in captured.err) == cluster.answered


def test_masks_are_refined_with_workers_as_without(
    world: Path,
    clusters: list[FakeCluster],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [word.format(w=world) for word in COMMANDS["score"]]
    printed = []
    for options in ((), ("--workers", "3")):
        folder = tmp_path / f"run{len(options)}"
        assert run(monkeypatch, *words, "--out", folder, "--json") == 0
        capsys.readouterr()
        assert run(monkeypatch, "refine", folder, "--rounds", 3, "--json", *options) == 0
        printed.append(numbers(json.loads(capsys.readouterr().out)))
    assert printed[0] == printed[1]
    assert clusters[0].answered
