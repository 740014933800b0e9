"""Real Ray clusters on this machine: the same bits, also when processes are killed or stopped."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.engine import EngineSettings
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.errors import HeadwiseError
from tests.engine.worlds import random_rows
from tests.methods.worlds import tiny_problem
from tests.scoring.world import save_data, save_model

pytest.importorskip("ray", reason="Ray is not installed: pip install 'headwise[cluster]'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(ClusterSettings(workers=2, timeout=8.0)) as found:
        yield found


def many_rows(problem: Any) -> Any:
    return random_rows(problem.engine(), 4000)


@pytest.mark.parametrize("family", ["xlm-roberta", "marian"])
def test_workers_return_the_bits_of_this_process(cluster: Cluster, family: str) -> None:
    problem = replace(tiny_problem(family), settings=EngineSettings(token_budget=64))
    on, index = random_rows(problem.engine(), 300)  # type: ignore[arg-type]
    engine = replace(problem, make_engine=cluster.make_engine).engine()
    assert torch.equal(engine.values(on, index).values, problem.engine().values(on, index).values)
    found, expected = engine.gradients(on[:40], index[:40]), problem.engine().gradients(on[:40], index[:40])
    assert torch.equal(found.gradients, expected.gradients)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_is_killed_or_hangs_changes_no_bit(cluster: Cluster, number: signal.Signals) -> None:
    problem = replace(tiny_problem("xlm-roberta"), settings=EngineSettings(token_budget=64))
    on, index = many_rows(problem)
    expected = problem.engine().values(on, index)
    engine = replace(problem, make_engine=cluster.make_engine).engine()
    engine.values(on[:50], index[:50])
    before, draw = cluster.replaced, random.Random(0)

    def strike() -> None:
        os.kill(draw.choice(list(cluster.processes.values()))[1], number)

    timer = threading.Timer(0.3, strike)
    timer.start()
    found = engine.values(on, index)
    timer.join()
    assert cluster.replaced > before, "the worker was struck when all was done: give it more to do"
    assert torch.equal(found.values, expected.values)
    assert found.cost.units == expected.cost.units


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    top = tmp_path_factory.mktemp("files")
    return save_model(top / "model"), save_data(top / "data")


def score(files: tuple[Path, Path], out: Path, *options: str) -> list[str]:
    model, data = files
    return [
        *(sys.executable, "-m", "headwise", "score", str(model), "--task", "pos", "--data", str(data)),
        *("--languages", "en,sw", "--budget", "12000", "--error-rate", "1e-12", "--out", str(out), *options),
    ]


def scores_in(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("scores/*.json"))}


def test_the_command_line_gives_the_same_scores_after_ctrl_c_and_a_killed_driver(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    subprocess.run(score(files, tmp_path / "local"), check=True, cwd=ROOT, capture_output=True)
    command = score(files, tmp_path / "workers", "--workers", "2")
    for number, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        driver = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
        wait_for_rounds(tmp_path / "workers", driver)
        if number == signal.SIGINT:
            os.killpg(driver.pid, number)  # a terminal sends Ctrl-C to all processes
        else:
            driver.kill()
        said = driver.communicate(timeout=60)[1]
        assert driver.returncode == code, said
        assert number != signal.SIGINT or "the results so far are saved; resume with: headwise score" in said
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    assert scores_in(tmp_path / "workers") == scores_in(tmp_path / "local") != {}


def wait_for_rounds(folder: Path, driver: subprocess.Popen[str]) -> None:
    """Wait until the driver has recorded another round."""
    ahead, deadline = folder / "journal.sqlite-wal", time.monotonic() + 120
    before = ahead.stat().st_size if ahead.exists() else 0
    while time.monotonic() < deadline and driver.poll() is None:
        if ahead.exists() and ahead.stat().st_size not in (0, before):
            return
        time.sleep(0.01)


def test_a_closed_cluster_says_so() -> None:
    problem = tiny_problem("xlm-roberta")
    cluster = Cluster(ClusterSettings(workers=1))
    with cluster:
        engine = replace(problem, make_engine=cluster.make_engine).engine()
    with pytest.raises(HeadwiseError, match="the cluster was closed"):
        engine.values(*random_rows(problem.engine(), 3))  # type: ignore[arg-type]
