"""Speed and faults of the engine on a Ray cluster of this machine.

- speed: rows per second of the engine in this process with one thread, and of 1 and 2 workers, interleaved;
- overlap: the share of time that workers are idle, with rounds of one language at a time and of several languages;
- workers: a worker is killed (SIGKILL) at a random moment of each call; all values must have the same bits;
- drivers: a scoring run whose process is killed at random moments, and resumed; its rounds and scores must have the
  same bits.

`benchmarks.scheduler` simulates larger clusters.

The model has random weights and the size of e5-small without its vocabulary. The last line is JSON. Figures of parts
that were not chosen are missing there; without kills, `kills_tried` is 0.
"""

import argparse
import json
import signal
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.cluster_kills import kill_drivers, kill_workers
from benchmarks.cluster_problem import make_problem, random_rows
from benchmarks.scheduler import measure_driver
from benchmarks.timing import median_ratio
from headwise.engine import LocalEngine
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.methods import Budget, find_method
from headwise.methods.base import method_steps
from headwise.support.steps import run_together

PARTS = ("speed", "overlap", "workers", "drivers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows and kills: a few minutes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="only these parts")
    parser.add_argument("--kills", type=int, help="number of kills of workers, and of drivers (20, or 3 with --quick)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes of Ray end too
    summary: dict[str, Any] = {"kills_tried": 0, "kills_survived": 0}
    identical = True
    if "speed" in arguments.parts:
        figures = measure_speed(rows=400, rounds=2) if arguments.quick else measure_speed(rows=800, rounds=4)
        identical &= figures.pop("identical")
        summary |= figures
    if "overlap" in arguments.parts:
        figures = measure_overlap()
        identical &= figures.pop("identical")
        summary |= figures
    kills = arguments.kills or (3 if arguments.quick else 20)
    for part, kill in (("workers", kill_workers), ("drivers", kill_drivers)):
        if part in arguments.parts:
            survived = kill(kills)
            identical &= survived == kills
            summary["kills_tried"] += kills
            summary["kills_survived"] += survived
    print(json.dumps(summary | {"identical_scores": int(identical)}))


def measure_speed(rows: int, rounds: int) -> dict[str, Any]:
    """Rows per second in this process and on 1 and 2 workers; calls alternate, and ratios are of neighbours."""
    problem = make_problem(384, 12)
    on, index = random_rows(problem, rows)
    local = problem.engine()
    assert isinstance(local, LocalEngine)
    expected, identical = local.values(on, index).values, True
    alone: list[float] = []
    speedups, overheads = {}, {}
    for workers in (1, 2):
        away, beside, idle = [], [], []
        with Cluster(ClusterSettings(workers=workers)) as cluster:
            engine = replace(problem, make_engine=cluster.make_engine).engine()
            wait_for(cluster, workers)
            identical &= torch.equal(engine.values(on, index).values, expected)  # all workers load the model
            for _ in range(rounds):
                beside.append(timed(local, on, index)[0])
                elapsed, computing = timed(engine, on, index)
                away.append(elapsed)
                idle.append(1 - computing / (workers * elapsed))
        alone += beside
        speedups[workers], overheads[workers] = median_ratio(beside, away), float(np.median(idle))
        print(
            f"{workers} workers: {rows / np.median(away):.0f} rows/s, in this process {rows / np.median(beside):.0f}; "
            f"{speedups[workers]:.2f} times as fast; {overheads[workers]:.1%} of the time is not the workers'",
            flush=True,
        )
    return {
        "rows_per_second": rows / float(np.median(alone)),
        "speedup_1_worker": speedups[1],
        "speedup_2_workers": speedups[2],
        "driver_overhead": overheads[2],
        "seconds_per_batch": float(np.median(alone)) / len(list(local.packs(on, index))),
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


def measure_overlap(languages: int = 4) -> dict[str, Any]:
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
        "identical": scores[0] == scores[1] == scores[2],
    }


if __name__ == "__main__":
    main()
