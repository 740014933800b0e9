"""Kills workers and drivers of a Ray cluster of this machine (SIGKILL) at random moments; no bit may change.

`benchmarks.cluster` runs this.
"""

import multiprocessing
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks.cluster_problem import make_problem, random_rows
from headwise import HeadScores
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.methods import Budget, Problem, find_method, score
from headwise.runs import open_run, read_run

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

#: Port of the Ray cluster that killed drivers connect to.
_PORT = 6399
#: Units of the run of a driver: about 64 rounds, of which a driver records a few before it is killed.
_BUDGET = 6_000
#: Maximum number of kills of a run. After them the run is completed and compared.
_KILLS_PER_RUN = 10
#: Name of the rounds in the journal.
_STREAM = "zh"

Rounds = list[tuple[int, int, dict[str, bytes]]]


def kill_workers(kills: int) -> int:
    """Kill a worker at a random moment of each of several calls; the number of calls with the same results."""
    problem = make_problem(192, 6)
    on, index = random_rows(problem, 1200)
    expected, draw, survived, done = problem.engine().values(on, index), random.Random(0), 0, 0
    with Cluster(ClusterSettings(workers=2)) as cluster:
        engine = replace(problem, make_engine=cluster.make_engine).engine()
        engine.values(on[:100], index[:100])
        start = time.perf_counter()
        engine.values(on, index)
        seconds = time.perf_counter() - start
        while done < kills:
            killer = threading.Timer(draw.uniform(0, 0.8 * seconds), _kill_one, (cluster, draw))
            killer.start()
            before = cluster.replaced
            found = engine.values(on, index)
            killer.join()
            if cluster.replaced > before:
                done += 1
                same = torch.equal(found.values, expected.values)
                same &= found.cost.units == expected.cost.units and found.cost.rows == len(index)
                survived += same
                print(f"kill {done} of a worker: {_verdict(same)}", flush=True)
    return survived


def _kill_one(cluster: Cluster, draw: random.Random) -> None:
    if processes := list(cluster.processes.values()):
        os.kill(draw.choice(processes)[1], signal.SIGKILL)


def kill_drivers(kills: int) -> int:
    """Kill the process of a scoring run at random moments; the number of kills after which all bits were the same.

    After a kill, the recorded rounds must be the first rounds of a run that was not disturbed. After the last kill of a
    run, it is completed, and its scores and rounds must be those of the undisturbed run.
    """
    draw, survived = random.Random(0), 0
    with tempfile.TemporaryDirectory() as top, _ray_head(cpus=2) as address:
        whole = Path(top) / "whole"
        expected = _score_in(whole, make_problem(64, 2))
        for first in range(0, kills, _KILLS_PER_RUN):
            folder = Path(top) / f"killed-{first}"
            same = sum(
                _kill_driver(folder, address, _recorded(whole), draw, number + 1)
                for number in range(first, min(kills, first + _KILLS_PER_RUN))
            )
            driver = _start_driver(folder, address)
            driver.join()
            equal = HeadScores.load(_scores_of(folder)) == expected and _recorded(folder) == _recorded(whole)
            print(f"scores of the completed run: {_verdict(equal)}", flush=True)
            survived += same * equal
    return survived


def _kill_driver(folder: Path, address: str, expected: Rounds, draw: random.Random, number: int) -> bool:
    """Resume a run and kill it soon after it has recorded one, two or three more rounds."""
    before = _count(folder)
    stop = before + draw.randint(1, 3)
    driver = _start_driver(folder, address)
    try:
        while _count(folder) < stop:
            if not driver.is_alive():
                raise SystemExit(f"the driver ended before kill {number}, with code {driver.exitcode}")
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 0.1))
    finally:
        driver.kill()
        driver.join()
    kept = _recorded(folder)
    same = kept == expected[: len(kept)]
    print(f"kill {number} of a driver, after rounds {before + 1} to {len(kept)}: {_verdict(same)}", flush=True)
    return same


def _start_driver(folder: Path, address: str) -> "ForkServerProcess":
    """Start a driver as a process of its own, which has the modules already: importing them takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "ray"])
    driver = context.Process(target=_drive, args=(folder, address))
    driver.start()
    return driver


def _count(folder: Path) -> int:
    """Number of rounds that a run has recorded so far."""
    if not (folder / "config.yaml").exists():
        return 0
    with read_run(folder) as run:
        return run.journal.count(_STREAM)


def _recorded(folder: Path) -> Rounds:
    """The rounds that a run has recorded: draws, and the bytes of all arrays except the time that the round took."""
    with read_run(folder) as run:
        return [
            (found.first_draw, found.draws, {k: each.tobytes() for k, each in found.arrays.items() if k != "seconds"})
            for found in run.journal.rounds(_STREAM)
        ]


def _scores_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _verdict(same: bool) -> str:
    return "the same bits" if same else "OTHER BITS"


@contextmanager
def _ray_head(cpus: int) -> Iterator[str]:
    """A Ray cluster of one node; its address."""
    command = [
        *(str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"),
        *(f"--port={_PORT}", f"--num-cpus={cpus}", "--include-dashboard=false"),
        *("--object-store-memory=100000000", "--disable-usage-stats"),
    ]
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}  # for the head and for drivers
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as head:
        assert head.stdout is not None
        if not any("Ray runtime started" in line for line in head.stdout):
            raise SystemExit("Ray did not start: the machine may be too busy")
        try:
            yield f"127.0.0.1:{_PORT}"
        finally:
            head.send_signal(signal.SIGTERM)


def _score_in(folder: Path, problem: Problem) -> HeadScores:
    with open_run(folder, {"seed": 3}) as run:
        # Nothing is decided at such an error rate, so there is work until the budget is spent.
        method = find_method("stars", bases=8, flips=4, error_rate=1e-300)
        return score(method, problem, Budget(_BUDGET), 3, run.journal, _STREAM)


def _drive(folder: Path, address: str) -> None:
    """Score in a run folder on a cluster, and save the scores beside it."""
    torch.set_num_threads(1)
    with Cluster(ClusterSettings(workers=2, address=address)) as cluster:
        problem = replace(make_problem(64, 2), make_engine=cluster.make_engine)
        _score_in(folder, problem).save(_scores_of(folder))
