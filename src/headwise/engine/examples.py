"""The examples of a game: encoded once, with arrays that every batch needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.activations import TokenBatch, device_of
from headwise.data.examples import Example
from headwise.heads import HeadMap
from headwise.means import MeanOutputs, collect_means
from headwise.tasks.choices import EncodedChoices
from headwise.tasks.encoding import Encoded, check_vocabulary, pack_by_length, pad_id_of
from headwise.tasks.protocol import AnyTask


@dataclass(frozen=True)
class ExampleSet:
    """Encoded examples of a task.

    Attributes:
        task: The task.
        encoded: The examples in tokens.
        pad_id: The padding token.
        cut: Number of examples that were cut because they were too long for the task.
        special_ids: Tokens that are not text: start, end, separators, padding, language codes.
    """

    task: AnyTask
    encoded: tuple[Encoded, ...]
    pad_id: int
    cut: int = 0
    special_ids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.encoded)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of input tokens of the encoder, or of the only stack, (examples,)."""
        return np.array([len(each.ids) for each in self.encoded], dtype=np.int64)

    @cached_property
    def target_lengths(self) -> NDArray[np.int64]:
        """Number of input tokens of the decoder of a sequence-to-sequence model, (examples,); 0 for other models."""
        return np.array([len(getattr(each, "target", ())) for each in self.encoded], dtype=np.int64)

    @cached_property
    def counts(self) -> Tensor:
        """Number of labels of each example, (examples,)."""
        return torch.tensor([len(each.gold) for each in self.encoded])

    @cached_property
    def gold(self) -> Tensor:
        """The labels of all examples, concatenated, (labels,)."""
        return torch.tensor([label for each in self.encoded for label in each.gold])

    @cached_property
    def sizes(self) -> Tensor | None:
        """Bytes and characters of the text that the labels of each example spell, (examples, 2); None if none."""
        found = [each.size for each in self.encoded]
        if any(size is None for size in found):
            return None
        return torch.tensor([(size.bytes, size.characters) for size in found if size is not None])

    @cached_property
    def choices(self) -> tuple[EncodedChoices, ...]:
        """The examples of multiple choice; empty for other tasks."""
        return tuple(each for each in self.encoded if isinstance(each, EncodedChoices))

    @cached_property
    def sequences(self) -> "ExampleSet":
        """What a model reads: the choices of multiple choice as examples; for other tasks, the examples themselves."""
        if not self.choices:
            return self
        return replace(self, encoded=tuple(choice for each in self.choices for choice in each.choices))

    def gold_of(self, index: Tensor) -> Tensor:
        """The labels of some examples, concatenated, (labels,)."""
        counts = self.counts[index]
        rows = torch.repeat_interleave(torch.arange(len(index)), counts)
        within = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
        return self.gold[(self.counts.cumsum(0) - self.counts)[index][rows] + within]


def encode_examples(task: AnyTask, examples: Sequence[Example], tokenizer: Any) -> ExampleSet:
    """Encode examples for an engine."""
    encoded, cut = task.encode(examples, tokenizer)
    return ExampleSet(task, encoded, pad_id_of(tokenizer), cut, special_ids_of(tokenizer))


def special_ids_of(tokenizer: Any) -> tuple[int, ...]:
    """The tokens of a tokenizer that are not text: start, end, separators, padding, language codes.

    The token for unknown words stands for text, unless the tokenizer also uses it for something else (GPT-2).

    Example:
        >>> from types import SimpleNamespace
        >>> special_ids_of(SimpleNamespace(all_special_ids=[0, 2, 3], unk_token_id=3, eos_token_id=2, pad_token_id=0))
        (0, 2)
    """
    roles = {getattr(tokenizer, f"{role}_token_id", None) for role in ("bos", "eos", "sep", "cls", "pad")}
    unknown = {getattr(tokenizer, "unk_token_id", None)} - roles
    return tuple(sorted(set(tokenizer.all_special_ids) - unknown))


def token_batches(model: Any, heads: HeadMap, examples: ExampleSet, token_budget: int = 2048) -> Iterator[TokenBatch]:
    """All examples in batches of similar length, to read a model's activations.

    Args:
        model: The model.
        heads: Its head map.
        examples: The examples.
        token_budget: Maximum number of padded tokens of a batch.
    """
    check_vocabulary(model, examples.encoded)
    decoding = any(site.stack != "encoder" for site in heads.sites)
    longest = np.maximum(examples.lengths, examples.target_lengths).tolist()
    for index in pack_by_length(longest, token_budget):
        batch = examples.task.make_batch(model, examples.encoded, index, examples.pad_id)
        source = target = batch.attention_mask.bool()
        if examples.target_lengths.any():
            lengths = torch.from_numpy(examples.target_lengths[index])
            target = torch.arange(int(lengths.max())) < lengths[:, None]
        inputs = {**batch.inputs(device_of(model)), **({"use_cache": False} if decoding else {})}
        yield TokenBatch(inputs, {"encoder": source, "decoder": target, "cross": target}, torch.tensor(index))


def mean_outputs(model: Any, heads: HeadMap, examples: ExampleSet, language: str | None = None) -> MeanOutputs:
    """The mean output of every head and feed-forward block over the tokens of examples, in one pass."""
    return collect_means(model, token_batches(model, heads, examples.sequences), heads, language)
