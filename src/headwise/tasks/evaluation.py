"""The result of an evaluation: a metric, its interval, and the statistics of each example."""

from dataclasses import dataclass

from headwise.stats import bootstrap_interval
from headwise.tasks.metrics import Array, CorpusMetric


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating a model.

    Attributes:
        metric: Name of the metric.
        value: Its value, in percent if it is a share.
        low: Lower end of the 95% bootstrap interval.
        high: Upper end.
        examples: Number of examples.
        cut: Number of examples that were cut because they were too long for the model.
        statistics: What each example adds to the metric, (examples, statistics).
    """

    metric: str
    value: float
    low: float
    high: float
    examples: int
    cut: int
    statistics: Array

    @classmethod
    def of(cls, metric: CorpusMetric, statistics: Array, cut: int = 0) -> "Evaluation":
        """The metric of examples with these statistics, (examples, statistics)."""
        low, high = bootstrap_interval(statistics, metric.value)
        value = float(metric.value(statistics.sum(0)))
        return cls(metric.name, value, low, high, len(statistics), cut, statistics)
