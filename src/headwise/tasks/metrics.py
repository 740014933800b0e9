"""Metrics as sums: each example gives a few numbers, and any set of examples is measured by adding them up."""

from collections.abc import Callable, Sequence
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


@dataclass(frozen=True)
class MacroF1:
    """Mean over labels of their F1; labels that neither occur nor are predicted are left out."""

    labels: tuple[str, ...]
    name: str = "macro_f1"

    def statistics(self, predicted: Sequence[str], gold: Sequence[str]) -> Array:
        """Right, predicted and gold counts of each label, (3·labels,)."""
        counts = np.zeros((3, len(self.labels)))
        for p, g in zip(predicted, gold, strict=True):
            if p in self.labels:
                counts[1, self.labels.index(p)] += 1
            counts[2, self.labels.index(g)] += 1
            counts[0, self.labels.index(g)] += p == g
        return counts.ravel()

    def value(self, totals: Array) -> Array:
        """The mean of 2 · right ÷ (predicted + gold)."""
        right, predicted, gold = np.split(totals, 3, axis=-1)  # (..., labels) each
        there = predicted + gold > 0
        return 100 * _ratio((_ratio(2 * right, predicted + gold)).sum(-1), there.sum(-1))


def bootstrap_interval(
    statistics: Array, value: Callable[[Array], Array], resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """The 95% percentile interval of a metric under resampling of examples.

    Args:
        statistics: What each example adds, (examples, statistics).
        value: The metric of summed statistics.
        resamples: How many times the examples are drawn with replacement.
        seed: Seed of the draws.
    """
    generator = np.random.default_rng(seed)
    n = len(statistics)
    # Counts of each example in a resample, so that a resample is one row of a matrix product.
    weights = generator.multinomial(n, np.full(n, 1 / n), size=resamples)  # (resamples, examples)
    low, high = np.percentile(value(weights @ statistics), [2.5, 97.5])
    return float(low), float(high)


def _ratio(over: Array, under: Array) -> Array:
    return np.divide(over, under, out=np.zeros(np.broadcast_shapes(over.shape, under.shape)), where=under > 0)
