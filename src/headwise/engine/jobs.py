"""Batches as jobs: what an engine computes at once, here or on a worker."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

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
