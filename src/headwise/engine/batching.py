"""Packing rows into batches: like lengths together, rows of one example side by side, within a budget of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.prefix import Level
from headwise.tasks.encoding import Batch

#: A batch with so many tokens keeps the device busy: it need not take rows that bring more padding than this share.
ENOUGH_TOKENS = 512
MOST_PADDING = 0.03

#: Arrays of a batch that have one entry for each label rather than for each row.
_OF_LABELS = ("rows", "positions", "gold", "places")


@dataclass(frozen=True)
class Pack:
    """The rows of one batch.

    Attributes:
        rows: Which rows, sorted by example and by masks from the lowest layer up, (rows,).
        examples: The example of each, (rows,).
    """

    rows: NDArray[np.int64]
    examples: NDArray[np.int64]

    @property
    def root(self) -> Level:
        """Rows of one example as one node."""
        first = np.flatnonzero(np.append(True, self.examples[1:] != self.examples[:-1]))
        counts = np.diff(np.append(first, len(self.examples)))
        node = np.repeat(np.arange(len(first)), counts)
        return Level(*(torch.from_numpy(each) for each in (first, first, node)))


def pack_rows(
    masks: NDArray[np.bool_],
    depths: NDArray[np.int64],
    examples: NDArray[np.int64],
    lengths: NDArray[np.int64],
    token_budget: int,
) -> Iterator[Pack]:
    """Batches of rows, the longest first.

    Args:
        masks: The mask of each row, (rows, players).
        depths: The first layer that each player touches, (players,).
        examples: The example of each row, (rows,).
        lengths: Tokens of each example, (examples,).
        token_budget: Most padded tokens of a batch; a row longer than it is a batch of its own.
    """
    packed = np.packbits(masks[:, np.argsort(depths, kind="stable")], axis=1)  # (rows, bytes)
    order = np.lexsort((*packed.T[::-1], examples, -lengths[examples]))
    sizes = lengths[examples[order]]  # longest first
    start = 0
    while start < len(order):
        most = max(1, int(token_budget // sizes[start]))
        stop = start + _batch_size(sizes[start : start + most])
        yield Pack(order[start:stop], examples[order[start:stop]])
        start = stop


def _batch_size(sizes: NDArray[np.int64]) -> int:
    """How many of some rows, the longest first, to take: all, unless fewer are enough and the rest mean padding."""
    padded = sizes[0] * np.arange(1, len(sizes) + 1)  # tokens of the first row, the first two, ...
    wasteful = (padded - np.cumsum(sizes) > MOST_PADDING * padded) & (padded - sizes[0] >= ENOUGH_TOKENS)
    return int(np.argmax(wasteful)) if wasteful.any() else len(sizes)


def take_rows(batch: Batch, index: Tensor) -> Batch:
    """A batch of a batch's rows, any of them any number of times.

    Args:
        batch: The batch.
        index: Which of its rows, in what order, (new rows,).
    """
    counts = torch.bincount(batch.rows, minlength=len(batch.index))  # labels of each row
    first = counts.cumsum(0) - counts
    wanted = counts[index]
    rows = torch.repeat_interleave(torch.arange(len(index)), wanted)
    within = torch.arange(len(rows)) - (wanted.cumsum(0) - wanted)[rows]
    labels = first[index][rows] + within  # labels of a batch lie row by row
    changed = {name: getattr(batch, name)[labels] for name in _OF_LABELS if name != "rows"} | {"rows": rows}
    for each in fields(batch):
        if each.name not in (*_OF_LABELS, "extra"):
            changed[each.name] = getattr(batch, each.name)[index]
    return replace(batch, **changed, extra={name: tensor[index] for name, tensor in batch.extra.items()})
