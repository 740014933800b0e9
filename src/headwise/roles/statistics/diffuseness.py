"""How concentrated attention is: confidence, entropy, broad attention, alignment entropy."""

import torch
from torch import Tensor

from headwise.methods.attention_statistics import confidences, entropies
from headwise.roles.attention import BatchTokens, SiteAttention

#: A query attends broadly if its entropy is at least this share of the largest possible entropy.
BROAD = 0.9


def confidence(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The largest weight of a token of the text on a token of the text."""
    return confidences(site.weights, site.tokens)


def entropy(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The entropy of the weights in nats."""
    return entropies(site.weights, site.tokens)


def broad(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """Whether the entropy of a token of the text is at least `BROAD` times the logarithm of the visible keys."""
    largest = site.batch.once(_largest_entropy)  # (rows, queries)
    counted = site.tokens.text_queries & (largest > 0)
    found = torch.special.entr(site.weights).sum(-1) >= BROAD * largest[:, None]  # (rows, heads, queries)
    return (found & counted[:, None]).sum(-1), counted.sum(-1)


def _largest_entropy(batch: BatchTokens) -> Tensor:
    return batch.visible.sum(-1).clamp(min=1).double().log()


def alignment_entropy(site: SiteAttention) -> tuple[Tensor, Tensor]:
    """The entropy in nats of a token of the translation over the tokens of the source text, scaled to sum to 1."""
    weights = site.weights * site.tokens.text_keys[:, None, None]
    total = weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    found = torch.special.entr(weights / total).sum(-1)  # (rows, heads, queries)
    return (found * site.tokens.text_queries[:, None]).sum(-1), site.tokens.text_queries.sum(-1)
