"""The engine on a Ray cluster: batches are computed by workers, which are Ray actors that each hold the model.

The driver makes the same batches as the engine in this process, and each batch is computed as a whole by one worker.
Results therefore have the same bits for any number of workers and any order of arrival, also after workers were lost.
"""

import functools
import hashlib
import itertools
import logging
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from torch import nn

from headwise.engine.base import EngineFactory, EngineSettings
from headwise.engine.cluster_engine import ClusterEngine
from headwise.engine.dispatch import Dispatcher, DispatcherThread
from headwise.engine.examples import ExampleSet
from headwise.engine.local import LocalEngine
from headwise.engine.players import PlayerSet
from headwise.engine.ray_tasks import TaskResources, call_tasks
from headwise.engine.ray_workers import RayWorkers, connect, import_ray
from headwise.engine.shipping import ship_model
from headwise.engine.worker import MOST_PARTS, WorkerJob, WorkerParts
from headwise.errors import FieldError, HeadwiseError, require_whole
from headwise.games.base import Game
from headwise.games.generation import GenerationGame
from headwise.heads import HeadMap
from headwise.means import MeanOutputs

#: Padded tokens of a batch for workers on GPUs.
_GPU_TOKENS = 16384
#: Maximum number of models in the object store.
_MOST_MODELS = 2
#: Maximum number of languages that are computed at the same time. A language may use two engines, and workers keep all.
_AT_ONCE = MOST_PARTS // 2

_log = logging.getLogger("headwise.cluster")


@dataclass(frozen=True)
class ClusterSettings:
    """Settings of a cluster. They do not change results.

    Attributes:
        workers: Number of workers; None for one per GPU, or one per CPU if there are no GPUs.
        address: Address of a running Ray cluster, such as `10.0.0.1:6379`, or `auto` for the one on this machine. None
            to start a private one on this machine.
        device: `auto` for GPUs if the cluster has them, or `cpu`.
        threads: Number of CPUs, and threads, of each worker.
        timeout: Number of seconds after which a batch is taken to hang. It is computed again by another worker.
        cell_cpus: Number of CPUs, and threads, of each tuned cell of a study.
        cell_gpus: Number of GPUs of each tuned cell, such as 0.5 for two cells on one GPU; None for one GPU if the
            cluster has GPUs.

    Raises:
        HeadwiseError: A number is too small, or workers is None though there is no address.
    """

    workers: int | None = None
    address: str | None = None
    device: str = "auto"
    threads: int = 1
    timeout: float = 600.0
    cell_cpus: int = 1
    cell_gpus: float | None = None

    def __post_init__(self) -> None:
        require_whole("threads", self.threads)
        require_whole("cell_cpus", self.cell_cpus)
        if self.cell_gpus is not None and not self.cell_gpus >= 0:
            raise FieldError("cell_gpus", f"must be at least 0, not {self.cell_gpus}")
        if self.workers is not None:
            require_whole("workers", self.workers)
        if self.workers is None and self.address is None:
            raise FieldError("workers", "a number of workers is needed without the address of a cluster")
        if not self.timeout > 0:
            raise FieldError("timeout", f"must be above 0, not {self.timeout}")


class Cluster:
    """Workers on a Ray cluster. They are started once, and used by all engines.

    Args:
        settings: The settings.

    Example:
        ```python
        with Cluster(ClusterSettings(workers=4)) as cluster:
            run_scoring(plan, make_engine=cluster.make_engine)
        ```
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._models: OrderedDict[str, Any] = OrderedDict()
        self._parts_numbers = itertools.count()
        self._lock = threading.Lock()  # engines may be created by several threads
        self._thread: DispatcherThread | None = None
        self._ended: list[Dispatcher] = []
        self._closed = False

    def __enter__(self) -> "Cluster":
        self._ray = import_ray()
        self._pickler = self._ray.cloudpickle.Pickler
        self._owner = connect(self._ray, self.settings)
        try:
            total = self._ray.cluster_resources()
            self.gpu = self.settings.device != "cpu" and total.get("GPU", 0) >= 1
            self.workers = self.settings.workers or max(
                1, int(total["GPU"] if self.gpu else total.get("CPU", 1) / self.settings.threads)
            )
            self._start_workers()
        except BaseException:
            self._disconnect()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._closed = True
            self._close_thread()
        self._disconnect()

    @property
    def make_engine(self) -> "ClusterEngines":
        """Creates engines whose batches are computed by the workers; see `EngineFactory`."""
        return ClusterEngines(self)

    @property
    def processes(self) -> dict[int, tuple[str, int]]:
        """Node and process id of each worker that is ready."""
        return dict(self._backend.processes)

    @property
    def replaced(self) -> int:
        """Number of workers that were lost and replaced."""
        return sum(each.replaced for each in self._dispatchers)

    @property
    def answered(self) -> bool:
        """Whether workers have answered a job."""
        return any(each.seconds for each in self._dispatchers)

    @property
    def busy_seconds(self) -> float:
        """Time that workers had a job, of all workers together."""
        return sum(each.busy_seconds for each in self._dispatchers)

    @property
    def idle_share(self) -> float:
        """The share of time, between the first job and the last answer, that workers had no job; 0 without any job."""
        time = sum(each.seconds * each.count for each in self._dispatchers)
        return 1 - self.busy_seconds / time if time else 0.0

    def answers(self, jobs: Iterable[WorkerJob]) -> Iterator[Any]:
        """The answers to jobs in their order; a `Failure` for a job that failed on several workers."""
        with self._lock:
            if self._closed:
                raise HeadwiseError("the cluster was closed")
            if self._thread is None:
                self._start_workers()
            thread = self._thread
        assert thread is not None
        early: dict[int, Any] = {}
        following = 0
        for place, found in thread.answers(jobs):
            early[place] = found
            while following in early:
                yield early.pop(following)
                following += 1

    def job_maker(self, model: nn.Module, parts: WorkerParts) -> Callable[[Any], WorkerJob]:
        """What makes jobs for `answers` that use a model and parts, which are put into the object store.

        A model that is there already is not sent again.
        """
        with self._lock:
            key, model_at = self._keep_model(model)
            return functools.partial(WorkerJob, key, [model_at], next(self._parts_numbers), [self.put(parts)])

    def call_tasks(self, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call a function, each call as a Ray task with the resources of a cell.

        Args:
            function: The function. Its first arguments are the device and the number of threads to use.
            jobs: The other arguments of each call. References to the object store are replaced by what they refer to.

        Returns:
            The position of each call and what it returned, as they finish.

        Raises:
            HeadwiseError: The cluster does not have the resources of a cell, or a call raises an error.
        """
        self.release_workers()  # they would keep their CPUs and GPUs
        return call_tasks(self._ray, function, jobs, self.cell_resources)

    @property
    def cell_resources(self) -> TaskResources:
        """The resources of a cell."""
        gpus = self.settings.cell_gpus
        return TaskResources(self.settings.cell_cpus, float(self.gpu) if gpus is None else gpus)

    def release_workers(self) -> None:
        """End the workers; they are started again when they are needed."""
        with self._lock:
            if self._thread is not None:
                self._close_thread()
                self._backend.stop_all()

    def put_model(self, model: nn.Module) -> Any:
        """The reference of a model in the object store, as `unship_model` takes it."""
        with self._lock:
            return self._keep_model(model)[1]

    def put(self, thing: Any) -> Any:
        """The reference of a thing in the object store.

        Raises:
            HeadwiseError: The object store is full.
        """
        try:
            return self._ray.put(thing)
        except (self._ray.exceptions.ObjectStoreFullError, self._ray.exceptions.OutOfDiskError):
            raise HeadwiseError(
                "the object store of Ray is full: start Ray with a larger --object-store-memory, or free disk space"
            ) from None

    def _keep_model(self, model: nn.Module) -> tuple[str, Any]:
        skeleton, arrays = ship_model(model, self._pickler)
        digest = hashlib.sha256(skeleton)
        for array in arrays:
            digest.update(zlib.crc32(array.data).to_bytes(4, "little"))
        key = digest.hexdigest()
        if key not in self._models:
            while len(self._models) >= _MOST_MODELS:
                self._models.popitem(last=False)
            self._models[key] = self.put((skeleton, arrays))
        return key, self._models[key]

    @property
    def _dispatchers(self) -> list[Dispatcher]:
        return [*self._ended, *([] if self._thread is None else [self._thread.dispatcher])]

    def _start_workers(self) -> None:
        self._backend = RayWorkers(self._ray, self.gpu, self.settings.threads)
        dispatcher = Dispatcher(self._backend, self.workers, self.settings.timeout, note=_log.warning)
        self._thread = DispatcherThread(dispatcher)

    def _close_thread(self) -> None:
        if self._thread is not None:
            self._thread.close()
            self._ended.append(self._thread.dispatcher)
            self._thread = None

    def _disconnect(self) -> None:
        if self._owner:
            self._ray.shutdown()


@dataclass(frozen=True)
class ClusterEngines:
    """Creates the engines of a cluster; see `EngineFactory`.

    Attributes:
        cluster: The cluster.
        calls_at_once: Number of engines that may be called at the same time, each in a thread of its own.
    """

    cluster: Cluster
    calls_at_once: int = _AT_ONCE

    def __call__(
        self,
        model: nn.Module,
        heads: HeadMap | None,
        game: Game | GenerationGame,
        examples: ExampleSet,
        players: PlayerSet | None = None,
        settings: EngineSettings | None = None,
        baseline: MeanOutputs | None = None,
    ) -> LocalEngine:
        """Create an engine.

        Texts are generated in this process: only values of labels and gradients are distributed.
        """
        if isinstance(game, GenerationGame):
            return LocalEngine(model, heads, game, examples, players, settings, baseline)
        settings = settings or EngineSettings()
        if self.cluster.gpu and settings.token_budget is None:
            settings = replace(settings, token_budget=_GPU_TOKENS)
        return ClusterEngine(self.cluster, model, heads, game, examples, players, settings, baseline)


def cluster_of(make_engine: EngineFactory) -> Cluster | None:
    """The cluster of a factory of engines; None if they compute in this process."""
    return make_engine.cluster if isinstance(make_engine, ClusterEngines) else None
