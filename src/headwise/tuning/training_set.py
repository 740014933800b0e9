"""Encoded examples to train on and to choose the best epoch by, which many tuning runs can share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headwise.data.examples import Example
from headwise.engine import EngineSettings, ExampleSet, encode_examples
from headwise.engine.evaluation import evaluate_encoded
from headwise.errors import HeadwiseError
from headwise.files import hash_json
from headwise.tasks.encoding import Encoded
from headwise.tasks.likelihood import sum_gold
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Task


@dataclass(frozen=True)
class TrainingSet:
    """Examples in tokens.

    Attributes:
        train: The examples to train on. Those without a label that a token carries are not used.
        dev: The examples that the best epoch is chosen by.

    Raises:
        HeadwiseError: No training example has a label that a token carries.
    """

    train: tuple[Encoded, ...]
    dev: ExampleSet

    def __post_init__(self) -> None:
        # A batch of nothing but examples without labels has no loss.
        found = tuple(each for each in self.train if not each.positions or max(each.positions) >= 0)
        if not found:
            raise HeadwiseError("no training example has a label that a token carries: there is nothing to learn from")
        object.__setattr__(self, "train", found)

    @property
    def task(self) -> AnyTask:
        """The task of the examples."""
        return self.dev.task

    @property
    def pad_id(self) -> int:
        """The padding token."""
        return self.dev.pad_id

    @property
    def metric(self) -> str:
        """Name of the dev value."""
        return self.task.metric.name if isinstance(self.task, Task) else "log-likelihood per token"

    def dev_value(self, model: Any, bfloat16: bool = False) -> float:
        """The metric of the task on the dev examples, or the mean log-likelihood per token; higher is better.

        Args:
            model: The model.
            bfloat16: Compute the metric of a task with labels in bfloat16.
        """
        if isinstance(self.task, Task):
            return evaluate_encoded(model, self.task, self.dev, EngineSettings(bfloat16=bfloat16)).value
        log, _, tokens, _ = sum_gold(model, self.task, self.dev.encoded, self.pad_id).sum(0)
        return float(log / tokens)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """Hashes of the examples, by what they are used for."""
        splits = {"training examples": self.train, "dev examples": self.dev.encoded}
        return {name: hash_json([each.content() for each in split]) for name, split in splits.items()}


def encode_training_set(task: AnyTask, train: Sequence[Example], dev: Sequence[Example], tokenizer: Any) -> TrainingSet:
    """Encode examples for training.

    Args:
        task: The task.
        train: Examples to train on.
        dev: Examples that the best epoch is chosen by.
        tokenizer: The tokenizer of the model.

    Raises:
        HeadwiseError: An example has a label that the task does not have, or no example has a label.
    """
    return TrainingSet(task.encode(train, tokenizer)[0], encode_examples(task, dev, tokenizer))
