"""Games of generated texts: BLEU and chrF of translations."""

from dataclasses import dataclass
from typing import Any

from headwise.games.base import Array, Labels
from headwise.tasks.text_metrics import TextMetric


@dataclass(frozen=True)
class GenerationGame:
    """A corpus metric of generated texts.

    The value of a coalition is the metric of summed statistics, so it needs many examples under one mask.

    Attributes:
        metric: BLEU or chrF.
        tokenizer: The model's tokenizer.
        references: The reference text of each example.
        statistics: Number of statistics of a text.
    """

    metric: TextMetric
    tokenizer: Any
    references: tuple[str, ...]
    statistics: int
    bounds: None = None
    differentiable: bool = False
    labels: Labels = "gold"

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.metric.name

    def corpus(self, statistics: Array) -> float:
        """The metric of summed statistics, from 0 to 1."""
        return float(self.metric.value(statistics.sum(0))) / 100


def generation_game(metric: TextMetric, tokenizer: Any, references: tuple[str, ...]) -> GenerationGame:
    """The game of a metric, for examples with these references."""
    return GenerationGame(metric, tokenizer, references, len(metric.statistics("", "")))
