"""Metrics as sums: each example has a few statistics, and the metric of a set of examples uses their sum."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]

#: Number of labels whose logits are normalised at a time: few enough for the caches of a CPU, with a large vocabulary.
_AT_A_TIME = 8


@dataclass(frozen=True)
class Answers:
    """A model's answers to the labels of some rows.

    Attributes:
        logits: The model's output for each label that has a token, (answered labels, classes).
        rows: The row of each answered label, (answered labels,).
        places: Its index among the labels of its row, (answered labels,).
        counts: Number of labels of each row, including labels without a token, (rows,).
        gold: The labels of all rows, concatenated, (labels,).
        sizes: Bytes and characters of the text that the labels of each row spell, (rows, 2); None if labels are not
            tokens of a text.
    """

    logits: Tensor
    rows: Tensor
    places: Tensor
    counts: Tensor
    gold: Tensor
    sizes: Tensor | None = None

    @property
    def index(self) -> Tensor:
        """The index of each answered label among all labels, (answered labels,)."""
        return (self.counts.cumsum(0) - self.counts)[self.rows] + self.places

    @property
    def answered_gold(self) -> Tensor:
        """The gold label of each answered label, (answered labels,)."""
        return self.gold[self.index]

    @property
    def best(self) -> Tensor:
        """The label with the highest logit, (answered labels,)."""
        return torch.argmax(self.logits, dim=-1)

    @property
    def log_probabilities(self) -> Tensor:
        """Log-probability of each answered gold label, (answered labels,)."""
        logits = self.logits.float()
        gold: Tensor = logits.gather(1, self.answered_gold[:, None])[:, 0]
        if logits.requires_grad or not len(logits):
            return gold - logits.logsumexp(-1)
        return gold - torch.cat([part.logsumexp(-1) for part in logits.split(_AT_A_TIME)])

    def sum(self, values: Tensor) -> Tensor:
        """The sum over each row's labels of a value per answered label, (rows,)."""
        return values.new_zeros(len(self.counts)).index_add(0, self.rows, values)

    def mean(self, values: Tensor) -> Tensor:
        """The mean over each row's labels of a value per answered label, (rows, 1); 0 for labels without an answer."""
        return (self.sum(values) / self.counts.clamp(min=1))[:, None]


class CorpusMetric(Protocol):
    """A metric that computes its value from the summed statistics of examples."""

    @property
    def name(self) -> str:
        """Its name, such as `accuracy`."""

    def value(self, totals: Array) -> Array:
        """The metric of summed statistics, (..., statistics); in percent if it is a share."""


class Metric(CorpusMetric, Protocol):
    """A metric of labels, whose statistics an engine computes from the model's answers."""

    @property
    def size(self) -> int:
        """Number of statistics of an example."""

    def statistics(self, answers: Answers) -> Tensor:
        """The statistics of each row, (rows, size)."""


@dataclass(frozen=True)
class Accuracy:
    """Share of labels that are right; a label without an answer is wrong.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> rows, places, gold = torch.tensor([[0, 0], [0, 1], [0, 0]])
        >>> answers = Answers(logits, rows, places, counts=torch.tensor([2]), gold=gold)
        >>> Accuracy().statistics(answers)
        tensor([[1., 2.]])
    """

    name: str = "accuracy"
    size: int = 2

    def statistics(self, answers: Answers) -> Tensor:
        """Number of right labels and of all labels of each row, (rows, 2)."""
        right = answers.sum((answers.best == answers.answered_gold).float())
        return torch.stack([right, answers.counts.to(right.dtype)], dim=1)

    def value(self, totals: Array) -> Array:
        """Right labels ÷ labels, in percent."""
        return 100 * _ratio(totals[..., 0], totals[..., 1])


@dataclass(frozen=True)
class EntityF1:
    """F1 of whole entities or slots, micro-averaged, counted as seqeval does; labels are in IOB2 or IOBES.

    Attributes:
        labels: The labels in the order of the classifier's outputs.

    Example:
        >>> metric = EntityF1(("O", "B-PER", "I-PER"))
        >>> gold, predicted = torch.tensor([1, 2, 0, 1]), torch.tensor([1, 2, 1, 1])
        >>> metric.count(predicted, gold, torch.tensor([0, 0, 0, 0]), rows=1)
        tensor([[2., 3., 2.]])
    """

    labels: tuple[str, ...]
    name: str = "f1"
    size: int = 3

    def statistics(self, answers: Answers) -> Tensor:
        """Right, predicted and gold entities of each row, (rows, 3); a word without an answer is in no entity."""
        predicted = torch.full_like(answers.gold, len(self.labels))
        predicted[answers.index] = answers.best
        rows = torch.repeat_interleave(torch.arange(len(answers.counts), device=predicted.device), answers.counts)
        return self.count(predicted, answers.gold, rows, len(answers.counts))

    def count(self, predicted: Tensor, gold: Tensor, row: Tensor, rows: int) -> Tensor:
        """Right, predicted and gold entities of each row, (rows, 3), from the concatenated labels of all rows."""
        found, found_ends = self._entities(predicted, row)
        true, true_ends = self._entities(gold, row)
        types = self._types.to(gold.device)
        right = found & true & (types[predicted] == types[gold]) & (found_ends == true_ends)
        counted = torch.stack([right, found, true], dim=1).float()  # (labels, 3)
        return counted.new_zeros(rows, 3).index_add(0, row, counted)

    def value(self, totals: Array) -> Array:
        """2 · right ÷ (predicted + gold), in percent."""
        return 100 * _ratio(2 * totals[..., 0], totals[..., 1] + totals[..., 2])

    def _entities(self, labels: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        """Whether an entity starts at each label, and the end of the span that the label is in, (labels,) each."""
        types = self._types.to(labels.device)[labels]
        begins, ends = self._begins.to(labels.device)[labels], self._ends.to(labels.device)[labels]
        inside = types >= 0
        # A label continues the entity before it if it has the same type and row, and no B-, S- or E- is between them.
        continues = torch.zeros_like(inside)
        continues[1:] = inside[1:] & ~begins[1:] & ~ends[:-1] & (types[1:] == types[:-1]) & (row[1:] == row[:-1])
        stretch = torch.cumsum(~continues, 0) - 1
        return inside & ~continues, torch.bincount(stretch).cumsum(0)[stretch]

    @cached_property
    def _types(self) -> Tensor:
        """The type of each label as a number; -1 for `O` and for the additional last entry, no answer."""
        names = sorted({label.partition("-")[2] for label in self.labels})
        types = [-1 if label == "O" else names.index(label.partition("-")[2]) for label in self.labels]
        return torch.tensor([*types, -1])

    @cached_property
    def _begins(self) -> Tensor:
        return torch.tensor([label[:2] in ("B-", "S-") for label in (*self.labels, "O")])

    @cached_property
    def _ends(self) -> Tensor:
        return torch.tensor([label[:2] in ("E-", "S-") for label in (*self.labels, "O")])


def _ratio(over: Array, under: Array) -> Array:
    return np.divide(over, under, out=np.zeros(np.broadcast_shapes(over.shape, under.shape)), where=under > 0)
