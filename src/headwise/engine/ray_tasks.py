"""Long calls as Ray tasks, each with CPUs and GPUs of its own."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headwise.engine.dispatch import Failure
from headwise.engine.ray_workers import in_words
from headwise.engine.worker import check_versions, versions
from headwise.errors import HeadwiseError

#: Maximum number of times that Ray calls a task again because its process or its node died.
_RETRIES = 4


@dataclass(frozen=True)
class TaskResources:
    """What a task needs.

    Attributes:
        cpus: Number of CPUs, and threads.
        gpus: Number of GPUs, or a fraction of one.
    """

    cpus: int = 1
    gpus: float = 0.0

    def most_at_once(self, total: dict[str, float]) -> int:
        """Number of tasks that a cluster can run at the same time.

        Args:
            total: The resources of the cluster.

        Raises:
            HeadwiseError: Not even one.

        Example:
            >>> TaskResources(cpus=2).most_at_once({"CPU": 7.0})
            3
            >>> TaskResources(gpus=0.5).most_at_once({"CPU": 64.0, "GPU": 8.0})
            16
        """
        found = int(total.get("CPU", 0) // self.cpus)
        if self.gpus:
            found = min(found, int(total.get("GPU", 0) / self.gpus))
        if not found:
            raise HeadwiseError(
                f"a cell needs {self.cpus} CPUs and {self.gpus:g} GPUs, but the cluster has "
                f"{total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs: change --cell-cpus or --cell-gpus"
            )
        return found


def call_tasks(
    ray: Any, function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]], resources: TaskResources
) -> Iterator[tuple[int, Any]]:
    """Call a function in Ray tasks; see `Cluster.call_tasks`.

    Only as many calls are on their way as the cluster can take, and as many that wait: others are taken from `jobs` as
    calls finish.
    """
    options = {"num_cpus": resources.cpus, "num_gpus": resources.gpus, "max_retries": _RETRIES}
    remote = ray.remote(**options)(_call)
    most = 2 * resources.most_at_once(ray.cluster_resources())
    first = ("cuda" if resources.gpus else "cpu", resources.cpus)
    waiting: dict[Any, int] = {}
    source = enumerate(jobs)
    try:
        while True:
            for place, job in itertools.islice(source, most - len(waiting)):
                waiting[remote.remote(function, *first, *job)] = place
            if not waiting:
                return
            ready, _ = ray.wait(list(waiting), timeout=1.0)
            for reference in ready:
                yield waiting.pop(reference), _result(ray, reference)
    finally:  # also after Ctrl-C
        for reference in waiting:
            ray.cancel(reference, force=True)


def _call(function: Callable[..., Any], *arguments: Any) -> tuple[dict[str, str], Any]:
    """The task: versions, and the result. Errors of headwise are returned, so that Ray does not wrap them."""
    import torch

    torch.set_num_threads(arguments[1])
    try:
        return versions(), function(*arguments)
    except HeadwiseError as error:
        return versions(), Failure("error", str(error))


def _result(ray: Any, reference: Any) -> Any:
    try:
        of_worker, found = ray.get(reference)
    except ray.exceptions.RayError as error:
        raise HeadwiseError(f"a cell failed on the cluster: {in_words(error)}") from None
    check_versions(of_worker)
    if isinstance(found, Failure):
        raise HeadwiseError(found.reason)
    return found
