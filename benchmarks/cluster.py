"""Speed and faults of the engine on a Ray cluster of this machine.

- speed: rows per second of the engine in this process with one thread, and of 1 and 2 workers, interleaved;
- workers: a worker is killed (SIGKILL) at a random moment of each call; all values must have the same bits;
- driver: a scoring run whose process is killed at random moments, and resumed; its scores must have the same bits;
- overlap: the share of time that workers are idle, with rounds of one language at a time and of several languages.

`benchmarks.scheduler` simulates larger clusters.

The model has random weights and the size of e5-small without its vocabulary. The last line is JSON.
"""

import argparse
import json
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
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.cluster_problem import make_problem, random_rows
from benchmarks.scheduler import measure_driver
from headwise import HeadScores
from headwise.engine import LocalEngine
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.methods import Budget, Problem, find_method, score
from headwise.methods.base import method_steps
from headwise.runs import open_run
from headwise.support.steps import run_together

#: Port of the Ray cluster that killed drivers connect to.
PORT = 6399
BUDGET = 6_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows and kills: a few minutes")
    parser.add_argument("--kills", type=int, help="only kill this number of workers and of drivers")
    parser.add_argument("--driver", nargs=2, metavar=("RUN", "OUT"), help="only run the driver that is killed")
    arguments = parser.parse_args()
    if arguments.driver is not None:
        run_driver(*map(Path, arguments.driver))
        return
    torch.set_num_threads(1)
    quick = arguments.quick
    kills = arguments.kills or (3 if quick else 20)
    workers, drivers = kill_workers(kills), kill_drivers(kills)
    survived = {"kills_tried": 2 * kills, "kills_survived": 2 * kills - workers - (kills if drivers else 0)}
    if arguments.kills is not None:
        print(json.dumps(survived))
        return
    figures = measure_speed(rows=400 if quick else 1600, rounds=2 if quick else 5)
    overlap = measure_overlap()
    summary = {
        "speedup_2_workers": figures["speedup_2_workers"],
        "driver_overhead": figures["driver_overhead"],
        "identical_scores": int(figures["identical"] and bool(overlap.pop("identical")) and not (workers or drivers)),
        **overlap,
        **survived,
    }
    print(json.dumps(summary | {"speed": figures}))


def measure_speed(rows: int, rounds: int) -> dict[str, Any]:
    """Rows per second in this process and on 1 and 2 workers."""
    problem = make_problem(384, 12)
    on, index = random_rows(problem, rows)
    local = problem.engine()
    assert isinstance(local, LocalEngine)
    expected = local.values(on[:50], index[:50]).values
    seconds: dict[str, list[float]] = {"local": [], "1 worker": [], "2 workers": []}
    busy, identical, packs = [], True, 0
    with Cluster(ClusterSettings(workers=1)) as one:
        engine = replace(problem, make_engine=one.make_engine).engine()
        identical &= torch.equal(engine.values(on[:50], index[:50]).values, expected)
        packs = len(list(local.packs(on, index)))
        for _ in range(rounds):
            seconds["local"].append(timed(local, on, index)[0])
            seconds["1 worker"].append(timed(engine, on, index)[0])
    with Cluster(ClusterSettings(workers=2)) as two:
        engine = replace(problem, make_engine=two.make_engine).engine()
        identical &= torch.equal(engine.values(on[:50], index[:50]).values, expected)
        wait_for(two, 2)
        engine.values(on[:200], index[:200])  # both workers load the model
        for _ in range(rounds):
            seconds["local"].append(timed(local, on, index)[0])
            elapsed, computing = timed(engine, on, index)
            seconds["2 workers"].append(elapsed)
            busy.append(computing / (2 * elapsed))
    median = {name: float(np.median(each)) for name, each in seconds.items()}
    for name, each in median.items():
        print(f"{name}: {rows / each:.0f} rows/s ({rows} rows in {each:.2f} s)")
    overhead = 1 - float(np.median(busy))
    return {
        "rows_per_second": {name: rows / each for name, each in median.items()},
        "speedup_2_workers": median["local"] / median["2 workers"],
        "driver_overhead": overhead,
        "seconds_per_batch": median["local"] / packs,
        "driver_seconds_per_batch": measure_driver(),
        "identical": identical,
    }


def timed(engine: Any, on: NDArray[np.bool_], index: NDArray[np.int64]) -> tuple[float, float]:
    """Seconds of a call, and seconds that were spent in the model."""
    start = time.perf_counter()
    found = engine.values(on, index)
    return time.perf_counter() - start, found.cost.seconds


def wait_for(cluster: Cluster, workers: int) -> None:
    """Wait until workers are ready; the dispatcher looks for them only while there are jobs."""
    deadline = time.monotonic() + 300
    while len(cluster.processes) < workers and time.monotonic() < deadline:
        problem = make_problem(32, 1, examples=2)
        replace(problem, make_engine=cluster.make_engine).engine().values(*random_rows(problem, 4))
        time.sleep(0.2)


def measure_overlap(languages: int = 4) -> dict[str, float]:
    """The share of time that 2 workers have no batch, with rounds of one language at a time and of all languages.

    The rounds are those of `stars` with its defaults, which have few batches.
    """
    idle, scores = {}, []
    method = find_method("stars", error_rate=1e-300)
    with Cluster(ClusterSettings(workers=2)) as cluster:
        problems = [
            replace(make_problem(192, 6, language=number), make_engine=cluster.make_engine)
            for number in range(languages)
        ]
        wait_for(cluster, 2)
        for name, at_once in (("warm-up", languages), ("one at a time", 1), ("overlapping", languages)):
            start, before = time.perf_counter(), cluster.busy_seconds
            tasks = {number: method_steps(method, each, Budget(1500)) for number, each in enumerate(problems)}
            runs = dict(run_together(tasks, at_once))
            elapsed = time.perf_counter() - start
            idle[name] = 1 - (cluster.busy_seconds - before) / (2 * elapsed)
            scores.append([runs[number].scores for number in range(languages)])
            print(
                f"{languages} languages, {name}: {elapsed:.1f} s, workers idle {idle[name]:.0%} of the time", flush=True
            )
    return {
        "idle_share_one_at_a_time": idle["one at a time"],
        "idle_share_overlapping": idle["overlapping"],
        "identical": float(scores[0] == scores[1] == scores[2]),
    }


def kill_workers(kills: int) -> int:
    """Kill a worker at a random moment of each of several calls; returns how many calls had other results."""
    problem = make_problem(192, 6)
    on, index = random_rows(problem, 1200)
    expected, draw, wrong, done = problem.engine().values(on, index), random.Random(0), 0, 0
    with Cluster(ClusterSettings(workers=2)) as cluster:
        engine = replace(problem, make_engine=cluster.make_engine).engine()
        engine.values(on[:100], index[:100])
        seconds = timed(engine, on, index)[0]
        while done < kills:
            killer = threading.Timer(draw.uniform(0, 0.8 * seconds), kill_one, (cluster, draw))
            killer.start()
            before = cluster.replaced
            found = engine.values(on, index)
            killer.join()
            if cluster.replaced > before:
                done += 1
                same = torch.equal(found.values, expected.values)
                wrong += not (same and found.cost.units == expected.cost.units and found.cost.rows == len(index))
                print(f"kill {done} of a worker: {'the same bits' if same else 'OTHER BITS'}", flush=True)
    return wrong


def kill_one(cluster: Cluster, draw: random.Random) -> None:
    if processes := list(cluster.processes.values()):
        os.kill(draw.choice(processes)[1], signal.SIGKILL)


@contextmanager
def ray_head(cpus: int, port: int = PORT) -> Iterator[str]:
    """A Ray cluster of one node; its address."""
    command = [
        *(str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"),
        *(f"--port={port}", f"--num-cpus={cpus}", "--include-dashboard=false"),
        *("--object-store-memory=100000000", "--disable-usage-stats"),
    ]
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}  # for the head and for drivers
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as head:
        assert head.stdout is not None
        if not any("Ray runtime started" in line for line in head.stdout):
            raise SystemExit("Ray did not start: the machine may be too busy")
        try:
            yield f"127.0.0.1:{port}"
        finally:
            head.send_signal(signal.SIGTERM)


def run_driver(folder: Path, out: Path) -> None:
    """Score in a run folder on the cluster; on its own process, so that it can be killed."""
    address = os.environ.get("HEADWISE_BENCHMARK_CLUSTER")
    torch.set_num_threads(1)
    if address is None:
        score_in(folder, make_problem(64, 2)).save(out)
        return
    with Cluster(ClusterSettings(workers=2, address=address)) as cluster:
        score_in(folder, replace(make_problem(64, 2), make_engine=cluster.make_engine)).save(out)


def score_in(folder: Path, problem: Problem) -> HeadScores:
    def show(units: float, *_: Any) -> None:
        print(f"round after {units:.0f} units", flush=True)

    with open_run(folder, {"seed": 3}) as run:
        # Nothing is decided at such an error rate, so there is work until the budget is spent.
        method = find_method("stars", bases=8, flips=4, error_rate=1e-300)
        return score(method, problem, Budget(BUDGET), 3, run.journal, "zh", show)


def kill_drivers(kills: int) -> int:
    """Kill the process of a scoring run at random moments; returns 1 if its scores differ in the end, else 0."""
    draw, done = random.Random(0), 0
    with tempfile.TemporaryDirectory() as top, ray_head(cpus=2) as address:
        whole, killed = Path(top) / "whole", Path(top) / "killed"
        expected = score_in(whole, make_problem(64, 2))
        environment = {**os.environ, "HEADWISE_BENCHMARK_CLUSTER": address}
        command = [sys.executable, "-m", "benchmarks.cluster", "--driver", str(killed), f"{top}/killed.json"]
        while done < kills:
            with subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            ) as driver:
                assert driver.stdout is not None
                first = driver.stdout.readline()
                if not first:
                    break
                time.sleep(draw.uniform(0, 0.4))
                driver.kill()
            done += 1
            print(f"kill {done} of the driver: {first.strip()} were recorded before", flush=True)
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        same = HeadScores.load(f"{top}/killed.json") == expected
    print(f"scores after {done} kills of the driver: {'the same bits' if same else 'OTHER BITS'}")
    return int(not (same and done == kills))


if __name__ == "__main__":
    main()
