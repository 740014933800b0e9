"""A metric of labels as a game."""

from dataclasses import dataclass

from torch import Tensor

from headwise.games.base import Answers, Array, Labels
from headwise.tasks.metrics import Metric


@dataclass(frozen=True)
class MetricGame:
    """A metric that is computed from sums over examples, such as entity F1.

    The value of a coalition is the metric of summed statistics, so it needs many examples under one mask.

    Attributes:
        metric: The metric.
    """

    metric: Metric
    bounds: tuple[float, float] | None = None
    differentiable: bool = False
    labels: Labels = "gold"

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric.name

    @property
    def statistics(self) -> int:
        """Number of statistics of a row."""
        return self.metric.size

    def measure(self, answers: Answers) -> Tensor:
        """The metric's statistics of each row, (rows, statistics)."""
        return self.metric.statistics(answers)

    def corpus(self, statistics: Array) -> float:
        """The metric of summed statistics, from 0 to 1."""
        return float(self.metric.value(statistics.sum(0))) / 100
