"""Models that are to be tuned: loaded once, with a new classifier if they have none for the task."""

import dataclasses
import functools
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.data.selection import language_codes
from headwise.errors import HeadwiseError
from headwise.models import load_model, load_tokenizer
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.setting import Setting, make_setting
from headwise.tasks import Task, find_task, labels_of
from headwise.tuning.plan import word_piece
from headwise.tuning.prepare import new_classifier, with_head


@dataclass(frozen=True, eq=False)
class NewClassifier:
    """The classifier that a pre-trained model lacks: random weights that depend on a seed alone.

    Attributes:
        config: The config of the pre-trained model.
        task: The task.
        names: Names of the weights that the pre-trained model does not have.
        mean_pooling: Whether it reads the mean of the last hidden states (see `new_classifier`).
    """

    config: Any
    task: Task
    names: tuple[str, ...]
    mean_pooling: bool = False
    _weights: dict[int, dict[str, Tensor]] = field(default_factory=dict, repr=False)

    def reset(self, model: Any, seed: int) -> None:
        """Give a model the classifier of a seed."""
        if seed not in self._weights:
            torch.manual_seed(seed)
            new = new_classifier(self.config, self.task, self.mean_pooling).state_dict()
            self._weights[seed] = {name: new[name] for name in self.names}
        model.load_state_dict(self._weights[seed], strict=False)


def load_untuned(plan: ScoringPlan, languages: str, mean_pooling: bool = False) -> tuple[Setting, NewClassifier | None]:
    """Load the setting of a study that tunes models.

    Args:
        plan: Model, task and data.
        languages: Codes of the languages to train on, or `all`. If the model has no classifier for the task, it gets a
            new one with the labels of the training examples of these languages.
        mean_pooling: Whether a new classifier reads the mean of the last hidden states (see `new_classifier`).

    Returns:
        The setting, and the new classifier if there is one.

    Raises:
        HeadwiseError: The model or the data do not exist or do not fit the task, or none of the languages has training
            examples.
    """
    dataset = open_dataset(plan.data, plan.task)
    dataset = dataclasses.replace(dataset, load=functools.cache(dataset.load))
    model = load_model(plan.model, device=plan.device, dtype=plan.dtype)
    tokenizer = load_tokenizer(plan.model)
    if tokenizer is None:
        raise HeadwiseError(f"{plan.model}: the model has no tokenizer: choose a model that has one")
    task = find_task(plan.task, labels_of(_training_examples(dataset, languages)), word_piece(plan.piece))
    torch.manual_seed(0)  # the classifier is reset before each tuning
    whole, _ = with_head(model, task, mean_pooling)
    setting = make_setting(whole, tokenizer, dataset, plan.task, plan.piece, plan.model)
    if whole is model:
        return setting, None
    prefix, known = f"{whole.base_model_prefix}.", model.base_model.state_dict().keys()
    new = [name for name in whole.state_dict() if name.removeprefix(prefix) not in known or not name.startswith(prefix)]
    return setting, NewClassifier(model.config, task, tuple(new), mean_pooling)


def _training_examples(dataset: Dataset, languages: str) -> list[Example]:
    """The training examples of those of the languages that have any."""
    codes = [code for code in language_codes(languages, dataset) if can_train(dataset, code)]
    if not codes:
        raise HeadwiseError(f"{dataset.name}: {languages} has no training examples: choose data with a split 'train'")
    return [example for code in codes for example in dataset.examples(code, "train")]


def can_train(dataset: Dataset, language: str) -> bool:
    """Return whether a language has the splits `train` and `dev`."""
    try:
        return all(dataset.examples(language, split) for split in ("train", "dev"))
    except HeadwiseError:
        return False
