"""What a coalition is worth: a game turns the model's answers for a row into numbers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """A model's answers to the labels of some rows.

    Attributes:
        logits: What the model says for each label that a token carries, (answered labels, classes).
        rows: The row of each, (answered labels,).
        places: Its place among the labels of its row, (answered labels,).
        counts: Labels of each row, (rows,); labels that no token carries count too.
        gold: The labels of all rows, one row after the other, (labels,).
    """

    logits: Tensor
    rows: Tensor
    places: Tensor
    counts: Tensor
    gold: Tensor

    @property
    def index(self) -> Tensor:
        """Where each answered label is among all labels, (answered labels,)."""
        return (self.counts.cumsum(0) - self.counts)[self.rows] + self.places

    @property
    def answered_gold(self) -> Tensor:
        """The gold label of each answered one, (answered labels,)."""
        return self.gold[self.index]

    def mean(self, values: Tensor) -> Tensor:
        """The mean over each row's labels of a value per answered label, (rows, 1): nothing for the others."""
        sums = values.new_zeros(len(self.counts)).index_add(0, self.rows, values)
        return (sums / self.counts.clamp(min=1))[:, None]


class Game(Protocol):
    """A way to value rows.

    Every row gives a few statistics; a game of one statistic is a mean over examples, others (entity F1) are computed
    from sums.
    """

    @property
    def name(self) -> str:
        """What it is called, such as `accuracy`."""

    @property
    def statistics(self) -> int:
        """How many numbers a row gives."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and greatest value of a row, None where there is no bound."""

    @property
    def differentiable(self) -> bool:
        """Whether the value has a gradient."""

    def measure(self, answers: Answers) -> Tensor:
        """The statistics of each row, (rows, statistics)."""

    def corpus(self, statistics: Array) -> float:
        """The value of a corpus out of its examples' statistics, (examples, statistics)."""


@dataclass(frozen=True)
class MeanGame:
    """What games of one statistic share: a corpus is worth the mean of its examples."""

    name: str
    bounds: tuple[float, float] | None
    differentiable: bool
    statistics: int = 1

    def corpus(self, statistics: Array) -> float:
        """The mean over examples."""
        return float(np.mean(statistics))


def log_probabilities(answers: Answers) -> Tensor:
    """Log-probability of each answered gold label, (answered labels,)."""
    logits = answers.logits.float()
    gold: Tensor = logits.gather(1, answers.answered_gold[:, None])[:, 0]
    return gold - logits.logsumexp(-1)


def best_labels(answers: Answers) -> Tensor:
    """The label that the model finds best, (answered labels,)."""
    return torch.argmax(answers.logits, dim=-1)
