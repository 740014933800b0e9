"""Compute the output layer of a language model only where a label is: its vocabulary is large, and prompts are long."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
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
def only_labels(layer: nn.Module, batch: Batch) -> Iterator[int]:
    """While this is active, the output layer reads only the hidden states of labels.

    The logits of the model are then (labels, vocabulary) instead of (rows, tokens, vocabulary), in the order of the
    labels of the batch. What a model does to its logits afterwards (a scale, a soft cap, a bias) is the same for all
    positions. Labels at the same position of a row share one computation if this halves the work.

    Args:
        layer: The output layer.
        batch: The batch that the model runs on.

    Yields:
        The number of positions that the output layer reads.
    """
    rows, positions, inverse = label_positions(batch)

    def select(_module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        hidden: Tensor = inputs[0]
        return (hidden[rows.to(hidden.device), positions.to(hidden.device)], *inputs[1:])

    def repeat(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        return output[inverse.to(output.device)] if len(inverse) > len(output) else output

    handles = [layer.register_forward_pre_hook(select), layer.register_forward_hook(repeat)]
    try:
        yield len(rows)
    finally:
        for handle in handles:
            handle.remove()


def label_positions(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """The rows and positions that labels are read from, and the index of each label among them.

    A pair is read once if that halves their number. Choices of one token, for instance, are all predicted at the last
    token of the prompt.
    """
    pairs, inverse = torch.unique(torch.stack([batch.rows, batch.positions], dim=1), dim=0, return_inverse=True)
    if 2 * len(pairs) > len(inverse):  # copies of logits would cost as much as they save
        return batch.rows, batch.positions, torch.arange(len(inverse))
    return pairs[:, 0], pairs[:, 1], inverse
