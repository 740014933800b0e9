"""Trees of tokens: sequences that begin with the same tokens are one input, in which shared tokens are computed once.

The tokens of a tree are in one row. A token attends to its ancestors and to itself only, and its position is its depth,
so its hidden state is that of its sequence alone. Attention masks and positions are all that a causal model needs for
this: there is no cache, and gates and gradients work as for any other row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.heads import base_model
from headwise.tasks.encoding import Batch, Encoded, make_batch


@dataclass(frozen=True)
class TokenTree(Encoded):
    """Sequences as a tree. `ids` are the tokens of the tree, `positions` and `gold` the labels of all sequences.

    Attributes:
        parents: The token before each token, -1 for the first one.
        depths: Number of tokens before each token in its sequence.
        counts: Number of labels of each sequence.
    """

    parents: tuple[int, ...] = field(kw_only=True)
    depths: tuple[int, ...] = field(kw_only=True)
    counts: tuple[int, ...] = field(kw_only=True)

    @classmethod
    def of(cls, sequences: Sequence[Encoded]) -> "TokenTree":
        """The tree of some sequences.

        Example:
            >>> one, two = Encoded((5, 6, 7), (1, 2), (7, 8)), Encoded((5, 6, 9), (1, 2), (9, 4))
            >>> tree = TokenTree.of([one, two])
            >>> tree.ids, tree.parents, tree.depths, tree.positions, tree.gold
            ((5, 6, 7, 9), (-1, 0, 1, 1), (0, 1, 2, 2), (1, 2, 1, 3), (7, 8, 9, 4))
        """
        nodes: dict[tuple[int, int], int] = {}  # the number of each pair of a parent and a token
        depths: list[int] = []
        positions: list[int] = []
        for each in sequences:
            path, parent = [], -1
            for depth, token in enumerate(each.ids):
                if (parent, token) not in nodes:
                    nodes[parent, token] = len(nodes)
                    depths.append(depth)
                parent = nodes[parent, token]
                path.append(parent)
            positions.extend(path[position] for position in each.positions)
        return cls(
            tuple(token for _, token in nodes),
            tuple(positions),
            tuple(label for each in sequences for label in each.gold),
            parents=tuple(parent for parent, _ in nodes),
            depths=tuple(depths),
            counts=tuple(len(each.gold) for each in sequences),
        )

    def seen(self) -> Tensor:
        """Whether each token attends to each other token, (tokens, tokens)."""
        found = torch.eye(len(self.ids), dtype=torch.bool)
        for token, parent in enumerate(self.parents):
            if parent >= 0:
                found[token] |= found[parent]
        return found


@dataclass(frozen=True)
class TreeBatch(Batch):
    """A batch of trees.

    Attributes:
        depths: The position of each token, (rows, tokens).
        seen: Whether each token attends to each other token, (rows, tokens, tokens).
        window: Number of tokens that a layer with sliding attention reads; None for a model without such layers.
        by_kind: Whether the model takes one attention mask for each kind of layer.
        dtype: Data type of the model.
    """

    depths: Tensor = field(kw_only=True)
    seen: Tensor = field(kw_only=True)
    window: int | None = field(kw_only=True)
    by_kind: bool = field(kw_only=True)
    dtype: torch.dtype = field(kw_only=True)

    def inputs(self, device: torch.device) -> dict[str, Any]:
        """The keyword arguments of the model's `forward`."""
        depths, seen = self.depths.to(device), self.seen.to(device)
        full, near = self._additive(seen), None
        if self.window is not None:
            near = self._additive(seen & (depths[:, :, None] - depths[:, None] < self.window))
        mask: Any = full if near is None else near
        if self.by_kind:
            mask = {"full_attention": full} | ({} if near is None else {"sliding_attention": near})
        return {"input_ids": self.input_ids.to(device), "attention_mask": mask, "position_ids": depths}

    def _additive(self, seen: Tensor) -> Tensor:
        """0 where a token attends and the smallest number elsewhere, (rows, 1, tokens, tokens)."""
        found = torch.zeros(seen.shape, dtype=self.dtype, device=seen.device)
        return found.masked_fill_(~seen, torch.finfo(self.dtype).min)[:, None]


def make_tree_batch(model: Any, trees: Sequence[TokenTree], index: Sequence[int], pad_id: int) -> TreeBatch:
    """A batch of some trees."""
    plain = make_batch(trees, index, pad_id)
    rows, tokens = plain.input_ids.shape
    depths = torch.zeros(rows, tokens, dtype=torch.long)
    seen = torch.eye(tokens, dtype=torch.bool).repeat(rows, 1, 1)  # padding attends to itself
    for row, number in enumerate(index):
        tree = trees[number]
        depths[row, : len(tree.ids)] = torch.tensor(tree.depths)
        seen[row, : len(tree.ids), : len(tree.ids)] = tree.seen()
    config = base_model(model).config.get_text_config()
    kinds = frozenset(getattr(config, "layer_types", None) or ())
    sliding = "sliding_attention" in kinds or not kinds
    window = getattr(config, "sliding_window", None) if sliding else None
    dtype = next(base_model(model).parameters()).dtype
    return TreeBatch(
        **vars(plain), depths=depths, seen=seen, window=window, by_kind="sliding_attention" in kinds, dtype=dtype
    )


def make_token_batch(model: Any, encoded: Sequence[Encoded], index: Sequence[int], pad_id: int) -> Batch:
    """A batch of some examples, which are trees or not, for a causal model."""
    if trees := [each for each in encoded if isinstance(each, TokenTree)]:
        return make_tree_batch(model, trees, index, pad_id)
    return make_batch(encoded, index, pad_id)
