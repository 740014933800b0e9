"""A model with a head for a task: loaded by name, or made from a model in hand."""

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification

from headwise.data.examples import Example
from headwise.data.task_names import TEXT_TASKS
from headwise.errors import FieldError, HeadwiseError
from headwise.heads import PRUNED_ATTRIBUTE, base_model, find_heads
from headwise.masks import HeadMask
from headwise.models import add_head, choose_dtype, is_default, load_model
from headwise.models.adapted import find_adapter
from headwise.models.defaults import E5_SMALL, SMOLLM, default_folder_of
from headwise.models.sources import NameOrPath, find_file, first_line
from headwise.pooling import MeanPooledBertForSequenceClassification
from headwise.pruning.biases import add_biases
from headwise.pruning.checkpoint import MANIFEST
from headwise.pruning.cutting import removed_heads, shrink
from headwise.tasks import Task, find_task, labels_of
from headwise.tasks.dispatch import fit_to, task_of
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Piece

#: How the names of transformers' classes for each kind of classification end, and the class that makes a new one.
_CLASSES: dict[str, tuple[str, Any]] = {
    "sequence": ("ForSequenceClassification", AutoModelForSequenceClassification),
    "words": ("ForTokenClassification", AutoModelForTokenClassification),
}


def prepare(
    model: Any,
    task: str | AnyTask,
    train: Sequence[Example],
    piece: Piece = "text",
    window: int | None = None,
    trust_remote_code: bool = False,
    dtype: str = "float32",
) -> tuple[Any, AnyTask]:
    """A model that can be trained on a task, and the task as this model does it.

    Args:
        model: A model, or the name of one.
        task: Name of the task, or a task.
        train: The training examples, whose labels a new classifier gets if the task has no fixed labels.
        piece: Which piece of a word carries its label, for a task given by name.
        window: Number of tokens read at a time, for the task `lm` given by name.
        trust_remote_code: Run code that comes with the model.
        dtype: The type of the weights of a model that is loaded, one of `headwise.models.DTYPES`.

    Raises:
        HeadwiseError: The model cannot be loaded, or cannot do the task.
    """
    if isinstance(task, str) and task not in TEXT_TASKS:
        task = find_task(task, labels_of(train), piece)
    if isinstance(model, str | os.PathLike):
        model = _load(model, task, trust_remote_code, dtype)
    if isinstance(task, str):
        return model, task_of(model, task, piece, window=window)
    return with_head(model, task) if isinstance(task, Task) else (model, task)


def _load(name: NameOrPath, task: str | AnyTask, trust_remote_code: bool, dtype: str) -> Any:
    """Load a model, with a new classifier if the task is a classification."""
    weights = choose_dtype(dtype)
    if not isinstance(task, Task):
        return load_model(name, trust_remote_code, dtype=dtype)
    if is_default(name):
        return add_head(default_folder_of(str(name)), task.kind, task.labels, dtype=weights)
    if find_file(name, MANIFEST) is not None:  # a pruned model, which may have a classifier for the task
        return load_model(name, trust_remote_code, dtype=dtype)
    if (adapter := find_adapter(name)) is not None:
        raise HeadwiseError(f"{name}: an adapter is tuned already: tune its base {adapter.base} instead")
    return add_head(name, task.kind, task.labels, trust_remote_code=trust_remote_code, dtype=weights)


def with_head(model: Any, task: Task, mean_pooling: bool = False) -> tuple[Any, Task]:
    """A model with a classifier for a task, and the task with the labels of that classifier.

    Args:
        model: A model. If it has a classifier with the labels of the task, it is returned as it is. Otherwise a new
            model gets a copy of its encoder and a new classifier.
        task: The task.
        mean_pooling: Whether a new classifier of whole inputs reads the mean of the last hidden states (see
            `new_classifier`).

    Raises:
        HeadwiseError: The model is a PEFT model without such a classifier, or transformers has no class for it.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headwise.tasks import find_task
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model, task = with_head(BertModel(config), find_task("pos"))
        >>> type(model).__name__, model.config.num_labels
        ('BertForTokenClassification', 17)
    """
    names = getattr(model.config, "id2label", None) or {}
    labels = tuple(names[index] for index in sorted(names))
    if type(base_model(model)).__name__.endswith(_CLASSES[task.kind][0]) and set(task.labels) <= set(labels):
        return model, fit_to(replace(task, labels=labels), model)
    if base_model(model) is not model:
        raise HeadwiseError(
            f"the PEFT model has no classifier with the labels of {task.name}: add the classifier to the model before "
            "the adapter"
        )
    return _add_new_head(model, task, mean_pooling), fit_to(task, model)


def _add_new_head(model: Any, task: Task, mean_pooling: bool) -> Any:
    """A new model with a copy of the encoder; heads that were cut out of the encoder stay out."""
    new = new_classifier(model.config, task, mean_pooling)
    if removed := removed_heads(model.config):
        shrink(new, HeadMask.without(find_heads(new), removed), inplace=True)
    encoder: nn.Module = new.base_model
    add_biases(encoder, model.base_model.state_dict())
    missing, _ = encoder.load_state_dict(model.base_model.state_dict(), strict=False)
    if missing := [name for name in missing if not name.startswith("pooler.")]:  # a pooler is a part of the new head
        raise HeadwiseError(
            f"a {type(model).__name__} has no weights for {missing[0]} of a {type(new).__name__}: "
            f"give a model with a head for {task.name}"
        )
    return new.to(device=model.device, dtype=model.dtype).train(model.training)


def new_classifier(config: Any, task: Task, mean_pooling: bool = False) -> Any:
    """A whole model with a classifier and random weights, or the weights of a default if it is made from one.

    Args:
        config: The config of the encoder.
        task: The task.
        mean_pooling: Whether a classifier of whole inputs reads the mean of the last hidden states, as sentence
            encoders do, and not the first token. Only for BERT encoders; it cannot be saved as an ordinary checkpoint.

    Raises:
        HeadwiseError: There is no such classifier for the model.
    """
    if mean_pooling and (task.kind != "sequence" or config.model_type != "bert"):
        raise FieldError(
            "mean_pooling", f"must be False for the task {task.name} on a {config.model_type} model: it is for "
            "classifiers of whole inputs on BERT encoders"
        )  # fmt: skip
    if is_default(config.name_or_path):
        base = SMOLLM if config.name_or_path == SMOLLM else E5_SMALL
        return add_head(default_folder_of(base), task.kind, task.labels, mean_pooling)
    whole = copy.deepcopy(config)
    setattr(whole, PRUNED_ATTRIBUTE, None)
    whole.id2label = dict(enumerate(task.labels))
    whole.label2id = {label: index for index, label in enumerate(task.labels)}
    whole.num_labels = len(task.labels)
    if mean_pooling:
        return MeanPooledBertForSequenceClassification._from_config(whole)
    try:
        return _CLASSES[task.kind][1].from_config(whole)
    except ValueError as error:  # the auto class has no such model
        raise HeadwiseError(
            f"no classifier for {task.name} can be put on a {config.model_type} model: {first_line(error)}"
        ) from None
