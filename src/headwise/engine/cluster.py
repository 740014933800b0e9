"""The engine on a Ray cluster: batches are computed by workers, which are Ray actors that each hold the model.

The driver makes the same batches as the engine in this process, and each batch is computed as a whole by one worker.
Results therefore have the same bits for any number of workers and any order of arrival, also after workers were lost.
"""

import hashlib
import itertools
import logging
import os
import platform
import socket
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import nn

from headwise.engine.base import EngineSettings
from headwise.engine.dispatch import Dispatcher, DispatcherThread, Event, Failure
from headwise.engine.examples import ExampleSet
from headwise.engine.local import LocalEngine, NotFiniteError, PackAnswer, PackJob
from headwise.engine.players import PlayerSet
from headwise.engine.shipping import ship_model
from headwise.engine.worker import EngineParts, ModelWorker, WorkerAnswer, WorkerJob, versions
from headwise.errors import FieldError, HeadwiseError, MissingPackageError, require_whole
from headwise.games.base import Game
from headwise.games.generation import GenerationGame
from headwise.heads import HeadMap
from headwise.means import MeanOutputs

#: Failures that may be due to the size of a batch, so that its halves may succeed.
_SPLIT_AFTER = ("memory", "died", "hung")
#: Padded tokens of a batch for workers on GPUs.
_GPU_TOKENS = 16384
#: Maximum number of models in the object store.
_MOST_MODELS = 2
#: Maximum number of seconds to wait for an answer at the address of a cluster.
_CONNECT_SECONDS = 10.0
#: Maximum number of players named in an error message.
_NAMED = 4

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

    Raises:
        HeadwiseError: A number is too small, or workers is None though there is no address.
    """

    workers: int | None = None
    address: str | None = None
    device: str = "auto"
    threads: int = 1
    timeout: float = 600.0

    def __post_init__(self) -> None:
        require_whole("threads", self.threads)
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
        self._engine_numbers = itertools.count()

    def __enter__(self) -> "Cluster":
        self._ray = _import_ray()
        self._pickler = self._ray.cloudpickle.Pickler
        self._owner = _connect(self._ray, self.settings)
        try:
            total = self._ray.cluster_resources()
            self.gpu = self.settings.device != "cpu" and total.get("GPU", 0) >= 1
            self.workers = self.settings.workers or max(
                1, int(total["GPU"] if self.gpu else total.get("CPU", 1) / self.settings.threads)
            )
            self._backend = _RayWorkers(self._ray, self.gpu, self.settings.threads)
            self._thread = DispatcherThread(
                Dispatcher(self._backend, self.workers, self.settings.timeout, note=_log.warning)
            )
        except BaseException:
            self._disconnect()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.close()
        self._disconnect()

    def make_engine(
        self,
        model: nn.Module,
        heads: HeadMap | None,
        game: Game | GenerationGame,
        examples: ExampleSet,
        players: PlayerSet | None = None,
        settings: EngineSettings | None = None,
        baseline: MeanOutputs | None = None,
    ) -> LocalEngine:
        """Create an engine whose batches are computed by the workers; see `EngineFactory`.

        Texts are generated in this process: only values of labels and gradients are distributed.
        """
        if isinstance(game, GenerationGame):
            return LocalEngine(model, heads, game, examples, players, settings, baseline)
        settings = settings or EngineSettings()
        if self.gpu and settings.token_budget is None:
            settings = replace(settings, token_budget=_GPU_TOKENS)
        return ClusterEngine(self, model, heads, game, examples, players, settings, baseline)

    @property
    def processes(self) -> dict[int, tuple[str, int]]:
        """Node and process id of each worker that is ready."""
        return dict(self._backend.processes)

    @property
    def replaced(self) -> int:
        """Number of workers that were lost and replaced."""
        return self._thread.dispatcher.replaced

    def answers(self, jobs: Iterable[WorkerJob]) -> Iterator[tuple[int, WorkerAnswer | Failure]]:
        """The answers to jobs in the order of their arrival, each with the position of its job."""
        return self._thread.answers(jobs)

    def keep_model(self, model: nn.Module) -> tuple[str, Any]:
        """The key of a model and its reference in the object store; a model that is there already is not sent again."""
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

    def keep_parts(self, parts: EngineParts) -> tuple[int, Any]:
        """A key of an engine, and its reference in the object store."""
        return next(self._engine_numbers), self.put(parts)

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

    def _disconnect(self) -> None:
        if self._owner:
            self._ray.shutdown()


class ClusterEngine(LocalEngine):
    """The engine on a cluster: makes the batches of the engine in this process, but workers compute them."""

    def __init__(
        self,
        cluster: Cluster,
        model: nn.Module,
        heads: HeadMap | None,
        game: Game,
        examples: ExampleSet,
        players: PlayerSet | None,
        settings: EngineSettings,
        baseline: MeanOutputs | None,
    ) -> None:
        super().__init__(model, heads, game, examples, players, settings, baseline)
        self._cluster = cluster
        self._model_at = cluster.keep_model(model)
        self._parts_at = cluster.keep_parts(
            EngineParts(self.heads, game, self.examples, self.players, self.settings, self.baseline)
        )

    def _of(self, game: Game, examples: ExampleSet) -> "ClusterEngine":
        """The same engine for another game and other examples."""
        return ClusterEngine(
            self._cluster, self.model, self.heads, game, examples, self.players, self.settings, self.baseline
        )

    def _answers(self, jobs: Iterable[PackJob]) -> Iterator[PackAnswer]:
        """The answers to batches, in their order."""
        sent: dict[int, PackJob] = {}

        def sending() -> Iterator[WorkerJob]:
            for place, job in enumerate(jobs):
                sent[place] = job
                yield WorkerJob(self._model_at[0], [self._model_at[1]], self._parts_at[0], [self._parts_at[1]], job)

        early: dict[int, PackAnswer] = {}
        following = 0
        for place, found in self._cluster.answers(sending()):
            early[place] = self._resolved(sent.pop(place), found)
            while following in early:
                yield early.pop(following)
                following += 1

    def _resolved(self, job: PackJob, found: WorkerAnswer | Failure) -> PackAnswer:
        """The answer to a batch; if it failed on several workers, its halves are tried.

        Raises:
            HeadwiseError: A single row fails, or the failure does not depend on the size of the batch.
        """
        if isinstance(found, WorkerAnswer):
            gradients = None if found.gradients is None else torch.from_numpy(found.gradients.copy())
            return PackAnswer(torch.from_numpy(found.values.copy()), gradients, found.cost)
        if found.kind == "not finite":
            raise NotFiniteError(found.reason)
        if found.kind not in _SPLIT_AFTER:
            raise HeadwiseError(found.reason)
        rows = len(job.examples)
        if rows == 1:
            raise HeadwiseError(f"{self._name(job)} fails on several workers: {found.reason}")
        _log.warning(
            "a batch of %d rows failed on several workers and is split, so the last bits of its values may differ: %s",
            rows,
            found.reason,
        )
        parts = (slice(None, rows // 2), slice(rows // 2, None))
        halves = [replace(job, gates=job.gates[part], examples=job.examples[part]) for part in parts]
        one, other = self._answers(halves)
        gradients = None
        if one.gradients is not None and other.gradients is not None:
            gradients = torch.cat([one.gradients, other.gradients])
        return PackAnswer(torch.cat([one.values, other.values]), gradients, one.cost + other.cost)

    def _name(self, job: PackJob) -> str:
        """A row for an error message: its example, and the players that are not fully on."""
        off = [self.players.names[place] for place in np.flatnonzero(job.gates[0] != 1)]
        more = f" and {len(off) - _NAMED} more" if len(off) > _NAMED else ""
        return f"example {job.examples[0]}, numbered from 0, without {', '.join(off[:_NAMED]) or 'nothing'}{more},"


class _RayWorker(ModelWorker):
    """The process of a worker."""

    def __init__(self, device: str, threads: int) -> None:
        import ray

        super().__init__(device, threads, ray.get)

    def hello(self) -> tuple[dict[str, str], str, int]:
        """Versions, node and process id."""
        return versions(), platform.node(), os.getpid()


class _RayWorkers:
    """Workers as Ray actors."""

    def __init__(self, ray: Any, gpu: bool, threads: int) -> None:
        self._ray = ray
        self._actor = ray.remote(num_cpus=threads, num_gpus=int(gpu), max_restarts=0)(_RayWorker)
        self._arguments = ("cuda" if gpu else "cpu", threads)
        self._actors: dict[int, Any] = {}
        self._waiting: dict[
            Any, tuple[int, WorkerJob | None]
        ] = {}  # reference: worker and job; no job in the first call
        self._numbers = itertools.count()
        self.processes: dict[int, tuple[str, int]] = {}

    def start(self) -> int:
        number = next(self._numbers)
        self._actors[number] = self._actor.remote(*self._arguments)
        self._waiting[self._actors[number].hello.remote()] = number, None
        return number

    def send(self, worker: int, job: WorkerJob) -> None:
        self._waiting[self._actors[worker].compute.remote(job)] = worker, job

    def stop(self, worker: int) -> None:
        self._ray.kill(self._actors.pop(worker))
        self.processes.pop(worker, None)
        self._waiting = {reference: about for reference, about in self._waiting.items() if about[0] != worker}

    def wait(self, seconds: float) -> list[Event]:
        if not self._waiting:
            time.sleep(min(seconds, 0.01))
            return []
        ready, _ = self._ray.wait(list(self._waiting), timeout=seconds)
        if ready:  # all that are ready by now
            ready, _ = self._ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)
        return [event for reference in ready for event in self._event(reference)]

    def now(self) -> float:
        return time.monotonic()

    def _event(self, reference: Any) -> Iterator[Event]:
        """What a call returned; nothing for the other calls of a worker that died."""
        if reference not in self._waiting:
            return
        worker, job = self._waiting.pop(reference)
        try:
            found = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            where = "process {1} on {0}: ".format(*self.processes[worker]) if worker in self.processes else ""
            self.stop(worker)
            yield Event(worker, "died", Failure("died", where + _in_words(error)))
            return
        if job is None:
            _check_versions(found[0])
            self.processes[worker] = found[1:]
            yield Event(worker, "ready")
        else:
            yield Event(worker, "failure" if isinstance(found, Failure) else "answer", found, job)


def _import_ray() -> Any:
    # Ray prints on standard output that a worker died, which would spoil JSON; the dispatcher reports it instead.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "worker died or was killed")
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPackageError("clusters need Ray: pip install 'headwise[cluster]'") from None
    return ray


def _connect(ray: Any, settings: ClusterSettings) -> bool:
    """Connect to a cluster or start one; returns whether the connection has to be closed."""
    if ray.is_initialized():  # by the program that uses headwise
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if settings.address is None:
        assert settings.workers is not None
        ray.init("local", num_cpus=settings.workers * settings.threads, include_dashboard=False, **quiet)
        return True
    try:
        _check_reachable(settings.address)
        ray.init(settings.address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise FieldError("cluster", f"no Ray cluster can be used at {settings.address!r}: {reason}") from None
    return True


def _check_reachable(address: str) -> None:
    """Raise an error if nothing answers at an address: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError("an address is HOST:PORT or auto")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
        pass


def _check_versions(found: dict[str, str]) -> None:
    """Raise an error if a worker has other versions, which may give other results."""
    for name, version in versions().items():
        if found.get(name) != version:
            raise HeadwiseError(
                f"a worker has {name} {found.get(name)}, but this process has {version}: install the same on all nodes"
            )


def _in_words(error: Exception) -> str:
    """The first line of an error of Ray that is not empty; for an error in the code of a worker, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) or "ray::" in lines[0] else lines[0]
