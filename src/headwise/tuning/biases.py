"""Tuning of biases: all other weights of the encoder are frozen (BitFit, Ben Zaken et al., 2022)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwise.errors import FieldError

#: A part of the encoder that belongs to a new classifier: its weights are trained.
POOLER = "pooler."


@contextmanager
def only_biases(model: Any, train_head: bool) -> Iterator[None]:
    """Freeze all weights of the encoder of a model that are not biases, until the end of the `with` statement.

    Args:
        model: The model.
        train_head: Also train the weights outside of the encoder, such as a classifier.

    Raises:
        HeadwiseError: The encoder has no biases that are not frozen already.
    """
    flags = [(weight, weight.requires_grad) for weight in model.parameters()]
    inside = encoder_weights(model)
    biases = {id(weight) for name, weight in model.named_parameters() if name.endswith("bias")} & inside
    if not any(flag and id(weight) in biases for weight, flag in flags):
        raise FieldError("biases_only", "the model has no biases to train: set it to False")
    for weight, flag in flags:
        weight.requires_grad_(flag and (id(weight) in biases or (train_head and id(weight) not in inside)))
    try:
        yield
    finally:
        for weight, flag in flags:
            weight.requires_grad_(flag)


def encoder_weights(model: Any) -> set[int]:
    """The `id` of every weight of the encoder, without a pooler."""
    return {id(weight) for name, weight in model.base_model.named_parameters() if not name.startswith(POOLER)}
