"""Examples as a model reads them, and batches of them with little padding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
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
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    group: list[int] = []
    for i in order:
        if group and lengths[group[0]] * (len(group) + 1) > token_budget:
            yield group
            group = []
        group.append(i)
    if group:
        yield group


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
