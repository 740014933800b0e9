"""Two games at once: what both say of the same answers costs one pass."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.games.base import Answers, Array, Game


@dataclass(frozen=True)
class PairGame:
    """The statistics of one game followed by those of another; as a corpus it is worth what the first says."""

    first: Game
    second: Game

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.first.name} and {self.second.name}"

    @property
    def statistics(self) -> int:
        """Those of both."""
        return self.first.statistics + self.second.statistics

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Those of the first."""
        return self.first.bounds

    @property
    def differentiable(self) -> bool:
        """Neither is asked for gradients here."""
        return False

    def measure(self, answers: Answers) -> Tensor:
        """The statistics of both, (rows, statistics)."""
        return torch.cat([self.first.measure(answers), self.second.measure(answers)], dim=1)

    def corpus(self, statistics: Array) -> float:
        """The first game's value of a corpus."""
        return self.first.corpus(statistics[:, : self.first.statistics])
