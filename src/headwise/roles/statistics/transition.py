"""Attention to the source token whose translation comes next: retrieval across languages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from headwise.architectures import Stack
from headwise.data.aligner import Ids, model_1
from headwise.roles.attention import BatchTokens, SiteAttention, top_in
from headwise.roles.corpus import Corpus
from headwise.roles.statistics.base import Column

#: Smallest probability of an alignment.
CERTAIN = 0.5


@dataclass(frozen=True, eq=False)
class Transition:
    """How often the largest weight is on the source token that the next token of the translation is aligned to.

    This is our reading, for cross-attention, of retrieval-transition heads (Patel et al., arXiv 2602.22453). Tokens are
    aligned by IBM model 1, trained on the examples themselves. Copies of the same token belong to `retrieval` and do
    not count here.

    Attributes:
        aligned: For each example and token of its translation, the id of the source token, or -1.
    """

    stacks: ClassVar[tuple[Stack, ...]] = ("cross",)
    columns: ClassVar[tuple[Column, ...]] = (Column("transition"),)

    aligned: tuple[Ids, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> "Transition":
        """The statistic for the examples of a language; without translations, no token is aligned."""
        if not corpus.translates:
            return cls(())
        special = np.array(corpus.examples.special_ids)
        sides = [
            [np.array(getattr(each, side), dtype=np.int64) for each in corpus.examples.encoded]
            for side in ("ids", "target")
        ]
        sources, targets = ([np.where(np.isin(ids, special), -1, ids) for ids in side] for side in sides)
        found = align_tokens(sources, targets)
        return cls(tuple(np.where(each == ids, -1, each) for each, ids in zip(found, targets, strict=True)))

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The number of hits, (rows, heads, 1), and of tokens that are aligned, (rows, 1)."""
        hits, counts = top_in(site, site.top, self._mask)
        return hits[..., None], counts[..., None]

    def _mask(self, batch: BatchTokens) -> Tensor:
        wanted = torch.full(batch.tokens.query_ids.shape, -1)
        for row, example in enumerate(batch.index.tolist()):
            aligned = self.aligned[example]  # the query at a position predicts the token at the same position
            wanted[row, : len(aligned)] = torch.from_numpy(aligned)
        same = wanted.to(batch.tokens.key_ids.device)[:, :, None] == batch.tokens.key_ids[:, None]
        return batch.visible & batch.tokens.text_keys[:, None] & same


def align_tokens(sources: Sequence[Ids], targets: Sequence[Ids]) -> tuple[Ids, ...]:
    """Align each token of a translation to a source token by IBM model 1 with an empty source word.

    Args:
        sources: The tokens of each source; -1 for tokens that are not text, which are ignored.
        targets: The tokens of each translation; -1 as above.

    Returns:
        For each token of each translation the id of the source token, -1 if none has a probability of at least
        `CERTAIN`.

    Example:
        >>> sources = [np.array(each) for each in ([1, 2], [2, 3], [1, 3])]
        >>> targets = [np.array(each) for each in ([11, 12], [13, 12], [13, 11])]
        >>> [each.tolist() for each in align_tokens(sources, targets)]
        [[1, 2], [3, 2], [3, 1]]
    """
    found = tuple(np.full(len(each), -1, dtype=np.int64) for each in targets)
    pairs = [  # example, place in the translation, translated token, source token; -1 is the empty word
        (number, place, word, token)
        for number, (source, target) in enumerate(zip(sources, targets, strict=True))
        for place, word in enumerate(target.tolist())
        if word >= 0
        for token in (-1, *source[source >= 0].tolist())
    ]
    if not pairs:
        return found
    table = np.array(pairs)
    _, occurrence = np.unique(table[:, :2], axis=0, return_inverse=True)
    posterior = model_1(occurrence.ravel(), table[:, 2], table[:, 3])
    # A token that is several times in the source has the sum of its probabilities.
    choices, choice = np.unique(table[:, [0, 1, 3]], axis=0, return_inverse=True)
    certain = (np.bincount(choice.ravel(), posterior) >= CERTAIN) & (choices[:, 2] >= 0)
    for number, place, token in choices[certain].tolist():
        found[number][place] = token
    return found
