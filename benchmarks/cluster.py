"""Speed and faults of the engine on a Ray cluster of this machine.

- speed: rows per second of the engine in this process with one thread, and of 1 and 2 workers, interleaved;
- workers: a worker is killed (SIGKILL) at a random moment of each call; all values must have the same bits;
- driver: a scoring run whose process is killed at random moments, and resumed; its scores must have the same bits;
- simulation: the dispatcher with 10, 100 and 1,000 workers in virtual time, with the measured times.

The model has random weights and the size of e5-small without its vocabulary. The last line is JSON.
"""

import argparse
import json
import os
import random
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
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

from benchmarks.simulated_workers import SimulatedWorkers
from headwise import HeadScores
from headwise.engine import EngineSettings, ExampleSet, LocalEngine, players_of
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.engine.dispatch import Dispatcher, Ticket
from headwise.games import ProbabilityGame
from headwise.heads import find_heads
from headwise.methods import Budget, Problem, find_method, score
from headwise.runs import open_run
from headwise.tasks import find_task
from headwise.tasks.encoding import Encoded

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
    simulation = simulate(figures["seconds_per_batch"], figures["driver_seconds_per_batch"])
    summary = {
        "speedup_2_workers": figures["speedup_2_workers"],
        "driver_overhead": figures["driver_overhead"],
        "identical_scores": int(figures["identical"] and not (workers or drivers)),
        **survived,
    }
    print(json.dumps(summary | {"speed": figures, "simulation": simulation}))


def make_problem(hidden: int, layers: int, examples: int = 64) -> Problem:
    """A classifier with random weights, and random sentences."""
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=1000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32,
        intermediate_size=4 * hidden, num_labels=3, max_position_embeddings=130, pad_token_id=1,
    )  # fmt: skip
    model = XLMRobertaForSequenceClassification(config).eval()
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(3.2, 0.4, examples), 8, 64).astype(int)
    encoded = tuple(Encoded(tuple(map(int, draw.integers(5, 1000, n))), (), (int(draw.integers(3)),)) for n in lengths)
    heads, task = find_heads(model), find_task("nli")
    return Problem(model, heads, ExampleSet(task, encoded, 1), players_of(heads), ProbabilityGame())


def random_rows(problem: Problem, rows: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    draw = np.random.default_rng(1)
    return draw.random((rows, len(problem.players))) < 0.7, draw.integers(0, len(problem.examples), rows)


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


def measure_driver() -> float:
    """Seconds of the driver per batch: a batch of almost no work, sent to one worker after the other."""
    problem = replace(make_problem(32, 1, examples=8), settings=EngineSettings(token_budget=32))
    on, index = random_rows(problem, 300)
    local = problem.engine()
    assert isinstance(local, LocalEngine)
    packs = len(list(local.packs(on, index)))
    with Cluster(ClusterSettings(workers=1)) as cluster:
        engine = replace(problem, make_engine=cluster.make_engine).engine()
        engine.values(on[:4], index[:4])
        before = time.process_time()
        engine.values(on, index)
        found = (time.process_time() - before) / packs
    print(f"driver: {1000 * found:.2f} ms per batch")
    return found


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
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as head:
        try:
            time.sleep(15)
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


def simulate(seconds: float, driver_seconds: float) -> list[dict[str, float]]:
    """The share of time that workers compute, for several numbers of workers.

    A round has a number of batches that can run at the same time; the next round begins when all are done. Batches take
    random times around their mean, and the driver needs a fixed time for each one.
    """
    found = []
    for workers in (10, 100, 1000):
        for batches in (64, 512, 4096):
            for overlapping in (1, 15):
                share = busy_share(workers, batches, overlapping, seconds, driver_seconds)
                found.append({"workers": workers, "batches": batches, "languages": overlapping, "busy": share})
                print(f"{workers} workers, rounds of {batches} batches, {overlapping} at once: {share:.0%} busy")
    return found


def busy_share(workers: int, batches: int, overlapping: int, seconds: float, driver_seconds: float) -> float:
    """The share of time that workers compute during three rounds of each of several languages."""
    draw = np.random.default_rng(0)
    times = draw.gamma(16, seconds / 16, 4096)
    simulated = SlowDriver(lambda *_: None, lambda _, job: float(times[job % 4096]), driver_seconds)
    dispatcher = Dispatcher(simulated, workers)
    left = [3] * overlapping
    waiting = [0] * overlapping

    def begin(language: int) -> None:
        left[language] -= 1
        waiting[language] = batches
        for number in range(batches):
            dispatcher.backlog.append(Ticket(number, lambda _: end(language)))

    def end(language: int) -> None:
        waiting[language] -= 1
        if not waiting[language] and left[language]:
            begin(language)

    for language in range(overlapping):
        begin(language)
    while dispatcher.busy:
        dispatcher.step(1e6)
    return simulated.busy / (workers * simulated.time)


class SlowDriver(SimulatedWorkers):
    """Simulated workers of a driver that needs time for each batch."""

    def __init__(self, compute: Any, seconds: Any, driver_seconds: float) -> None:
        super().__init__(compute, seconds)
        self._driver_seconds = driver_seconds

    def send(self, worker: int, job: Any) -> None:
        """Send a batch, which takes the driver some time."""
        self.time += self._driver_seconds
        super().send(worker, job)


if __name__ == "__main__":
    main()
