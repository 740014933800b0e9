"""Compute the output layer of a language model only where a label is: its vocabulary is large, and prompts are long."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from headwise.tasks.encoding import Batch
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Task


def output_layer(model: Any, task: AnyTask) -> nn.Module | None:
    """The layer that maps hidden states to the vocabulary; None for a classifier.

    Args:
        model: The model.
        task: Its task; the labels of a classification task are not tokens.
    """
    if isinstance(task, Task):
        return None
    try:
        found: nn.Module | None = model.get_output_embeddings()
    except (AttributeError, NotImplementedError):
        return None
    return found


@contextmanager
def only_labels(layer: nn.Module, batch: Batch) -> Iterator[None]:
    """While this is active, the output layer reads only the hidden states of labels.

    The logits of the model are then (labels, vocabulary) instead of (rows, tokens, vocabulary), in the order of the
    labels of the batch. What a model does to its logits afterwards (a scale, a soft cap, a bias) is the same for all
    positions.

    Args:
        layer: The output layer.
        batch: The batch that the model runs on.
    """

    def select(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        hidden: Tensor = inputs[0]
        return (hidden[batch.rows.to(hidden.device), batch.positions.to(hidden.device)], *inputs[1:])

    handle = layer.register_forward_pre_hook(select)
    try:
        yield
    finally:
        handle.remove()
