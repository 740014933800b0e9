"""The side of a cluster's workers: a process that holds a model and computes batches."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from headwise import __version__
from headwise.engine.base import EngineSettings
from headwise.engine.cost import EngineCost
from headwise.engine.dispatch import Failure
from headwise.engine.examples import ExampleSet
from headwise.engine.jobs import NotFiniteError, PackJob
from headwise.engine.local import LocalEngine
from headwise.engine.players import PlayerSet
from headwise.engine.shipping import unship_model
from headwise.errors import HeadwiseError
from headwise.games.base import Game
from headwise.heads import HeadMap
from headwise.means import MeanOutputs

#: Maximum number of `WorkerParts` that a worker keeps ready, one per game and set of examples. They share the model.
MOST_PARTS = 32


class WorkerParts(Protocol):
    """Everything that jobs of one kind need, except the model. It is sent to each worker once."""

    def load(self, model: Any) -> Callable[[Any], Any]:
        """The function that computes a job with a model."""


@dataclass(frozen=True)
class EngineParts:
    """Everything of an engine except its model. A job is a batch.

    Attributes:
        heads: The head map.
        game: The game.
        examples: The examples.
        players: The players.
        settings: The settings.
        baseline: The mean outputs that replace what is off; None for zero.
    """

    heads: HeadMap
    game: Game
    examples: ExampleSet
    players: PlayerSet
    settings: EngineSettings
    baseline: MeanOutputs | None

    def load(self, model: Any) -> Callable[[PackJob], "WorkerAnswer"]:
        """The function that computes a batch with a model."""
        engine = LocalEngine(model, **{each.name: getattr(self, each.name) for each in dataclasses.fields(self)})

        def compute(pack: PackJob) -> WorkerAnswer:
            found = engine.compute(pack)
            gradients = None if found.gradients is None else found.gradients.numpy()
            return WorkerAnswer(found.values.numpy(), gradients, found.cost)

        return compute


@dataclass(frozen=True)
class WorkerJob:
    """A job, with references to what it needs.

    Attributes:
        model: The key of the model.
        model_ref: A list with the reference to the shipped model. It is in a list so that Ray does not load it.
        parts: The key of the parts.
        parts_ref: A list with the reference to the `WorkerParts`.
        content: What to compute, such as a `PackJob`.
    """

    model: str
    model_ref: list[Any]
    parts: int
    parts_ref: list[Any]
    content: Any


@dataclass(frozen=True)
class WorkerAnswer:
    """The results of a batch as arrays; see `PackAnswer`."""

    values: NDArray[np.float32]
    gradients: NDArray[np.float32] | None
    cost: EngineCost


class ModelWorker:
    """Holds a model, and computes jobs with it.

    Args:
        device: The device of the model.
        threads: Number of threads. It is the same for all workers, since results may depend on it in their last bits.
        fetch: Loads the object of a reference; `ray.get`.
    """

    def __init__(self, device: str, threads: int, fetch: Callable[[Any], Any]) -> None:
        torch.set_num_threads(threads)
        self.device, self._fetch = device, fetch
        self._model: tuple[str, Any] | None = None
        self._loaded: OrderedDict[int, Callable[[Any], Any]] = OrderedDict()

    def compute(self, job: WorkerJob) -> Any:
        """The answer to a job, or a `Failure`, so that the driver can tell errors from a worker that died."""
        try:
            return self._load(job)(job.content)
        except NotFiniteError as error:
            return Failure("not finite", str(error))
        except HeadwiseError as error:
            return Failure("error", str(error))
        except (MemoryError, torch.OutOfMemoryError) as error:
            return self._out_of_memory(error)
        except RuntimeError as error:
            if "can't allocate memory" in str(error) or "out of memory" in str(error):
                return self._out_of_memory(error)
            return Failure("error", f"a worker raised {type(error).__name__}: {error}")

    def _load(self, job: WorkerJob) -> Callable[[Any], Any]:
        if self._model is None or self._model[0] != job.model:
            self._loaded.clear()
            self._model = None  # release the memory of the old model first
            self._model = job.model, unship_model(self._fetch(job.model_ref[0])).to(self.device)
        if job.parts not in self._loaded:
            parts: WorkerParts = self._fetch(job.parts_ref[0])
            self._loaded[job.parts] = parts.load(self._model[1])
            if len(self._loaded) > MOST_PARTS:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(job.parts)
        return self._loaded[job.parts]

    def _out_of_memory(self, error: BaseException) -> Failure:
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()
        return Failure(
            "memory", f"a worker has too little memory ({str(error).splitlines()[0] if str(error) else 'MemoryError'})"
        )


def versions() -> dict[str, str]:
    """Versions that must be the same for the driver and its workers."""
    return {"headwise": __version__, "torch": torch.__version__.partition("+")[0]}


def check_versions(found: dict[str, str]) -> None:
    """Raise an error if a worker has other versions, which may give other results."""
    for name, version in versions().items():
        if found.get(name) != version:
            raise HeadwiseError(
                f"a worker has {name} {found.get(name)}, but this process has {version}: install the same on all nodes"
            )
