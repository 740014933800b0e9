"""A cluster without Ray: its workers compute in this process, in virtual time, with faults as a test wants them."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from benchmarks.simulated_workers import Fault, SimulatedWorkers

from headwise.engine.cluster import Cluster, ClusterSettings
from headwise.engine.dispatch import Dispatcher, DispatcherThread
from headwise.engine.jobs import PackJob
from headwise.engine.worker import ModelWorker, WorkerJob


class FakeCluster(Cluster):
    """A cluster whose workers are simulated.

    Args:
        workers: Number of workers.
        fault: What happens to a job on a worker.
    """

    def __init__(self, workers: int, fault: Callable[[int, WorkerJob], Fault] = lambda *_: None) -> None:
        super().__init__(ClusterSettings(workers=workers))
        self.simulated = SimulatedWorkers(self._compute, self._seconds, fault)
        self.models: dict[int, ModelWorker] = {}
        self.stored = 0
        self.tasks = 0

    def __enter__(self) -> "FakeCluster":
        self.gpu, self.workers, self._pickler = False, self.settings.workers or 1, pickle.Pickler
        self._start_workers()
        return self

    def call_tasks(self, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Tasks run in this process, and finish in another order than they were started."""
        for place, job in reversed(list(enumerate(jobs))):
            self.tasks += 1
            loaded = (pickle.loads(each) if isinstance(each, bytes) else each for each in job)  # noqa: S301 - see put
            yield place, function("cpu", 1, *loaded)

    def _start_workers(self) -> None:
        dispatcher = Dispatcher(self.simulated, self.workers, timeout=60.0, note=lambda _: None)
        self._thread = DispatcherThread(dispatcher)

    def put(self, thing: Any) -> Any:
        """Everything is pickled, as on a real cluster."""
        self.stored += 1
        return pickle.dumps(thing)

    def _compute(self, worker: int, job: WorkerJob) -> Any:
        if worker not in self.models:
            self.models[worker] = ModelWorker("cpu", 1, pickle.loads)
        return self.models[worker].compute(pickle.loads(pickle.dumps(job)))  # noqa: S301 - written here

    def _seconds(self, worker: int, job: WorkerJob) -> float:
        """Times that make answers arrive in another order than they were sent."""
        rows = len(job.content.examples) if isinstance(job.content, PackJob) else 1
        return 1.0 + (worker * 7 + rows * 3) % 5

    def _disconnect(self) -> None:
        pass
