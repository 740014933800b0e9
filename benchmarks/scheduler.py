"""Where the efficiency of a cluster falls below 80%: the dispatcher itself with 10, 100 and 1,000 simulated workers.

The time of batches, the time of the driver for each batch and the bytes of rows are measured on this machine. Workers
are simulated in virtual time. Times of other models are projections: the operations of a batch, divided by an assumed
speed of the hardware.

A language computes one round after the other, and a round is two calls, gradients and flips, as in the method `stars`:
the second begins when all batches of the first are done. Rounds of several languages overlap. Efficiency is the share
of time that workers compute. The last line is JSON.
"""

import argparse
import json
import pickle
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from benchmarks.cluster_problem import make_problem, random_rows
from benchmarks.simulated_workers import SimulatedWorkers
from headwise.engine import EngineSettings, LocalEngine
from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.engine.dispatch import Dispatcher, Ticket
from headwise.engine.jobs import PackJob
from headwise.engine.shipping import ship_model
from headwise.engine.worker import EngineParts, WorkerJob
from headwise.methods import Problem

#: Efficiency that is asked for.
GOAL = 0.8
#: Workers of the simulation.
WORKERS = (10, 100, 1000)
#: Languages that overlap.
LANGUAGES = (1, 15)
#: Bases of a round of `stars`: the default is 16.
BASES = (16, 128, 1024)
#: Flips of a base, rows with a gradient for each base, and tokens of a row.
_FLIPS, _GRADIENTS, _TOKENS = 36, 4, 28
#: Rounds of each language in a simulation.
_ROUNDS = 3


@dataclass(frozen=True)
class Service:
    """How long batches take.

    Attributes:
        name: The model and the hardware.
        seconds: Times of batches, in the order in which they are used.
        batch_tokens: Padded tokens of a batch.
        weights: Bytes of the model.
        measured: Whether the times are measured; otherwise they are projected.
    """

    name: str
    seconds: tuple[float, ...]
    batch_tokens: int
    weights: float
    measured: bool

    def batches(self, rows: int) -> int:
        """Number of batches of rows."""
        return max(1, -(-rows * _TOKENS // self.batch_tokens))


@dataclass(frozen=True)
class Driver:
    """What the driver needs.

    Attributes:
        batch: Seconds of CPU for each batch: making it, sending it, and reading the answer.
        waited: Seconds for each batch that is on its way, each time the driver looks for answers.
    """

    batch: float
    waited: float


@dataclass(frozen=True)
class Efficiency:
    """The result of a simulation.

    Attributes:
        service: Name of the service.
        workers: Number of workers.
        languages: Number of languages that overlap.
        bases: Bases of a round.
        batches: Batches of the larger call of a round.
        busy: Share of time that workers compute.
        driver: Share of time that the driver works.
    """

    service: str
    workers: int
    languages: int
    bases: int
    batches: int
    busy: float
    driver: float

    @property
    def bottleneck(self) -> str:
        """What limits the efficiency."""
        if self.busy >= GOAL:
            return "none"
        return "driver" if self.driver > GOAL else "size of rounds"


class SlowDriver(SimulatedWorkers):
    """Simulated workers of a driver that needs time."""

    def __init__(self, compute: Any, seconds: Any, driver: Driver) -> None:
        super().__init__(compute, seconds)
        self._driver, self._sent = driver, 0
        self.driver_seconds = 0.0

    def send(self, worker: int, job: Any) -> None:
        """Send a batch, which takes the driver some time."""
        self._work(self._driver.batch)
        self._sent += 1
        super().send(worker, job)

    def wait(self, seconds: float) -> list[Any]:
        """Look for answers: the time depends on the number of batches on their way."""
        self._work(self._driver.waited * self._sent)
        found = super().wait(seconds)
        self._sent -= sum(each.kind == "answer" for each in found)
        return found

    def _work(self, seconds: float) -> None:
        self.time += seconds
        self.driver_seconds += seconds


def simulate(service: Service, driver: Driver, workers: int, languages: int, bases: int) -> Efficiency:
    """Rounds of several languages on simulated workers."""
    calls = [service.batches(_GRADIENTS * bases), service.batches((1 + _FLIPS) * bases)]
    times = service.seconds
    simulated = SlowDriver(lambda *_: None, lambda _, job: times[job % len(times)], driver)
    dispatcher, numbers = Dispatcher(simulated, workers), iter(range(10**9))
    begun, waiting = dict.fromkeys(range(languages), 0), dict.fromkeys(range(languages), 0)

    def begin(language: int) -> None:
        waiting[language] = calls[begun[language] % len(calls)]
        begun[language] += 1
        for _ in range(waiting[language]):
            dispatcher.backlog.append(Ticket(next(numbers), lambda _: end(language)))

    def end(language: int) -> None:
        waiting[language] -= 1
        if not waiting[language] and begun[language] < _ROUNDS * len(calls):
            begin(language)

    for language in range(languages):
        begin(language)
    while dispatcher.busy:
        dispatcher.step(1e6)
    busy = simulated.busy / (workers * simulated.time)
    share = simulated.driver_seconds / simulated.time
    return Efficiency(service.name, workers, languages, bases, max(calls), round(busy, 3), round(share, 3))


def projected(name: str, parameters: float, batch_tokens: int, speed: float, bytes_each: float) -> Service:
    """A service of another model.

    Args:
        name: Model and hardware.
        parameters: Weights that a token is multiplied with: two operations each.
        batch_tokens: Padded tokens of a batch.
        speed: Operations per second that the hardware is assumed to reach.
        bytes_each: Bytes of a weight.
    """
    mean = 2 * parameters * batch_tokens / speed
    times = np.random.default_rng(0).gamma(16, mean / 16, 1024)  # a quarter of the mean as standard deviation
    return Service(name, tuple(times.tolist()), batch_tokens, parameters * bytes_each, measured=False)


def measure_service(rows: int) -> tuple[Service, dict[str, float]]:
    """Times of batches of a model of the size of e5-small, with one thread; and bytes and seconds of what is sent."""
    problem = make_problem(384, 12)
    on, index = random_rows(problem, rows)
    engine = problem.engine()
    assert isinstance(engine, LocalEngine)
    packs = list(engine.packs(on, index))
    jobs = [PackJob(on[pack.rows], pack.examples) for pack in packs]
    engine.compute(jobs[0])
    found, times = [], [time.process_time()]  # of the CPU: other programs do not count
    for job in jobs:
        found.append(engine.compute(job))
        times.append(time.process_time())
    seconds = tuple(np.diff(times).tolist())
    skeleton, arrays = ship_model(problem.model)
    weights = float(sum(array.nbytes for array in arrays) + len(skeleton))
    figures = {
        "rows_per_second_and_worker": rows / sum(seconds),
        "rows_per_batch": rows / len(packs),
        "seconds_per_batch": sum(seconds) / len(packs),
        "bytes_sent_per_row": sum(len(pickle.dumps(_job(job), protocol=5)) for job in jobs) / rows,
        "bytes_answered_per_row": sum(len(pickle.dumps(each, protocol=5)) for each in found) / rows,
        "bytes_of_examples": float(len(pickle.dumps(_parts(problem), protocol=5))),
        "bytes_of_model": weights,
    }
    return Service("e5-small, one CPU core", seconds, 2048, weights, measured=True), figures


def measure_driver() -> float:
    """Seconds of CPU of the driver per batch: batches of almost no work, on one worker."""
    problem = replace(make_problem(32, 1, examples=8), settings=EngineSettings(token_budget=32))
    on, index = random_rows(problem, 600)
    local = problem.engine()
    assert isinstance(local, LocalEngine)
    packs = len(list(local.packs(on, index)))
    with Cluster(ClusterSettings(workers=1)) as cluster:
        engine = replace(problem, make_engine=cluster.make_engine).engine()
        engine.values(on[:4], index[:4])
        before = time.process_time()
        engine.values(on, index)
        return (time.process_time() - before) / packs


def _job(pack: PackJob) -> WorkerJob:
    """A job as it is sent: references take about 50 bytes each."""
    return WorkerJob("0" * 64, [b"0" * 50], 0, [b"0" * 50], pack)


def _parts(problem: Problem) -> EngineParts:
    return EngineParts(problem.heads, problem.game, problem.examples, problem.players, problem.settings, None)


def show(results: Sequence[Efficiency]) -> None:
    """Print a table for each service."""
    for name in dict.fromkeys(each.service for each in results):
        print(f"\n{name}: share of time that workers compute (share of time that the driver works)")
        for each in (each for each in results if each.service == name):
            verdict = "" if each.busy >= GOAL else f"  below {GOAL:.0%}: {each.bottleneck}"
            print(
                f"  {each.workers:>5} workers, {each.languages:>2} languages, rounds of {each.bases:>4} bases "
                f"({each.batches:>4} batches): {each.busy:>4.0%} ({each.driver:.0%}){verdict}"
            )


def most_workers(service: Service, driver: Driver, languages: int, bases: int) -> int:
    """The largest number of workers, a power of 2, that are busy enough; 0 if there is none."""
    workers = 1
    while workers <= 1024 and simulate(service, driver, workers, languages, bases).busy >= GOAL:
        workers *= 2
    return workers // 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, and no rounds of 1,024 bases")
    parser.add_argument("--driver-ms", type=float, help="CPU of the driver per batch; measured with Ray by default")
    parser.add_argument("--wait-us", type=float, default=0.6, help="CPU of a look for answers, per batch on its way")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    service, figures = measure_service(200 if arguments.quick else 800)
    seconds = measure_driver() if arguments.driver_ms is None else arguments.driver_ms / 1000
    driver = Driver(seconds, arguments.wait_us / 1e6)
    for name, value in {**figures, "driver_seconds_per_batch": seconds}.items():
        print(f"{name}: {value:.4g}", flush=True)
    services = (
        service,
        projected("XLM-R large, A100 (projected)", 303e6, 16384, 60e12, 4),
        projected("8B decoder, A100 (projected)", 7.5e9, 16384, 150e12, 2),
    )
    bases = BASES[:2] if arguments.quick else BASES
    results = [
        simulate(each, driver, workers, languages, size)
        for each in services
        for workers in WORKERS
        for languages in LANGUAGES
        for size in bases
    ]
    show(results)
    limits = {
        each.name: {size: most_workers(each, driver, max(LANGUAGES), size) for size in bases} for each in services
    }
    print(f"\nlargest number of workers, a power of 2, that are busy {GOAL:.0%} of the time, with 15 languages:")
    for name, found in limits.items():
        print(f"  {name}: " + ", ".join(f"{most} with {size} bases" for size, most in found.items()))
    measured = {**figures, "driver_seconds_per_batch": seconds}
    print(json.dumps({"measured": measured, "simulation": [asdict(each) for each in results], "most_workers": limits}))


if __name__ == "__main__":
    main()
