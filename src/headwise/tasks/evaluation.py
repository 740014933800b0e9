"""Running a model over examples: predictions, statistics and a measured result per language."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headwise.data.examples import Example
from headwise.tasks.encoding import Batch, Encoded, pack_by_length, pad_id_of
from headwise.tasks.metrics import Array, bootstrap_interval
from headwise.tasks.task import Task

#: Padded tokens in one forward pass: large enough to keep the cores busy, small enough for their caches.
TOKEN_BUDGET = 2048


@dataclass(frozen=True)
class Evaluation:
    """How well a model does.

    Attributes:
        metric: Name of the metric.
        value: Its value, in percent.
        low: Lower end of the 95% bootstrap interval.
        high: Upper end.
        examples: How many examples.
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


def evaluate(
    model: Any,
    task: Task,
    examples: Sequence[Example],
    tokenizer: Any,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Measure a model on examples.

    Args:
        model: A model with a head for the task.
        task: The task.
        examples: The examples.
        tokenizer: The model's tokenizer.
        progress: Called with the number of examples done after each batch.
    """
    encoded, cut = task.encode(examples, tokenizer)
    predicted = predict(model, task, encoded, pad_id_of(tokenizer), progress)
    gold = [[task.labels[label] for label in item.gold] for item in encoded]
    statistics = np.stack([task.metric.statistics(p, g) for p, g in zip(predicted, gold, strict=True)])
    low, high = bootstrap_interval(statistics, task.metric.value)
    value = float(task.metric.value(statistics.sum(0)))
    return Evaluation(task.metric.name, value, low, high, len(examples), cut, statistics)


def predict(
    model: Any, task: Task, encoded: Sequence[Encoded], pad_id: int, progress: Callable[[int], None] | None = None
) -> list[list[str]]:
    """The predicted labels of each example, in order; a word that no token carries gets `?`."""
    answers = [["?"] * len(item.gold) for item in encoded]
    for batch, logits in forward(model, task, encoded, pad_id):
        best = task.select(logits, batch).argmax(-1).tolist()
        index = batch.index.tolist()
        for row, place, label in zip(batch.rows.tolist(), batch.places.tolist(), best, strict=True):
            answers[index[row]][place] = task.labels[label]
        if progress is not None:
            progress(len(index))
    return answers


@torch.inference_mode()
def forward(model: Any, task: Task, encoded: Sequence[Encoded], pad_id: int) -> Iterator[tuple[Batch, torch.Tensor]]:
    """The model's logits, batch by batch, longest examples first."""
    device = next(model.parameters()).device
    model.eval()
    for index in pack_by_length([item.length for item in encoded], TOKEN_BUDGET):
        batch = task.make_batch(model, encoded, index, pad_id)
        yield batch, model(**batch.inputs(device)).logits.cpu()
