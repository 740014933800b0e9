"""Metrics as sums: each example gives a few numbers, and any set of examples is measured by adding them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.extras import require

Array = NDArray[np.float64]


class Metric(Protocol):
    """A metric of whole corpora out of per-example statistics."""

    @property
    def name(self) -> str:
        """What it is called, such as `accuracy`."""

    def statistics(self, predicted: Sequence[str], gold: Sequence[str]) -> Array:
        """What one example adds, (statistics,)."""

    def value(self, totals: Array) -> Array:
        """The metric, in percent, of summed statistics (..., statistics)."""


@dataclass(frozen=True)
class Accuracy:
    """Share of labels that are right; a label never predicted is wrong."""

    name: str = "accuracy"

    def statistics(self, predicted: Sequence[str], gold: Sequence[str]) -> Array:
        """Right labels, labels."""
        return np.array([sum(p == g for p, g in zip(predicted, gold, strict=True)), len(gold)], dtype=np.float64)

    def value(self, totals: Array) -> Array:
        """Right labels ÷ labels."""
        return 100 * _ratio(totals[..., 0], totals[..., 1])


@dataclass(frozen=True)
class EntityF1:
    """F1 of whole entities or slots in IOB2, micro-averaged, as seqeval counts them."""

    name: str = "f1"

    def statistics(self, predicted: Sequence[str], gold: Sequence[str]) -> Array:
        """Right entities, predicted entities, gold entities."""
        get_entities = require("seqeval.metrics.sequence_labeling", "tasks", "F1 of entities").get_entities
        found, true = set(get_entities(list(predicted))), set(get_entities(list(gold)))
        return np.array([len(found & true), len(found), len(true)], dtype=np.float64)

    def value(self, totals: Array) -> Array:
        """2 · right ÷ (predicted + gold)."""
        return 100 * _ratio(2 * totals[..., 0], totals[..., 1] + totals[..., 2])


def _ratio(over: Array, under: Array) -> Array:
    return np.divide(over, under, out=np.zeros(np.broadcast_shapes(over.shape, under.shape)), where=under > 0)
