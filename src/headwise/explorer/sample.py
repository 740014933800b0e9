"""A sample of one language: its metric under masks, compared with the whole model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from headwise.engine import EngineCost, LocalEngine, players_of
from headwise.engine.evaluation import MaskJudge
from headwise.engine.resuming import ResumingEngine, StoppedError
from headwise.games.metric import MetricGame
from headwise.heads import find_heads
from headwise.masks import HeadMask
from headwise.report.names import name_of
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Array, Metric
from headwise.tasks.task import Task

#: Number of bootstrap resamples.
RESAMPLES = 2000


@dataclass(frozen=True)
class LanguageMetric:
    """The metric of one language with a mask and without it.

    Attributes:
        code: The language.
        name: Its name.
        metric: Name of the metric.
        examples: Number of examples.
        base: The metric of the whole model.
        value: The metric under the mask.
        difference: `value - base`.
        low: Lower end of the 95% interval of the difference (paired bootstrap over examples).
        high: Its upper end.
        p_value: The p-value of the difference, two-sided.
    """

    code: str
    name: str
    metric: str
    examples: int
    base: float
    value: float
    difference: float
    low: float
    high: float
    p_value: float


@dataclass(eq=False)
class LanguageSample:
    """Measures masks on the examples of one language.

    For tasks with one label per text or word, a mask computes only the layers from its first change upwards. Other
    tasks are measured anew for each mask.

    Attributes:
        language: The language.
        judge: Measures masks on its examples.
        memory: Maximum number of bytes of the outputs of layers that are kept.
    """

    language: str
    judge: MaskJudge
    memory: int
    _base: Array | None = field(default=None, init=False)
    _resuming: ResumingEngine | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        judge = self.judge
        if isinstance(judge.task, Task):
            game, players = MetricGame(judge.task.metric), players_of(judge.heads)
            engine = LocalEngine(judge.model, judge.heads, game, judge.encoded, players, judge.settings, judge.baseline)
            self._resuming = ResumingEngine(engine, self.memory)

    def compare(self, mask: HeadMask, stopped: Callable[[], bool]) -> tuple[LanguageMetric, EngineCost]:
        """The metric with the mask and without it, and the cost of the mask alone.

        Raises:
            StoppedError: The computation was stopped.
        """
        if self._base is None:
            self._base, _ = self._statistics(HeadMask.full(self.judge.heads), stopped)
        other, cost = self._statistics(mask, stopped)
        return self.metric_of(other), cost

    def metric_of(self, statistics: Array) -> LanguageMetric:
        """The metric of statistics of the same examples, compared with the whole model, which is measured already."""
        assert self._base is not None
        judge = Judge(cast(Metric, self.judge.metric), RESAMPLES)
        test = judge.compare(self._base, statistics)
        return LanguageMetric(
            self.language, name_of(self.language), self.judge.metric.name, len(statistics), judge.value(self._base),
            judge.value(statistics), test.difference, test.low, test.high, test.p_value,
        )  # fmt: skip

    def compare_model(self, model: Any) -> LanguageMetric:
        """The metric of another model, such as a pruned one, compared with the whole model."""
        heads = find_heads(model)
        judge = self.judge.changed(model=model, heads=heads, baseline=None)
        [statistics] = judge.measure([HeadMask.full(heads)]).statistics
        return self.metric_of(statistics)

    def _statistics(self, mask: HeadMask, stopped: Callable[[], bool]) -> tuple[Array, EngineCost]:
        if self._resuming is not None:
            found = self._resuming.values(mask.tensor().numpy(), stopped)
            return found.values.double().numpy().reshape(len(self.judge.examples), -1), found.cost
        if stopped():
            raise StoppedError("the computation was stopped")
        measured = self.judge.measure([mask])
        return measured.statistics[0], measured.cost
