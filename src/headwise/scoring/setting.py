"""The setting: model, tokenizer, task, data and head map, loaded once and shared by all functions."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.data.selection import choose_examples, language_codes
from headwise.engine import EngineFactory, ExampleSet, LocalEngine, encode_examples
from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, find_heads
from headwise.models import load_model, load_tokenizer
from headwise.tasks.dispatch import task_of
from headwise.tasks.encoding import Encoded
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import Piece


@dataclass(frozen=True, eq=False)
class Setting:
    """A model with everything that is needed to evaluate it.

    Scoring, refining, judging and studies take a setting, so the model is loaded once, the data set is opened once, and
    each example is encoded once.

    Attributes:
        model: The model.
        tokenizer: Its tokenizer.
        task: The task, adapted to the model.
        dataset: The data set.
        heads: The model's head map.
        name: Name of the model.
        make_engine: Creates the engines that compute values.
    """

    model: Any
    tokenizer: Any
    task: AnyTask
    dataset: Dataset
    heads: HeadMap
    name: str
    make_engine: EngineFactory = LocalEngine
    _encoded: dict[tuple[Example, ...], ExampleSet] = field(default_factory=dict, repr=False)

    def examples(self, languages: str | Sequence[str], split: str, limit: int | None = None) -> "Selection":
        """The examples of the given languages; for aligned data, the same items in all of them.

        Args:
            languages: Codes, as a list or separated by commas, or `all`.
            split: Split of the data.
            limit: The maximum number of examples per language, the first ones; None for all.

        Raises:
            HeadwiseError: The data have no such language or split, or no examples there.
        """
        codes = self.codes(languages)
        examples, note = choose_examples(self.dataset, codes, split, limit)
        return Selection(examples, tuple(line for line in (note, self.dataset.note) if line))

    def codes(self, languages: str | Sequence[str]) -> list[str]:
        """Language codes as a list."""
        text = languages if isinstance(languages, str) else ",".join(languages)
        return language_codes(text, self.dataset)

    def encode(self, examples: Sequence[Example]) -> ExampleSet:
        """The tokenized examples; the result is cached."""
        key = tuple(examples)
        if key not in self._encoded:
            self._encoded[key] = encode_examples(self.task, key, self.tokenizer)
        return self._encoded[key]


@dataclass(frozen=True)
class Selection:
    """Examples of several languages.

    Attributes:
        examples: The examples of each language.
        notes: Notes to print with results on them.
    """

    examples: Mapping[str, tuple[Example, ...]]
    notes: tuple[str, ...]


def load_setting(
    model: str,
    task: str,
    data: str,
    piece: str = "text",
    trust_remote_code: bool = False,
    device: str = "auto",
    dtype: str = "float32",
) -> Setting:
    """Load the setting of a model and data by name.

    Args:
        model: Name on the hub, a folder, or the name of a default model.
        task: The task, such as `pos`.
        data: Any data set that `open_dataset` accepts.
        piece: Which piece of a word carries its label, `text` or `first`.
        trust_remote_code: Run code that comes with the model.
        device: Where the model runs, one of `headwise.models.DEVICES`.
        dtype: The type of the model's weights, one of `headwise.models.DTYPES`.

    Raises:
        HeadwiseError: The model or the data do not exist, or do not fit the task.
    """
    dataset = open_dataset(data, task)  # before the model, because it fails faster
    loaded = load_model(model, trust_remote_code, device=device, dtype=dtype)
    tokenizer = load_tokenizer(model, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{model}: the model has no tokenizer: choose a model that has one")
    return make_setting(loaded, tokenizer, dataset, task, piece, model)


def make_setting(
    model: Any, tokenizer: Any, dataset: Dataset, task: str, piece: str = "text", name: str = ""
) -> Setting:
    """Make the setting from loaded objects.

    Args:
        model: A transformers model, or a PEFT model around one.
        tokenizer: Its tokenizer.
        dataset: The data set.
        task: The task, such as `pos`.
        piece: Which piece of a word carries its label, `text` or `first`.
        name: Name of the model; by default the name in its config.

    Raises:
        HeadwiseError: The model, the tokenizer and the task do not fit each other.
    """
    found = task_of(model, task, cast(Piece, piece))
    heads = find_heads(model)
    cached = dataclasses.replace(dataset, load=functools.cache(dataset.load))
    return Setting(model, tokenizer, found, cached, heads, name or heads.model)


def fingerprint_examples(examples: Sequence[Example], encoded: Sequence[Encoded]) -> str:
    """A hash of examples as a model reads them: their ids, tokens, labels and extra inputs that are not all 0.

    Example:
        >>> from headwise.data.examples import TextExample
        >>> fingerprint_examples([TextExample("1", "hello", "greet")], [Encoded((5, 9), (), (0,))])
        '0815eac411eaa637'
    """
    digest = hashlib.sha256()
    for example, each in zip(examples, encoded, strict=True):
        digest.update(json.dumps([example.id, *each.content()]).encode())
    return digest.hexdigest()[:16]
