"""Pack rows into batches within a budget of tokens: similar lengths together, rows of one example adjacent."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.prefix import Level
from headwise.tasks.encoding import Batch, split_batches

#: A batch of this size keeps the device busy, so it takes no more rows that would raise its padding above this share.
ENOUGH_TOKENS = 512
MOST_PADDING = 0.03

#: Arrays of a batch that have one entry per label instead of one per row.
_OF_LABELS = ("rows", "positions", "gold", "places")


@dataclass(frozen=True)
class Pack:
    """The rows of one batch.

    Attributes:
        rows: Indices of the rows, sorted by example, then by gates from the lowest layer upwards, (rows,).
        examples: The example of each row, (rows,).
    """

    rows: NDArray[np.int64]
    examples: NDArray[np.int64]

    @property
    def root(self) -> Level:
        """The level of the tree at which each node has all rows of one example."""
        first = np.flatnonzero(np.append(True, self.examples[1:] != self.examples[:-1]))
        counts = np.diff(np.append(first, len(self.examples)))
        node = np.repeat(np.arange(len(first)), counts)
        return Level(*(torch.from_numpy(each) for each in (first, first, node)))


def pack_rows(
    gates: NDArray[Any],
    depths: NDArray[np.int64],
    examples: NDArray[np.int64],
    lengths: NDArray[np.int64],
    token_budget: int,
) -> Iterator[Pack]:
    """Batches of rows, the longest first.

    Args:
        gates: The gates of each row, boolean or real, (rows, players).
        depths: The first layer that each player affects, (players,).
        examples: The example of each row, (rows,).
        lengths: Number of tokens of each example, (examples,).
        token_budget: Maximum number of padded tokens of a batch. A longer row is a batch by itself.
    """
    order = np.lexsort((*_gate_keys(gates[:, np.argsort(depths, kind="stable")]), examples, -lengths[examples]))
    for part in split_batches(lengths[examples[order]], token_budget, MOST_PADDING, ENOUGH_TOKENS):
        yield Pack(order[part], examples[order[part]])


def fewest_rows(token_budget: int, longest: int) -> int:
    """The minimum number of rows of any batch of `pack_rows` except the last.

    Args:
        token_budget: Maximum number of padded tokens of a batch.
        longest: Number of tokens of the longest example.

    Example:
        >>> fewest_rows(2048, longest=40), fewest_rows(100, longest=40), fewest_rows(30, longest=40)
        (13, 2, 1)
    """
    return min(max(1, token_budget // longest), -(-ENOUGH_TOKENS // longest))


def _gate_keys(gates: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Keys for `np.lexsort` that sort rows by their gates; the last key is the most significant."""
    if gates.dtype == bool:
        return tuple(np.packbits(gates, axis=1).T[::-1])  # eight gates per key
    _, rank = np.unique(gates, axis=0, return_inverse=True)
    return (rank.ravel(),)


def take_rows(batch: Batch, index: Tensor) -> Batch:
    """Select rows of a batch; rows may be repeated.

    Args:
        batch: The batch.
        index: Indices of the rows, in the order of the result, (new rows,).
    """
    counts = torch.bincount(batch.rows, minlength=len(batch.index))  # labels of each row
    first = counts.cumsum(0) - counts
    wanted = counts[index]
    rows = torch.repeat_interleave(torch.arange(len(index)), wanted)
    within = torch.arange(len(rows)) - (wanted.cumsum(0) - wanted)[rows]
    labels = first[index][rows] + within  # labels of a batch are sorted by row
    changed = {name: getattr(batch, name)[labels] for name in _OF_LABELS if name != "rows"} | {"rows": rows}
    for each in fields(batch):
        value = getattr(batch, each.name)
        if isinstance(value, Tensor) and each.name not in _OF_LABELS:
            changed[each.name] = value[index]
    return replace(batch, **changed, extra={name: tensor[index] for name, tensor in batch.extra.items()})
