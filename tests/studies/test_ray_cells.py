"""Tuned cells and roles on real Ray workers: a driver that is killed keeps finished cells, and no number changes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headwise.runs import read_run
from tests.scoring.world import save_model, save_training_data

pytest.importorskip("ray", reason="Ray is not installed: pip install 'headwise[cluster]'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLAN = """
study: random-share
model: {folder}/model
task: pos
data: {folder}/data
languages: en,sw
train_languages: en
epochs: 2
learning_rate: 1.0e-2
batch_tokens: 16
shares: [0.2, 0.5]
draws: 3
resamples: 20
"""


def headwise(*words: object) -> list[str]:
    return [sys.executable, "-m", "headwise", *map(str, words)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_training_data(folder / "data")
    save_model(folder / "model")
    (folder / "plan.yaml").write_text(PLAN.format(folder=folder))
    return folder


def run(*words: object) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(headwise(*words), cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def tuned(folder: Path) -> int:
    """Number of tuned models whose results are recorded."""
    if not (folder / "config.yaml").exists():
        return 0
    with read_run(folder) as opened:
        return sum(stream.startswith("tuning ") for stream in opened.journal.streams())


def test_a_killed_study_keeps_its_finished_cells(world: Path, tmp_path: Path) -> None:
    run("study", world / "plan.yaml", "--out", tmp_path / "here")
    away = ("study", world / "plan.yaml", "--out", tmp_path / "away", "--workers", 2, "--cell-cpus", 1)
    with subprocess.Popen(headwise(*away), cwd=ROOT, stderr=subprocess.PIPE, text=True) as driver:
        deadline = time.monotonic() + 300
        while tuned(tmp_path / "away") < 2 and driver.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
    kept, all_models = tuned(tmp_path / "away"), tuned(tmp_path / "here")
    assert 2 <= kept < all_models, "the driver was killed in the middle"
    run(*away)
    assert tuned(tmp_path / "away") == all_models
    assert results_in(tmp_path / "away") == results_in(tmp_path / "here")


def results_in(folder: Path) -> Any:
    return json.loads((folder / "random-share.json").read_text())


def test_roles_on_workers(world: Path, tmp_path: Path) -> None:
    command = ("roles", world / "model", "--data", world / "data", "--languages", "en,sw")
    run(*command, "--out", tmp_path / "here")
    said = run(*command, "--out", tmp_path / "away", "--workers", 1)
    assert "workers had no work in" in said
    here, away = ((tmp_path / name / "roles.csv").read_text() for name in ("here", "away"))
    assert here == away
