"""The result of measuring a model: a metric, its interval, and what each example adds to it."""

from dataclasses import dataclass

from headwise.stats import bootstrap_interval
from headwise.tasks.metrics import Array, CorpusMetric


@dataclass(frozen=True)
class Evaluation:
    """How well a model does.

    Attributes:
        metric: Name of the metric.
        value: Its value, in percent if it is a share.
        low: Lower end of the 95% bootstrap interval.
        high: Upper end.
        examples: Number of examples.
        cut: How many of them were longer than the model takes, and were cut.
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
