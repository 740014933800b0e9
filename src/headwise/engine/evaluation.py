"""Evaluate models on examples by the metric of their task, also under many masks at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from headwise.architectures import FAMILIES
from headwise.data.answer_language import ANSWER_LANGUAGE, asked_language, prompts_of
from headwise.data.examples import Example
from headwise.engine.base import EngineFactory, EngineSettings
from headwise.engine.cost import EngineCost
from headwise.engine.examples import ExampleSet, encode_examples
from headwise.engine.local import LocalEngine
from headwise.engine.players import PlayerSet, players_of_kinds
from headwise.errors import HeadwiseError
from headwise.games.metric import MetricGame
from headwise.gates import gated
from headwise.heads import HeadMap, base_model, family_of
from headwise.means import MeanOutputs
from headwise.soft_masks import AnyMask, SoftMask
from headwise.tasks.causal import LanguageTask, Perplexity, measure_texts, texts_of
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.continuation import ContinuationTask, evaluate_continuations
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.masked import MaskedTask
from headwise.tasks.metrics import Array, CorpusMetric, Metric
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Task
from headwise.tasks.text_metrics import metrics_for
from headwise.tasks.translation import TranslationTask, evaluate_translation
from headwise.tasks.wrong_language import WrongLanguage, evaluate_answers


@dataclass(frozen=True)
class Measurement:
    """The results of a model in one language.

    Attributes:
        results: One result per metric, the main one first.
        signatures: Signatures by metric name, for metrics that have variants.
    """

    results: tuple[Evaluation, ...]
    signatures: dict[str, str] = field(default_factory=dict)


def evaluate(
    model: Any, task: Task | MaskedTask | MultipleChoice, examples: Sequence[Example], tokenizer: Any
) -> Evaluation:
    """Measure a model on examples by the metric of its task.

    The choices of an example share the tokens that they begin with if the model takes trees of tokens.

    Args:
        model: A model with a head for the task, of any family; it may be inside `gated(...)`.
        task: The task.
        examples: The examples.
        tokenizer: The model's tokenizer.
    """
    return evaluate_encoded(model, task, encode_examples(task, examples, tokenizer))


def evaluate_encoded(
    model: Any,
    task: Task | MaskedTask | MultipleChoice,
    examples: ExampleSet,
    settings: EngineSettings | None = None,
) -> Evaluation:
    """Measure a model on examples that are encoded already.

    Args:
        model: A model with a head for the task.
        task: The task.
        examples: The examples in tokens.
        settings: Settings of the engine.
    """
    engine = LocalEngine(model, _no_heads(model), MetricGame(task.metric), examples, PlayerSet((), {}), settings)
    found = engine.values(np.ones((len(examples), 0), dtype=bool), np.arange(len(examples)))
    return Evaluation.of(task.metric, found.values.double().numpy(), examples.cut)


def measure(
    model: Any,
    task: AnyTask,
    examples: Sequence[Example],
    tokenizer: Any,
    language: str = "",
    progress: Callable[[int], None] | None = None,
    wrong_language: bool = False,
) -> Measurement:
    """Measure a model by the metrics of its task.

    Args:
        model: The model.
        task: A task of `headwise.tasks.dispatch.task_of`.
        examples: The examples.
        tokenizer: The model's tokenizer.
        language: Their language, or pair of languages (`en-zh`), which determines the tokenisation of BLEU.
        progress: Called with the number of examples processed since the last call.
        wrong_language: Also measure the share of generated texts in another language than `language`, for
            `translation`, and for the answers of a causal model to prompts (`continuation`, `lm`, `answer-language`).
    """
    match task:
        case TranslationTask():
            asked = _for_language(task, language, wrong_language)
            found = evaluate_translation(model, asked, examples, tokenizer, progress=progress)
            return Measurement(tuple(found.results.values()), found.signatures)
        case LanguageTask():
            measured = measure_texts(model, texts_of(examples), tokenizer, task.window)
        case ContinuationTask():
            measured = evaluate_continuations(model, task, examples, tokenizer)
        case Task() | MaskedTask() | MultipleChoice():
            measured = (evaluate(model, task, examples, tokenizer),)
        case _:
            raise HeadwiseError(f"the task {task.name!r} cannot be measured")
    signatures = {}
    if wrong_language:
        wanted, prompts = language, examples
        if task.name == ANSWER_LANGUAGE:
            wanted, prompts = asked_language(language), prompts_of(examples)
        measured = (*measured, evaluate_answers(model, prompts, tokenizer, wanted))
        signatures = {measured[-1].metric: WrongLanguage(wanted).signature}
    if progress is not None:
        progress(len(examples))
    return Measurement(measured, signatures)


@dataclass(frozen=True)
class JudgedMasks:
    """The statistics of examples under masks.

    Attributes:
        statistics: For each mask, the statistics of its examples, (examples, statistics) each.
        cost: Their cost.
    """

    statistics: tuple[Array, ...]
    cost: EngineCost


@dataclass(frozen=True)
class MaskJudge:
    """Measures a model under masks on one set of examples, which are encoded once.

    Labels are predicted by the engine: rows of all masks run together and share the layers below their first
    difference. Texts (translations, perplexity) are measured for one mask after the other, unless there is a metric of
    their tokens.

    Attributes:
        model: The model.
        heads: Its head map.
        task: The task.
        examples: The examples.
        tokenizer: The model's tokenizer.
        language: Language of the examples, or pair of languages.
        settings: Settings of the engine.
        baseline: The mean outputs that replace what is off (mean ablation); by default it becomes 0.
        make_engine: Creates the engine that predicts labels.
        token_metric: For texts, a metric of the probabilities of their tokens, such as bits per byte: the engine
            measures it for all masks together.
    """

    model: Any
    heads: HeadMap
    task: AnyTask
    examples: Sequence[Example]
    tokenizer: Any
    language: str = ""
    settings: EngineSettings = field(default_factory=EngineSettings)
    baseline: MeanOutputs | None = None
    make_engine: EngineFactory = LocalEngine
    token_metric: Metric | None = None

    @property
    def metric(self) -> CorpusMetric:
        """The metric of the statistics: the main metric of the task."""
        return self.metrics[0]

    @property
    def metrics(self) -> tuple[CorpusMetric, ...]:
        """The metrics that `results` measures, the main one first: BLEU and chrF for translation, else one."""
        if self.token_metric is not None:
            return (self.token_metric,)
        match self.task:
            case TranslationTask():
                return _for_language(self.task, self.language).metrics
            case LanguageTask() | ContinuationTask():
                return (Perplexity(),)
            case Task() | MaskedTask() | MultipleChoice():
                return (self.task.metric,)
        raise HeadwiseError(f"the task {self.task.name!r} cannot be measured")

    @cached_property
    def encoded(self) -> ExampleSet:
        """The examples in tokens."""
        return encode_examples(self.task, self.examples, self.tokenizer)

    def changed(self, **changes: Any) -> "MaskJudge":
        """The same judge with another model, head map or baseline; the encoded examples are shared.

        Args:
            changes: Fields and their new values. The task, the tokenizer and the examples must stay.
        """
        found = replace(self, **changes)
        vars(found)["encoded"] = self.encoded  # the value of the cached property
        return found

    def measure(self, masks: Sequence[AnyMask], only: Sequence[Sequence[int]] | None = None) -> JudgedMasks:
        """The statistics of examples under masks.

        Args:
            masks: The masks, of any kinds, hard or soft.
            only: For each mask, the numbers of the examples to measure; None for all examples under every mask.

        Raises:
            MaskMismatchError: A mask belongs to another model.
        """
        chosen = [np.arange(len(self.examples))] * len(masks) if only is None else [np.asarray(each) for each in only]
        for mask in masks:
            mask.check(self.heads)
        if self.token_metric is not None:
            return self._answered(self.token_metric, masks, chosen)
        if isinstance(self.task, Task | MaskedTask | MultipleChoice):
            return self._answered(self.task.metric, masks, chosen)
        found = (self._generated(mask, index) for mask, index in zip(masks, chosen, strict=True))
        rows = sum(map(len, chosen))
        return JudgedMasks(tuple(found), EngineCost(rows=rows, units=float(rows), examples=rows))

    def evaluate(self, mask: AnyMask) -> Evaluation:
        """The metric under one mask, for a task with labels."""
        [statistics] = self.measure([mask]).statistics
        return Evaluation.of(self.metric, statistics, self.encoded.cut)

    def results(self, mask: AnyMask) -> tuple[Array, ...]:
        """The statistics of all `metrics` under one mask; translations are generated once."""
        if isinstance(self.task, TranslationTask) and self.token_metric is None:
            mask.check(self.heads)
            return tuple(each.statistics for each in self._texts(mask, self.examples))
        return self.measure([mask]).statistics

    def _answered(self, metric: Metric, masks: Sequence[AnyMask], chosen: Sequence[Any]) -> JudgedMasks:
        """Statistics of labels under masks, all rows in one call to the engine."""
        players = players_of_kinds(self.heads, {mask.kind for mask in masks})
        real = any(isinstance(mask, SoftMask) for mask in masks)
        gates = np.ones((len(masks), len(players)), dtype=np.float32 if real else bool)
        for row, mask in enumerate(masks):
            gates[row, list(players.owners[mask.kind])] = mask.tensor().numpy()
        sizes = [len(index) for index in chosen]
        game = MetricGame(metric)
        engine = self.make_engine(self.model, self.heads, game, self.encoded, players, self.settings, self.baseline)
        index = np.concatenate([np.zeros(0, dtype=np.int64), *chosen])
        found = engine.values(np.repeat(gates, sizes, axis=0), index)
        statistics = np.split(found.values.double().numpy(), np.cumsum(sizes)[:-1])
        return JudgedMasks(tuple(statistics[: len(masks)]), found.cost)

    def _generated(self, mask: AnyMask, index: Any) -> Array:
        """Statistics of texts under one mask."""
        return self._texts(mask, [self.examples[place] for place in index])[0].statistics

    def _texts(self, mask: AnyMask, examples: Sequence[Example]) -> tuple[Evaluation, ...]:
        with gated(self.model, mask, heads=self.heads, baseline=self.baseline):
            return measure(self.model, self.task, examples, self.tokenizer, self.language).results


def _for_language(task: TranslationTask, language: str, wrong_language: bool = False) -> TranslationTask:
    target = language.partition("_")[0].rpartition("-")[2]
    return replace(task, metrics=(*metrics_for(target), *([WrongLanguage(target)] if wrong_language else [])))


def _no_heads(model: Any) -> HeadMap:
    """A map without heads, for an engine that runs a model without gates.

    The engine uses the family to find out whether the model takes trees of tokens, which the first family does not.
    """
    try:
        family = family_of(base_model(model))
    except HeadwiseError:  # models of other families are measured too
        family = FAMILIES[0]
    return HeadMap(type(model).__name__, family, (), (), (), None)
