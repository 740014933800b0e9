"""Attention to the least frequent tokens of a sentence (Voita et al., 2019, §5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.architectures import Stack
from headwise.roles.attention import BatchTokens, SiteAttention, top_in
from headwise.roles.corpus import Corpus
from headwise.roles.statistics.base import ALL, Column

#: Sentences whose least frequent token is among this number of most frequent tokens are not counted.
FREQUENT = 500


@dataclass(frozen=True, eq=False)
class RareTokens:
    """How often the largest weight on the text is on the least frequent token, or on one of the two least frequent.

    Frequencies are those of the examples. Of equally frequent tokens, the one with the higher id counts as rarer:
    vocabularies list frequent tokens first.

    Attributes:
        source: The least frequent tokens of each example, the rarest first; -1 if there is none, (examples, 2).
        target: The same for translations.
    """

    stacks: ClassVar[tuple[Stack, ...]] = ALL

    source: Tensor
    target: Tensor

    @classmethod
    def of(cls, corpus: Corpus) -> "RareTokens":
        """The statistic for the examples of a language."""
        special = set(corpus.examples.special_ids)
        sides = (
            [[token for token in ids if token not in special] for ids in side]
            for side in (
                [each.ids for each in corpus.examples.encoded],
                [getattr(each, "target", ()) for each in corpus.examples.encoded],
            )
        )
        source, target = (torch.from_numpy(rarest_tokens(side)) for side in sides)
        return cls(source, target)

    @property
    def columns(self) -> tuple[Column, ...]:
        """`rare:1` and `rare:2`."""
        return Column("rare:1"), Column("rare:2")

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The number of hits, (rows, heads, 2), and of tokens that see such a token, (rows, 2)."""
        found = [top_in(site, site.top_text, mask) for mask in (self._rarest, self._two_rarest)]
        return torch.stack([hits for hits, _ in found], -1), torch.stack([counts for _, counts in found], -1)

    def _rarest(self, batch: BatchTokens) -> Tensor:
        return self._mask(batch, 1)

    def _two_rarest(self, batch: BatchTokens) -> Tensor:
        return self._mask(batch, 2)

    def _mask(self, batch: BatchTokens, number: int) -> Tensor:
        rare = (self.target if batch.reads_target else self.source)[batch.index.cpu(), :number]
        same = batch.tokens.key_ids[..., None] == rare.to(batch.tokens.key_ids.device)[:, None]  # (rows, keys, number)
        return batch.text_pairs & same.any(-1)[:, None]


def rarest_tokens(texts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The two least frequent tokens of each text, the rarest first, (texts, 2).

    Texts whose least frequent token is one of the `FREQUENT` most frequent tokens (or of half of all tokens, if that is
    fewer) have -1, and so have texts without a second token.

    Example:
        >>> rarest_tokens([[7, 7, 9], [7, 8, 9], [7]])
        array([[ 9,  7],
               [ 8,  9],
               [-1, -1]])
    """
    ids, counts = np.unique([token for text in texts for token in text], return_counts=True)
    order = np.lexsort((ids, -counts))  # the most frequent first; of equal ones, the lower id
    rank = {int(ids[place]): number for number, place in enumerate(order)}
    frequent = min(FREQUENT, len(ids) // 2)
    found = np.full((len(texts), 2), -1, dtype=np.int64)
    for row, text in enumerate(texts):
        rare = sorted(set(text), key=lambda token: -rank[token])[:2]
        if rare and rank[rare[0]] >= frequent:
            found[row, : len(rare)] = rare
    return found
