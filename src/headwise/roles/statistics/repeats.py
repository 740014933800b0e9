"""Attention to repeated tokens: duplicates, the token after a duplicate, and the token that is copied next."""

import torch
from torch import Tensor

from headwise.roles.attention import BatchTokens, SiteAttention, mean_weight, top_in


def _duplicates(batch: BatchTokens) -> Tensor:
    same = batch.tokens.query_ids[:, :, None] == batch.tokens.key_ids[:, None]
    return batch.text_pairs & same & (batch.distance != 0)


def _after_duplicates(batch: BatchTokens) -> Tensor:
    same = _duplicates(batch)
    moved = torch.nn.functional.pad(same, (1, 0))[..., :-1]  # the key after each duplicate
    return moved & batch.text_pairs & (batch.distance != 0)


def next_ids(batch: BatchTokens) -> Tensor:
    """The token of the text that each query predicts, -1 if it predicts none, (rows, queries)."""
    ids = batch.tokens.query_ids.masked_fill(~batch.tokens.text_queries, -1)
    return torch.nn.functional.pad(ids, (0, 1), value=-1)[:, 1:]


def _copied_next(batch: BatchTokens) -> Tensor:
    same = batch.once(next_ids)[:, :, None] == batch.tokens.key_ids[:, None]
    return batch.visible & batch.tokens.text_keys[:, None] & same


def duplicate_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight on other occurrences of the same token."""
    return mean_weight(site, _duplicates)


def induction_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight on the tokens after other occurrences of the same token."""
    return mean_weight(site, _after_duplicates)


def retrieval(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """Whether the largest weight is on an occurrence of the token that comes next."""
    return top_in(site, site.top, _copied_next)
