"""Attention to positions: the token itself, the first, previous and next token, and any relative position."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headwise.architectures import Stack
from headwise.roles.attention import BatchTokens, SiteAttention, mean_weight
from headwise.roles.corpus import Corpus
from headwise.roles.statistics.base import SELF, Column

#: Largest distance of a relative position.
REACH = 8
OFFSETS = tuple(offset for offset in range(-REACH, REACH + 1) if offset)


def _at(batch: BatchTokens, offset: int) -> Tensor:
    return batch.visible & batch.tokens.text_queries[:, :, None] & (batch.distance == offset)


def _self(batch: BatchTokens) -> Tensor:
    return _at(batch, 0)


def _previous(batch: BatchTokens) -> Tensor:
    return _at(batch, -1)


def _next(batch: BatchTokens) -> Tensor:
    return _at(batch, 1)


def _first(batch: BatchTokens) -> Tensor:
    first = torch.arange(batch.visible.shape[-1], device=batch.visible.device) == 0
    return batch.visible & batch.tokens.text_queries[:, :, None] & first


def self_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight of a token of the text on itself."""
    return mean_weight(site, _self)


def first_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight on the first token, which is the start token in most models."""
    return mean_weight(site, _first)


def previous_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight on the token before."""
    return mean_weight(site, _previous)


def next_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight on the token after."""
    return mean_weight(site, _next)


@dataclass(frozen=True, eq=False)
class Offsets:
    """How often the largest weight of a token of the text is at each relative position (Voita et al., 2019, §5.1).

    A token counts for a relative position if there is a token at it, special tokens included.
    """

    stacks: ClassVar[tuple[Stack, ...]] = SELF

    @classmethod
    def of(cls, corpus: Corpus) -> "Offsets":  # noqa: ARG003 - the same for all examples
        """The statistic for the examples of a language."""
        return cls()

    @property
    def columns(self) -> tuple[Column, ...]:
        """A column for each relative position, such as `offset:-1`."""
        return tuple(Column(f"offset:{offset:+d}") for offset in OFFSETS)

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The number of hits, (rows, heads, offsets), and of tokens that have the position, (rows, offsets)."""
        text = site.tokens.text_queries
        place = torch.arange(text.shape[1], device=text.device)
        offsets = torch.tensor(OFFSETS, device=text.device)
        target = place[:, None] + offsets  # (queries, offsets)
        exists = (target >= 0) & (target < site.tokens.queries.sum(-1)[:, None, None]) & text[..., None]
        # One bin per offset, one more for all others; offset 0 is among the others.
        found = site.top - place  # (rows, heads, queries)
        bins = torch.where(found < 0, found + REACH, found + REACH - 1)
        bins = torch.where((found.abs() > REACH) | (found == 0), len(OFFSETS), bins)
        hits = torch.zeros(*found.shape[:2], len(OFFSETS) + 1, dtype=torch.long, device=text.device)
        hits.scatter_add_(-1, bins, text[:, None].expand_as(bins).long())
        return hits[..., :-1], exists.sum(1)
