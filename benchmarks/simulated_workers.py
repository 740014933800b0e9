"""Workers of a dispatcher in virtual time: a simulation of thousands of workers takes seconds, and faults are exact."""

import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any, Literal

from headwise.engine.dispatch import Event, Failure

#: What happens to a job: nothing unusual, a failure that the worker reports, or its worker dies or hangs.
Fault = Failure | Literal["dies", "hangs"] | None


class SimulatedWorkers:
    """Workers that compute jobs at once and report the results later, in virtual time.

    Args:
        compute: Computes a job, given the number of the worker and the job.
        seconds: The time of a job on a worker.
        fault: What happens to a job on a worker.
        start_seconds: The time until a worker is ready; infinite for workers that never are.
    """

    def __init__(
        self,
        compute: Callable[[int, Any], Any],
        seconds: Callable[[int, Any], float] = lambda *_: 1.0,
        fault: Callable[[int, Any], Fault] = lambda *_: None,
        start_seconds: float = 0.0,
    ) -> None:
        self._compute, self._seconds, self._fault, self._start_seconds = compute, seconds, fault, start_seconds
        self.time, self.busy = 0.0, 0.0
        self.loads: dict[int, int] = {}  # jobs of each worker that have no result yet
        self.most_loaded = 0
        self._free_at: dict[int, float] = {}
        self._events: list[tuple[float, int, Event]] = []
        self._serial = itertools.count()

    def start(self) -> int:
        """Start a worker."""
        worker = len(self.loads)
        self.loads[worker], self._free_at[worker] = 0, self.time + self._start_seconds
        if math.isfinite(self._start_seconds):
            self._report(self._free_at[worker], Event(worker, "ready"))
        return worker

    def send(self, worker: int, job: Any) -> None:
        """Give a worker a job; one that died or hangs ignores it."""
        self.loads[worker] += 1
        self.most_loaded = max(self.most_loaded, self.loads[worker])
        begin = max(self.time, self._free_at[worker])
        if math.isinf(begin):
            return
        fault, seconds = self._fault(worker, job), self._seconds(worker, job)
        self._free_at[worker] = begin + seconds if fault is None or isinstance(fault, Failure) else math.inf
        self.busy += seconds
        if fault == "dies":
            self._report(begin + seconds / 2, Event(worker, "died", Failure("died", "the worker died")))
        elif isinstance(fault, Failure):
            self._report(begin + seconds, Event(worker, "failure", fault, job))
        elif fault is None:
            found = self._compute(worker, job)
            kind: Literal["failure", "answer"] = "failure" if isinstance(found, Failure) else "answer"
            self._report(begin + seconds, Event(worker, kind, found, job))

    def stop(self, worker: int) -> None:
        """End a worker."""
        self._events = [each for each in self._events if each[2].worker != worker]
        heapq.heapify(self._events)

    def wait(self, seconds: float) -> list[Event]:
        """Advance the time to the next events, at most by a number of seconds."""
        if not self._events or self._events[0][0] > self.time + seconds:
            self.time += seconds
            return []
        self.time = max(self.time, self._events[0][0])
        found = []
        while self._events and self._events[0][0] <= self.time:
            found.append(heapq.heappop(self._events)[2])
            if found[-1].kind in ("answer", "failure"):
                self.loads[found[-1].worker] -= 1
        return found

    def now(self) -> float:
        """The virtual time."""
        return self.time

    def _report(self, when: float, event: Event) -> None:
        heapq.heappush(self._events, (when, next(self._serial), event))
