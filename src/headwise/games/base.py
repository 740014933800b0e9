"""The interface of games: a game computes statistics of a row from the model's answers."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from torch import Tensor

from headwise.tasks.metrics import Answers, Array

__all__ = ["Answers", "Array", "Game", "Labels", "MeanGame"]

#: The labels that a game compares predictions with: those of the data, answers of the model, or none.
Labels = Literal["gold", "answers", "none"]


class Game(Protocol):
    """Defines the value of rows.

    Every row has a few statistics. The value of a game with one statistic is a mean over examples. The value of other
    games (entity F1) is computed from sums.
    """

    @property
    def name(self) -> str:
        """Its name, such as `accuracy`."""

    @property
    def statistics(self) -> int:
        """Number of statistics of a row."""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest value of a row; None if there are no bounds."""

    @property
    def differentiable(self) -> bool:
        """Whether the value has a gradient."""

    @property
    def labels(self) -> Labels:
        """The labels that predictions are compared with."""

    def measure(self, answers: Answers) -> Tensor:
        """The statistics of each row, (rows, statistics)."""

    def corpus(self, statistics: Array) -> float:
        """The value of a corpus from the statistics of its examples, (examples, statistics)."""


@dataclass(frozen=True)
class MeanGame:
    """Base of games with one statistic: the value of a corpus is the mean over its examples."""

    name: str
    bounds: tuple[float, float] | None
    differentiable: bool
    statistics: int = 1
    labels: Labels = "gold"

    def corpus(self, statistics: Array) -> float:
        """The mean over examples."""
        return float(np.mean(statistics))
