"""Examples as a model reads them, and batches of them with little padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Encoded:
    """One example in tokens.

    Attributes:
        ids: Token ids, special tokens included.
        positions: Where the example's labels are read off: one position for each label, -1 where a word has no
            token to carry it; empty for an example with one label for the whole.
        gold: The labels, as numbers.
    """

    ids: tuple[int, ...]
    positions: tuple[int, ...]
    gold: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens that it takes up in a batch."""
        return len(self.ids)


@dataclass(frozen=True)
class Batch:
    """Some examples side by side.

    Attributes:
        input_ids: Token ids, (rows, tokens).
        attention_mask: 1 where there is a token, (rows, tokens).
        index: Which examples these are, (rows,).
        rows: For each label its row, (labels,).
        positions: For each label its position in the row, (labels,); 0 where labels belong to whole rows.
        gold: The labels, (labels,).
        places: For each label its place among the labels of its example, (labels,).
    """

    input_ids: Tensor
    attention_mask: Tensor
    index: Tensor
    rows: Tensor
    positions: Tensor
    gold: Tensor
    places: Tensor

    def inputs(self, device: torch.device) -> dict[str, Tensor]:
        """What the model is called with."""
        return {"input_ids": self.input_ids.to(device), "attention_mask": self.attention_mask.to(device)}


def make_batch(encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
    """Put the examples of an index side by side; labels that no token carries are left out."""
    chosen = [encoded[i] for i in index]
    width = max(len(item.ids) for item in chosen)
    input_ids = torch.full((len(chosen), width), pad_id, dtype=torch.long)
    attention = torch.zeros((len(chosen), width), dtype=torch.long)
    labels: list[tuple[int, int, int, int]] = []
    for row, item in enumerate(chosen):
        input_ids[row, : len(item.ids)] = torch.tensor(item.ids)
        attention[row, : len(item.ids)] = 1
        positions = item.positions or (0,)
        labels.extend(
            (row, position, gold, place)
            for place, (position, gold) in enumerate(zip(positions, item.gold, strict=True))
            if position >= 0
        )
    rows, places_in_row, gold, places = torch.tensor(labels, dtype=torch.long).reshape(-1, 4).T
    return Batch(input_ids, attention, torch.tensor(index), rows, places_in_row, gold, places)


def pack_by_length(lengths: Sequence[int], token_budget: int) -> Iterator[list[int]]:
    """Groups of examples of like length whose padded size stays within a budget of tokens, longest first."""
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    for part in split_batches(np.asarray(lengths, dtype=np.int64)[order], token_budget):
        yield [int(i) for i in order[part]]


def split_batches(
    lengths: NDArray[np.int64], token_budget: int, most_padding: float = 1.0, enough_tokens: int = 0
) -> Iterator[slice]:
    """Split examples, the longest first, into batches: the one packer that all batches come from.

    Args:
        lengths: Tokens of each example, in descending order, (examples,).
        token_budget: Most padded tokens of a batch; an example longer than that is a batch of its own.
        most_padding: Share of padding above which a batch takes no more examples, if it has enough tokens.
        enough_tokens: Padded tokens that are enough.

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
    """Most tokens that a model can read at a time; None if its config sets no end.

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
            return int(module.num_embeddings - first - 1)  # RoBERTa and its kin count from after the padding token
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return most if most is not None and most > 0 else None
