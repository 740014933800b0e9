"""Batches as jobs: what an engine computes at once, here or on a worker."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.batching import Pack
from headwise.engine.cost import EngineCost
from headwise.errors import HeadwiseError


class NotFiniteError(HeadwiseError):
    """A model returned NaN or infinity."""


@dataclass(frozen=True)
class PackJob:
    """The rows of one batch, which are computed together.

    The batches of a call depend only on its rows, the model and the settings. All engines make the same batches, so
    they also return the same bits: the last bits of a value depend on the shape of its batch.

    Attributes:
        gates: Gates of each row, (rows, players).
        examples: The example of each row, (rows,); equal ones are adjacent.
        absent: Heads that are not computed because they are off in all rows of the call.
        gradients: Whether to compute gradients.
    """

    gates: NDArray[Any]
    examples: NDArray[np.int64]
    absent: tuple[str, ...] = ()
    gradients: bool = False

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: boolean gates as bits, and example numbers as int32, because clusters send many."""
        state = {**vars(self), "examples": self.examples.astype(np.int32)}
        if self.gates.dtype == bool:
            state["gates"] = np.packbits(self.gates, axis=1), self.gates.shape[1]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state; all values are equal to those that were pickled."""
        gates = state["gates"]
        if isinstance(gates, tuple):
            bits, players = gates
            gates = np.unpackbits(bits, axis=1, count=players).astype(bool)
        vars(self).update(state, gates=gates, examples=state["examples"].astype(np.int64))


@dataclass(frozen=True)
class PackAnswer:
    """The results of one batch.

    Attributes:
        values: Statistics of each row, (rows, statistics).
        gradients: Gradients of each row, (rows, players); None if they were not asked for.
        cost: Their cost.
    """

    values: Tensor
    gradients: Tensor | None
    cost: EngineCost


def jobs_of(
    packs: Iterable[Pack], on: NDArray[Any], absent: tuple[str, ...] = (), gradients: bool = False
) -> Iterator[PackJob]:
    """The batches of rows as jobs.

    Args:
        packs: The batches.
        on: The gates of all rows, (rows, players).
        absent: Heads that are not computed.
        gradients: Whether to compute gradients.
    """
    for pack in packs:
        yield PackJob(on[pack.rows], pack.examples, absent, gradients)
