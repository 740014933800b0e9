"""A real Ray cluster of three nodes on this machine: one of them is killed while a command uses the cluster."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scoring.world import save_data, save_model

pytest.importorskip("ray", reason="Ray is not installed: pip install 'headwise[cluster]'")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RAY = str(Path(sys.executable).with_name("ray"))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def ray_node(*options: str) -> Iterator[subprocess.Popen[str]]:
    """A node of a Ray cluster, with ports of its own; it ends with the block."""
    process = next(filter(None, (start_node(*options) for _ in range(6))), None)  # Ray gives up early on a busy machine
    assert process is not None, "no node could be started"
    with process:
        try:
            yield process
        finally:
            process.terminate()  # it ends the processes of its own node


def start_node(*options: str) -> subprocess.Popen[str] | None:
    ports = [f"--{name}-port={free_port()}" for name in ("node-manager", "object-manager", "metrics-export")]
    command = [RAY, "start", "--block", "--disable-usage-stats", "--object-store-memory=80000000", *ports, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "Ray runtime started" in line:
            return process
    process.wait()
    return None


@pytest.fixture(scope="module")
def nodes() -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """The address of a cluster, and the two nodes that have a CPU. All processes have the same token."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        port = free_port()
        start = ("--num-cpus=0", "--include-dashboard=false", "--node-ip-address=127.0.0.1")
        stack.enter_context(ray_node("--head", f"--port={port}", *start))
        address = f"127.0.0.1:{port}"
        found = [
            stack.enter_context(ray_node(f"--address={address}", "--num-cpus=1", f"--node-ip-address=127.0.0.{place}"))
            for place in (2, 3)
        ]
        yield address, found


def wait_until(condition: Any, seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)


def kill_node(process: subprocess.Popen[str]) -> None:
    """Kill a node: its raylet and all other processes that its `ray start` has started."""
    for child in descendants(process.pid):
        os.kill(child, signal.SIGKILL)
    process.kill()


def descendants(parent: int) -> list[int]:
    """Process ids of the children of a process, and of theirs."""
    path = Path(f"/proc/{parent}/task/{parent}/children")
    children = [int(each) for each in path.read_text().split()] if path.exists() else []
    return [*children, *(each for child in children for each in descendants(child))]


def command(files: tuple[Path, Path], out: Path, *options: str) -> list[str]:
    model, data = files
    return [
        *(sys.executable, "-m", "headwise", "score", str(model), "--task", "pos", "--data", str(data)),
        *("--languages", "en,sw,fi", "--budget", "8000", "--error-rate", "1e-12", "--out", str(out), *options),
    ]


def scores_in(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("scores/*.json"))}


def recorded(folder: Path) -> int:
    ahead = folder / "journal.sqlite-wal"
    return ahead.stat().st_size if ahead.exists() else 0


@pytest.mark.skipif(shutil.which("ray", path=str(Path(RAY).parent)) is None, reason="the command ray is missing")
def test_a_node_that_is_killed_changes_no_bit(nodes: tuple[str, list[subprocess.Popen[str]]], tmp_path: Path) -> None:
    address, (first, second) = nodes
    files = save_model(tmp_path / "model"), save_data(tmp_path / "data")
    subprocess.run(command(files, tmp_path / "here"), check=True, cwd=ROOT, capture_output=True)
    options = ("--cluster", address, "--workers", "2")
    with subprocess.Popen(
        command(files, tmp_path / "nodes", *options), cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as driver:
        wait_until(lambda: recorded(tmp_path / "nodes") > 30_000 or driver.poll() is not None)
        assert driver.poll() is None, driver.communicate()[1]
        kill_node(second)
        said = driver.communicate(timeout=600)[1]
    assert driver.returncode == 0, said
    assert first.poll() is None
    assert "a worker was lost and is replaced" in said
    assert scores_in(tmp_path / "nodes") == scores_in(tmp_path / "here") != {}
