"""Two games at once, computed from the same forward pass."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.games.base import Answers, Array, Game, Labels


@dataclass(frozen=True)
class PairGame:
    """The statistics of one game followed by those of another; the value of a corpus is that of the first game."""

    first: Game
    second: Game

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name} and {self.second.name}"

    @property
    def statistics(self) -> int:
        """Number of statistics of both games."""
        return self.first.statistics + self.second.statistics

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The bounds of the first game."""
        return self.first.bounds

    @property
    def differentiable(self) -> bool:
        """False: gradients of pairs are not supported."""
        return False

    @property
    def labels(self) -> Labels:
        """The labels of the first game."""
        return self.first.labels

    def measure(self, answers: Answers) -> Tensor:
        """The statistics of both, (rows, statistics)."""
        return torch.cat([self.first.measure(answers), self.second.measure(answers)], dim=1)

    def corpus(self, statistics: Array) -> float:
        """The first game's value of a corpus."""
        return self.first.corpus(statistics[:, : self.first.statistics])
