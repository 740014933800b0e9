"""Packing rows into batches: like lengths together, rows of one example side by side, within a budget of tokens."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.engine.prefix import Level
from headwise.tasks.encoding import Batch, split_batches

#: A batch with this many tokens keeps the device busy: it takes no rows that bring its padding above this share.
ENOUGH_TOKENS = 512
MOST_PADDING = 0.03

#: Arrays of a batch that have one entry for each label rather than for each row.
_OF_LABELS = ("rows", "positions", "gold", "places")


@dataclass(frozen=True)
class Pack:
    """The rows of one batch.

    Attributes:
        rows: Which rows, sorted by example and by gates from the lowest layer up, (rows,).
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
    gates: NDArray[Any],
    depths: NDArray[np.int64],
    examples: NDArray[np.int64],
    lengths: NDArray[np.int64],
    token_budget: int,
) -> Iterator[Pack]:
    """Batches of rows, the longest first.

    Args:
        gates: The gates of each row, boolean or real, (rows, players).
        depths: The first layer that each player touches, (players,).
        examples: The example of each row, (rows,).
        lengths: Tokens of each example, (examples,).
        token_budget: Most padded tokens of a batch; a row longer than it is a batch of its own.
    """
    order = np.lexsort((*_gate_keys(gates[:, np.argsort(depths, kind="stable")]), examples, -lengths[examples]))
    for part in split_batches(lengths[examples[order]], token_budget, MOST_PADDING, ENOUGH_TOKENS):
        yield Pack(order[part], examples[order[part]])


def fewest_rows(token_budget: int, longest: int) -> int:
    """The fewest rows of any batch of `pack_rows` but the last.

    Args:
        token_budget: Most padded tokens of a batch.
        longest: Tokens of the longest example.

    Example:
        >>> fewest_rows(2048, longest=40), fewest_rows(100, longest=40), fewest_rows(30, longest=40)
        (13, 2, 1)
    """
    return min(max(1, token_budget // longest), -(-ENOUGH_TOKENS // longest))


def _gate_keys(gates: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Keys for `np.lexsort`, the last the most significant: rows sorted by them are sorted by their gates."""
    if gates.dtype == bool:
        return tuple(np.packbits(gates, axis=1).T[::-1])  # eight gates a key
    _, rank = np.unique(gates, axis=0, return_inverse=True)
    return (rank.ravel(),)


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
