"""Examples as model inputs, and batches of them with little padding."""

import functools
import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.heads import base_model

#: Model inputs that every batch has.
_ALWAYS = ("input_ids", "attention_mask")


@dataclass(frozen=True)
class TokenInput:
    """A model input besides the token ids that has one number per token, such as `token_type_ids`.

    Attributes:
        name: Its name, in the tokenizer's output and in the model's `forward`.
        values: One number per token.
        pad: The number at padding.
    """

    name: str
    values: tuple[int, ...]
    pad: int = 0


@dataclass(frozen=True)
class TextSize:
    """The length of a text, independent of tokenizers.

    Attributes:
        bytes: Number of bytes in UTF-8.
        characters: Number of Unicode characters.

    Example:
        >>> TextSize.of("größer")
        TextSize(bytes=8, characters=6)
    """

    bytes: int
    characters: int

    @classmethod
    def of(cls, text: str) -> "TextSize":
        """The length of a text."""
        return cls(len(text.encode()), len(text))


@dataclass(frozen=True)
class Encoded:
    """One example in tokens.

    Attributes:
        ids: Token ids, special tokens included.
        positions: Token position of each label, -1 for a word without a token; empty for an example with a single
            label.
        gold: The labels, as numbers.
        extra: The other inputs that the tokenizer returned for the tokens.
        size: Length of the text that the labels spell, for tasks whose labels are tokens of a text. It is no input of
            the model.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    gold: tuple[int, ...]
    extra: tuple[TokenInput, ...] = field(default=(), kw_only=True)
    size: "TextSize | None" = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def length(self) -> int:
        """Number of tokens that it needs in a batch."""
        return len(self.ids)

    def content(self) -> list[Any]:
        """All model inputs as plain data, for hashing.

        Extra inputs that are all 0 are omitted, because models use zeros for a missing input.

        Example:
            >>> Encoded((5, 9), (), (0,), extra=(TokenInput("token_type_ids", (0, 0)),)).content()
            [(5, 9), (), (0,)]
            >>> Encoded((5, 9), (), (0,), extra=(TokenInput("token_type_ids", (0, 1)),)).content()
            [(5, 9), (), (0,), {'token_type_ids': (0, 1)}]
        """
        parts = [getattr(self, part.name) for part in fields(self) if part.name not in ("extra", "size")]
        found = [part for part in parts if part is not None]
        extra = {each.name: each.values for each in self.extra if any(each.values)}
        return [*found, extra] if extra else found


@dataclass(frozen=True)
class Batch:
    """A batch of examples.

    Attributes:
        input_ids: Token ids, (rows, tokens).
        attention_mask: 1 for tokens and 0 for padding, (rows, tokens).
        index: The number of each row's example, (rows,).
        rows: The row of each label, (labels,).
        positions: The token position of each label in its row, (labels,); 0 if labels belong to whole rows.
        gold: The labels, (labels,).
        places: The index of each label among the labels of its example, (labels,).
        extra: The other inputs that the model takes, by name, (rows, tokens) each.
    """

    input_ids: Tensor
    attention_mask: Tensor
    index: Tensor
    rows: Tensor
    positions: Tensor
    gold: Tensor
    places: Tensor
    extra: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)

    def inputs(self, device: torch.device) -> dict[str, Tensor]:
        """The keyword arguments of the model's `forward`."""
        found = {"input_ids": self.input_ids, "attention_mask": self.attention_mask, **self.extra}
        return {name: tensor.to(device) for name, tensor in found.items()}


def pad_id_of(tokenizer: Any) -> int:
    """The padding token; 0 if the tokenizer has none, since padding is always masked.

    Example:
        >>> from types import SimpleNamespace
        >>> pad_id_of(SimpleNamespace(pad_token_id=1)), pad_id_of(SimpleNamespace(pad_token_id=None))
        (1, 0)
    """
    found = tokenizer.pad_token_id
    return 0 if found is None else int(found)


def token_inputs(tokens: Mapping[str, Any], index: int, tokenizer: Any) -> tuple[TokenInput, ...]:
    """The inputs of one example besides its token ids and attention mask.

    Args:
        tokens: The tokenizer's output for several examples, as lists.
        index: The number of the example among them.
        tokenizer: The tokenizer, which defines the padding of `token_type_ids`.
    """
    length, found = len(tokens["input_ids"][index]), []
    for name, values in tokens.items():
        each = values[index] if name not in _ALWAYS else None
        if isinstance(each, list) and len(each) == length and all(isinstance(value, int) for value in each):
            pad = getattr(tokenizer, "pad_token_type_id", 0) if name == "token_type_ids" else 0
            found.append(TokenInput(name, tuple(each), pad))
    return tuple(found)


def inputs_of(model: Any) -> frozenset[str]:
    """The names of the inputs that a model's `forward` takes.

    Example:
        >>> from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel
        >>> bert = BertModel(BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=0, num_attention_heads=2))
        >>> small = DistilBertModel(DistilBertConfig(vocab_size=9, dim=8, n_layers=0, n_heads=2))
        >>> "token_type_ids" in inputs_of(bert), "token_type_ids" in inputs_of(small)
        (True, False)
    """
    cls: Any = type(base_model(model))
    return _parameters(cls)


@functools.cache
def _parameters(cls: Any) -> frozenset[str]:
    return frozenset(inspect.signature(cls.forward).parameters)


def make_batch(encoded: Sequence[Encoded], index: Sequence[int], pad_id: int, inputs: Collection[str] = ()) -> Batch:
    """Make a batch of some examples; labels without a token are omitted.

    Args:
        encoded: All examples.
        index: The numbers of those in the batch.
        pad_id: The token at padding.
        inputs: The names of the inputs that the model takes; extra inputs with other names are omitted.
    """
    chosen = [encoded[i] for i in index]
    input_ids = _padded([item.ids for item in chosen], pad_id)
    attention = _padded([(1,) * len(item.ids) for item in chosen], 0)
    extra = {
        each.name: _padded([item.extra[place].values for item in chosen], each.pad)
        for place, each in enumerate(chosen[0].extra)
        if each.name in inputs
    }
    labels: list[tuple[int, int, int, int]] = []
    for row, item in enumerate(chosen):
        positions = item.positions or (0,)
        labels.extend(
            (row, position, gold, place)
            for place, (position, gold) in enumerate(zip(positions, item.gold, strict=True))
            if position >= 0
        )
    rows, places_in_row, gold, places = torch.tensor(labels, dtype=torch.long).reshape(-1, 4).T
    return Batch(input_ids, attention, torch.tensor(index), rows, places_in_row, gold, places, extra=extra)


def _padded(rows: Sequence[Sequence[int]], pad: int) -> Tensor:
    """Rows of different lengths as a tensor, padded on the right, (rows, tokens)."""
    found = torch.full((len(rows), max(map(len, rows))), pad, dtype=torch.long)
    for place, row in enumerate(rows):
        found[place, : len(row)] = torch.tensor(row)
    return found


def pack_by_length(lengths: Sequence[int], token_budget: int) -> Iterator[list[int]]:
    """Groups of examples of similar length whose padded size is within a budget of tokens, longest first."""
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    for part in split_batches(np.asarray(lengths, dtype=np.int64)[order], token_budget):
        yield [int(i) for i in order[part]]


def split_batches(
    lengths: NDArray[np.int64], token_budget: int, most_padding: float = 1.0, enough_tokens: int = 0
) -> Iterator[slice]:
    """Split examples, the longest first, into batches. All batches are made by this function.

    Args:
        lengths: Number of tokens of each example, in descending order, (examples,).
        token_budget: Maximum number of padded tokens of a batch. A longer example is a batch by itself.
        most_padding: Maximum share of padding of a batch that has `enough_tokens`.
        enough_tokens: Number of padded tokens from which `most_padding` applies.

    Example:
        >>> list(split_batches(np.array([50, 50, 10, 10, 10]), token_budget=100))
        [slice(0, 2, None), slice(2, 5, None)]
    """
    start = 0
    while start < len(lengths):
        sizes = lengths[start : start + max(1, int(token_budget // lengths[start]))]
        padded = sizes[0] * np.arange(1, len(sizes) + 1)  # tokens of the first example, the first two, ...
        wasteful = (padded - np.cumsum(sizes) > most_padding * padded) & (padded - sizes[0] >= enough_tokens)
        stop = start + (int(np.argmax(wasteful)) if wasteful.any() else len(sizes))
        yield slice(start, stop)
        start = stop


def usable_positions(model: Any) -> int | None:
    """Maximum number of tokens that a model can read at a time; None if its config sets no limit.

    Example:
        >>> from transformers import RobertaConfig, RobertaModel
        >>> config = RobertaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                        intermediate_size=8, max_position_embeddings=514)
        >>> usable_positions(RobertaModel(config))
        512
    """
    for name, module in model.named_modules():
        first = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and first is not None:
            return int(module.num_embeddings - first - 1)  # RoBERTa-like positions start after the padding index
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return most if most is not None and most > 0 else None
