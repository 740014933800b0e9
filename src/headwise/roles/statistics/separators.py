"""Attention to separators and to the end of the sentence."""

import torch
from torch import Tensor

from headwise.roles.attention import BatchTokens, SiteAttention, mean_weight, top_in


def _separators(batch: BatchTokens) -> Tensor:
    found = torch.isin(batch.tokens.key_ids, batch.separators)
    return batch.visible & batch.tokens.text_queries[:, :, None] & found[:, None]


def _ends(batch: BatchTokens) -> Tensor:
    found = torch.isin(batch.tokens.key_ids, batch.ends)
    return batch.visible & batch.tokens.text_queries[:, :, None] & found[:, None]


def separator_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight of a token of the text on all separators together."""
    return mean_weight(site, _separators)


def separator_top(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """Whether the largest weight of a token of the text is on a separator."""
    return top_in(site, site.top, _separators)


def separator_all(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """Whether the largest weights of all tokens of the text are on separators (Held & Yang, §5.2)."""
    hits, tokens = separator_top(site)
    sentences = tokens > 0
    return (hits == tokens[:, None]) & sentences[:, None], sentences.long()


def end_weight(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The weight of a token of the text on the token that ends the sentence."""
    return mean_weight(site, _ends)
