"""Ray: the connection to a cluster, and workers as Ray actors."""

import itertools
import logging
import os
import platform
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headwise.engine.dispatch import Event, Failure
from headwise.engine.worker import ModelWorker, WorkerJob, check_versions, versions
from headwise.errors import FieldError, HeadwiseError, MissingPackageError

if TYPE_CHECKING:
    from headwise.engine.cluster import ClusterSettings

#: Maximum number of seconds to wait for an answer at the address of a cluster.
_CONNECT_SECONDS = 10.0
#: Number of attempts to start Ray on this machine.
_ATTEMPTS = 5


class _RayWorker(ModelWorker):
    """The process of a worker."""

    def __init__(self, device: str, threads: int) -> None:
        import ray

        super().__init__(device, threads, ray.get)

    def hello(self) -> tuple[dict[str, str], str, int]:
        """Versions, node and process id."""
        return versions(), platform.node(), os.getpid()


class RayWorkers:
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
        """Start a worker."""
        number = next(self._numbers)
        self._actors[number] = self._actor.remote(*self._arguments)
        self._waiting[self._actors[number].hello.remote()] = number, None
        return number

    def send(self, worker: int, job: WorkerJob) -> None:
        """Give a worker a job."""
        self._waiting[self._actors[worker].compute.remote(job)] = worker, job

    def stop(self, worker: int) -> None:
        """End a worker."""
        self._ray.kill(self._actors.pop(worker))
        self.processes.pop(worker, None)
        self._waiting = {reference: about for reference, about in self._waiting.items() if about[0] != worker}

    def stop_all(self) -> None:
        """End all workers."""
        for worker in list(self._actors):
            self.stop(worker)

    def wait(self, seconds: float) -> list[Event]:
        """What workers report within a number of seconds."""
        if not self._waiting:
            time.sleep(min(seconds, 0.01))
            return []
        ready, _ = self._ray.wait(list(self._waiting), timeout=seconds)
        if ready:  # all that are ready by now
            ready, _ = self._ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)
        return [event for reference in ready for event in self._event(reference)]

    def now(self) -> float:
        """The time in seconds."""
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
            yield Event(worker, "died", Failure("died", where + in_words(error)))
            return
        if job is None:
            check_versions(found[0])
            self.processes[worker] = found[1:]
            yield Event(worker, "ready")
        else:
            yield Event(worker, "failure" if isinstance(found, Failure) else "answer", found, job)


def import_ray() -> Any:
    """The package of Ray.

    Raises:
        MissingPackageError: It is not installed.
    """
    # Ray prints on standard output that a worker or a node died, which would spoil JSON; the dispatcher reports it.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "worker died or was killed|has been marked dead")
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingPackageError("clusters need Ray: pip install 'headwise[cluster]'") from None
    return ray


def connect(ray: Any, settings: "ClusterSettings") -> bool:
    """Connect to a cluster or start one; returns whether the connection has to be closed."""
    if ray.is_initialized():  # by the program that uses headwise
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if settings.address is None:
        assert settings.workers is not None
        _start_here(ray, num_cpus=settings.workers * settings.threads, include_dashboard=False, **quiet)
        return True
    try:
        _check_reachable(settings.address)
        ray.init(settings.address, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        if isinstance(error, ConnectionError) and "Ray cluster" in reason:
            reason += " (does RAY_AUTH_TOKEN have the same value there and here?)"
        raise FieldError("cluster", f"no Ray cluster can be used at {settings.address!r}: {reason}") from None
    return True


def _start_here(ray: Any, **options: Any) -> None:
    """Start Ray on this machine. On a busy machine it may need several attempts: it waits for itself only for 30 s."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            ray.init("local", **options)
            return
        except Exception as error:  # Ray raises this class itself
            if "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            if attempt == _ATTEMPTS:
                raise HeadwiseError(
                    "Ray did not start within 30 s on this machine, which may be too busy: try again, or omit --workers"
                ) from None


def _check_reachable(address: str) -> None:
    """Raise an error if nothing answers at an address: Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise ValueError("an address is HOST:PORT or auto")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
        pass


def in_words(error: Exception) -> str:
    """The first line of an error of Ray that is not empty; for an error in the code of a worker, the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) or "ray::" in lines[0] else lines[0]
