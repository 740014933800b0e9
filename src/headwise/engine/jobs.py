"""Batches as jobs: what an engine computes at once, here or on a worker."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
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


def require_finite(found: Tensor, index: NDArray[np.int64], bfloat16: bool = False) -> Tensor:
    """The results of rows, (rows, …), if all are finite: a single NaN would invalidate every score that it enters.

    Args:
        found: The results.
        index: The example of each row.
        bfloat16: Whether they were computed in bfloat16, so that an error suggests to do without.

    Raises:
        NotFiniteError: A result is NaN or infinity.

    Example:
        >>> require_finite(torch.tensor([0.5, torch.nan]), np.array([3, 7]))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        headwise.engine.jobs.NotFiniteError: the model returns NaN or infinity on example 7, numbered from 0: check ...
    """
    finite = torch.isfinite(found if found.dim() > 1 else found[:, None]).all(1)
    if not finite.all():
        remedy = "run without --bfloat16, or " if bfloat16 else ""
        raise NotFiniteError(
            f"the model returns NaN or infinity on example {index[int(finite.int().argmin())]}, numbered "
            f"from 0: {remedy}check its weights, some of which may be NaN or too large"
        )
    return found
