"""The interface of all tasks: encode examples, make batches, select the outputs that predict the labels."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from headwise.data.examples import Example
from headwise.tasks.encoding import Batch, Encoded


class AnyTask(Protocol):
    """Classification of sequences or words, translation, or language modelling.

    Example:
        >>> from headwise.tasks import find_task
        >>> from headwise.tasks.causal import LanguageTask
        >>> from headwise.tasks.translation import TranslationTask
        >>> tasks: list[AnyTask] = [find_task("pos"), TranslationTask(), LanguageTask()]
        >>> " ".join(task.name for task in tasks)
        'pos translation lm'
    """

    @property
    def name(self) -> str:
        """Name of the task."""

    def encode(self, examples: Sequence[Example], tokenizer: Any) -> tuple[tuple[Encoded, ...], int]:
        """The encoded examples, and the number of examples that were cut."""

    def make_batch(self, model: Any, encoded: Sequence[Any], index: Sequence[int], pad_id: int) -> Batch:
        """A batch of some of the encoded examples."""

    def select(self, logits: Tensor, batch: Batch) -> Tensor:
        """The logits of the batch's labels, (labels, classes), on the device of the logits."""


def gold_log_probabilities(task: AnyTask, logits: Tensor, batch: Batch) -> Tensor:
    """Log-probability of each gold label of a batch, (labels,), in single precision; differentiable.

    Args:
        task: The task.
        logits: The model's output for the batch, on any device.
        batch: The batch.

    Example:
        >>> import torch
        >>> from headwise.tasks import find_task
        >>> from headwise.tasks.encoding import Encoded, make_batch
        >>> batch = make_batch([Encoded((5, 6), (), (1,))], [0], pad_id=0)
        >>> gold_log_probabilities(find_task("nli"), torch.tensor([[0.0, 100.0, 0.0]]), batch)
        tensor([0.])
    """
    return gold_logs(task.select(logits, batch), batch)


def gold_logs(chosen: Tensor, batch: Batch) -> Tensor:
    """Log-probability of each gold label, (labels,), from the logits of the labels, (labels, classes)."""
    chosen = chosen.float()
    return chosen.gather(1, batch.gold.to(chosen.device)[:, None])[:, 0] - chosen.logsumexp(-1)
