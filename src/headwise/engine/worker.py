"""The side of a cluster's workers: a process that holds a model and computes batches."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headwise import __version__
from headwise.engine.base import EngineSettings
from headwise.engine.cost import EngineCost
from headwise.engine.dispatch import Failure
from headwise.engine.examples import ExampleSet
from headwise.engine.local import LocalEngine, NotFiniteError, PackJob
from headwise.engine.players import PlayerSet
from headwise.engine.shipping import unship_model
from headwise.errors import HeadwiseError
from headwise.games.base import Game
from headwise.heads import HeadMap
from headwise.means import MeanOutputs

#: Maximum number of engines that a worker keeps, one per game and set of examples. They share the model.
_MOST_ENGINES = 32


@dataclass(frozen=True)
class EngineParts:
    """Everything of an engine except its model.

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


@dataclass(frozen=True)
class WorkerJob:
    """A batch, with references to what it needs.

    Attributes:
        model: The key of the model.
        model_ref: A list with the reference to the shipped model. It is in a list so that Ray does not load it.
        engine: The key of the engine.
        engine_ref: A list with the reference to the `EngineParts`.
        pack: The batch.
    """

    model: str
    model_ref: list[Any]
    engine: int
    engine_ref: list[Any]
    pack: PackJob


@dataclass(frozen=True)
class WorkerAnswer:
    """The results of a batch as arrays; see `PackAnswer`."""

    values: NDArray[np.float32]
    gradients: NDArray[np.float32] | None
    cost: EngineCost


class ModelWorker:
    """Holds a model, and computes batches with it.

    Args:
        device: The device of the model.
        threads: Number of threads. It is the same for all workers, since results may depend on it in their last bits.
        fetch: Loads the object of a reference; `ray.get`.
    """

    def __init__(self, device: str, threads: int, fetch: Callable[[Any], Any]) -> None:
        torch.set_num_threads(threads)
        self.device, self._fetch = device, fetch
        self._model: tuple[str, Any] | None = None
        self._engines: OrderedDict[int, LocalEngine] = OrderedDict()

    def compute(self, job: WorkerJob) -> WorkerAnswer | Failure:
        """Compute a batch. Errors are returned, so that the driver can tell them from a worker that died."""
        try:
            found = self._engine(job).compute(job.pack)
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
        gradients = None if found.gradients is None else found.gradients.numpy()
        return WorkerAnswer(found.values.numpy(), gradients, found.cost)

    def _engine(self, job: WorkerJob) -> LocalEngine:
        if self._model is None or self._model[0] != job.model:
            self._engines.clear()
            self._model = None  # release the memory of the old model first
            self._model = job.model, unship_model(self._fetch(job.model_ref[0])).to(self.device)
        if job.engine not in self._engines:
            parts: EngineParts = self._fetch(job.engine_ref[0])
            self._engines[job.engine] = LocalEngine(self._model[1], **_fields(parts))
            if len(self._engines) > _MOST_ENGINES:
                self._engines.popitem(last=False)
        self._engines.move_to_end(job.engine)
        return self._engines[job.engine]

    def _out_of_memory(self, error: BaseException) -> Failure:
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()
        return Failure(
            "memory", f"a worker has too little memory ({str(error).splitlines()[0] if str(error) else 'MemoryError'})"
        )


def versions() -> dict[str, str]:
    """Versions that must be the same for the driver and its workers."""
    return {"headwise": __version__, "torch": torch.__version__.partition("+")[0]}


def _fields(parts: EngineParts) -> dict[str, Any]:
    return {each.name: getattr(parts, each.name) for each in dataclasses.fields(parts)}
