"""The attention of one site on one batch, as statistics see it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from headwise.architectures import Stack
from headwise.methods.attention_statistics import SiteTokens

Found = TypeVar("Found")
#: From the tokens of a batch to a mask of pairs of a query and a key, boolean, (rows, queries, keys).
PairMask = Callable[["BatchTokens"], Tensor]


@dataclass(frozen=True, eq=False)
class BatchTokens:
    """The tokens of a batch for one stack, shared by all sites of the stack.

    Attributes:
        stack: The stack.
        tokens: The tokens of queries and keys.
        index: The number of each row's example, (rows,).
        separators: The ids of separators.
        ends: The ids of the tokens that end a sentence.
        translates: Whether the batch has translations.
    """

    stack: Stack
    tokens: SiteTokens
    index: Tensor
    separators: Tensor
    ends: Tensor
    translates: bool
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    def once(self, make: Callable[["BatchTokens"], Found]) -> Found:
        """The result of a function of the batch; it is computed once and used for all sites of the stack."""
        if make not in self._kept:
            self._kept[make] = make(self)
        return cast(Found, self._kept[make])

    @property
    def reads_target(self) -> bool:
        """Whether the keys are tokens of a translation."""
        return self.translates and self.stack == "decoder"

    @cached_property
    def distance(self) -> Tensor:
        """Position of the key minus position of the query, (queries, keys)."""
        queries, keys = self.tokens.query_ids.shape[1], self.tokens.key_ids.shape[1]
        device = self.tokens.key_ids.device
        return torch.arange(keys, device=device) - torch.arange(queries, device=device)[:, None]

    @cached_property
    def visible(self) -> Tensor:
        """Whether a query may attend to a key: to no padding and, in decoders, to no later token, (rows, Q, K)."""
        found = self.tokens.queries[:, :, None] & self.tokens.keys[:, None]
        return found & (self.distance <= 0) if self.stack == "decoder" else found

    @cached_property
    def text_pairs(self) -> Tensor:
        """Whether query and key are tokens of the text and the key is visible, (rows, queries, keys)."""
        return self.visible & self.tokens.text_queries[:, :, None] & self.tokens.text_keys[:, None]


@dataclass(frozen=True, eq=False)
class SiteAttention:
    """The attention weights of one site on one batch.

    Attributes:
        weights: The weights, (rows, heads, queries, keys).
        batch: The tokens.
    """

    weights: Tensor
    batch: BatchTokens

    @property
    def tokens(self) -> SiteTokens:
        """The tokens of queries and keys."""
        return self.batch.tokens

    @cached_property
    def top(self) -> Tensor:
        """The key with the largest weight for each query, (rows, heads, queries)."""
        return self.weights.argmax(-1)

    @cached_property
    def top_text(self) -> Tensor:
        """The token of the text with the largest weight for each query, (rows, heads, queries).

        A query without any weight on the text has a special token instead.
        """
        weight, key = self.weights.masked_fill(~self.tokens.text_keys[:, None, None], 0.0).max(-1)
        return torch.where(weight > 0, key, self.top)


def mean_weight(site: SiteAttention, mask: PairMask) -> tuple[Tensor, Tensor]:
    """The weight on the keys of a mask, summed over the queries that have such a key, and the number of these queries.

    Returns:
        Tensors (rows, heads) and (rows,).
    """
    pairs = site.batch.once(mask)  # (rows, queries, keys)
    found = torch.einsum("rhqk,rqk->rh", site.weights, pairs.to(site.weights.dtype))
    return found, pairs.any(-1).sum(-1)


def top_in(site: SiteAttention, top: Tensor, mask: PairMask) -> tuple[Tensor, Tensor]:
    """How often the chosen key of a query is in a mask, and the number of queries that have such a key.

    Args:
        site: The attention.
        top: The chosen key of each query, (rows, heads, queries).
        mask: The mask.

    Returns:
        Tensors (rows, heads) and (rows,).
    """
    pairs = site.batch.once(mask)
    hits = pairs.gather(-1, top.transpose(1, 2))  # (rows, queries, heads)
    return hits.sum(1), pairs.any(-1).sum(-1)


def word_members(words: Sequence[Sequence[int]], batch: BatchTokens) -> Tensor:
    """Whether a token is a piece of a word, (rows, words, tokens).

    Args:
        words: The word of each token of each example, -1 for tokens that are not words.
        batch: The tokens.
    """
    numbers = torch.full(batch.tokens.key_ids.shape, -1)
    for row, example in enumerate(batch.index.tolist()):
        numbers[row, : len(words[example])] = torch.tensor(words[example])
    found = numbers[:, None] == torch.arange(int(numbers.max()) + 1)[:, None]
    return found.to(batch.tokens.key_ids.device)


def word_attention(weights: Tensor, members: Tensor) -> Tensor:
    """The attention of words to words, (rows, heads, words, words).

    It is the sum over the pieces of the attended word and the mean over the pieces of the attending word (Clark et al.,
    2019).

    Args:
        weights: The attention of tokens, (rows, heads, tokens, tokens).
        members: The pieces of words, (rows, words, tokens).
    """
    pieces = members.to(weights.dtype)
    received = weights @ pieces.transpose(1, 2)[:, None]  # (rows, heads, tokens, words)
    return (pieces / pieces.sum(-1, keepdim=True).clamp(min=1))[:, None] @ received
