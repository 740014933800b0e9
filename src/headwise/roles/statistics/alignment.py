"""Attention between words and their translations, in sentences that are read together (Held & Yang, 2023, figure 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headwise.architectures import Stack
from headwise.roles.attention import BatchTokens, SiteAttention, word_attention, word_members
from headwise.roles.corpus import Corpus, PairLinks
from headwise.roles.statistics.base import SELF, Column

DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True, eq=False)
class Alignment:
    """How much words attend to their translations: from the first sentence to the second (`forward`), and backward.

    Words are linked as `headwise.data.aligner` says. Pieces are merged to words as for syntax.

    Attributes:
        columns: For each direction: `alignment:link`, how often the largest attention to a word of the other sentence
            is to the linked word, with the accuracy of the diagonal as the baseline; `alignment:top`, the same among
            the words of both sentences; `alignment:weight`, the attention to the linked word; `alignment:shuffled`, the
            mean attention to a word of the other sentence, which is what links to random words would give.
        words: The word of each token of each pair, -1 for tokens that are not words.
        pairs: The links of each pair.
    """

    stacks: ClassVar[tuple[Stack, ...]] = SELF

    columns: tuple[Column, ...]
    words: tuple[tuple[int, ...], ...]
    pairs: tuple[PairLinks, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> "Alignment":
        """The statistic for the sentences of two languages."""
        diagonal = [_diagonal(corpus.pairs, backward) for backward in (False, True)]
        nothing = [float("nan")] * 2
        kinds = {"link": diagonal, "top": diagonal, "weight": nothing, "shuffled": nothing}
        columns = tuple(
            Column(f"alignment:{name}:{direction}", baseline=baseline)
            for name, baselines in kinds.items()
            for direction, baseline in zip(DIRECTIONS, baselines, strict=True)
        )
        return cls(columns, corpus.words, corpus.pairs)

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The sums over linked words, (rows, heads, columns), and the numbers of linked words, (rows, columns)."""
        words = site.batch.once(self._words)
        attention = word_attention(site.weights, words.members)  # (rows, heads, words, words)
        linked, other = words.linked[:, None], words.other[:, None]
        across = attention * other
        found = torch.stack(
            [
                _hits(across, linked),
                _hits(attention, linked),
                (attention * linked).sum(-1),
                across.sum(-1) / other.sum(-1).clamp(min=1),
            ],
            dim=2,
        )  # (rows, heads, kinds, words)
        sums = torch.einsum("rhkw,rwd->rhkd", found, words.counted.to(found.dtype))
        counts = words.counted.sum(1)  # (rows, directions)
        return sums.flatten(2), counts.repeat(1, found.shape[2])

    def _words(self, batch: BatchTokens) -> "_Words":
        """The words of a batch and their links."""
        members = word_members(self.words, batch)
        rows, size, _ = members.shape
        linked = torch.zeros(rows, size, size, dtype=torch.bool)
        second = torch.zeros(rows, size, dtype=torch.bool)
        for row, example in enumerate(batch.index.tolist()):
            pair = self.pairs[example]
            one, other = torch.from_numpy(pair.links).T
            linked[row, one, other] = linked[row, other, one] = True
            second[row, pair.first :] = True
        linked, second, present = linked.to(members.device), second.to(members.device), members.any(-1)
        across = (second[:, :, None] != second[:, None]) & present[:, :, None] & present[:, None]
        if batch.stack == "decoder":  # words of the first sentence do not see the second
            across = across.tril()
        linked = linked & across
        used = linked.any(-1)
        return _Words(members, linked, across, torch.stack([used & ~second, used & second], -1))


@dataclass(frozen=True, eq=False)
class _Words:
    """The words of a batch.

    Attributes:
        members: Whether a token is a piece of a word, (rows, words, tokens).
        linked: Whether two words are linked and the second one is visible, (rows, words, words).
        other: Whether a word is in the other sentence and visible, (rows, words, words).
        counted: Whether a word counts for a direction, (rows, words, directions).
    """

    members: Tensor
    linked: Tensor
    other: Tensor
    counted: Tensor


def _hits(attention: Tensor, linked: Tensor) -> Tensor:
    """Whether the largest attention of each word is to a linked word, (rows, heads, words)."""
    weight, word = attention.max(-1, keepdim=True)
    found = linked.expand_as(attention).gather(-1, word) & (weight > 0)
    return found[..., 0].to(attention.dtype)


def _diagonal(pairs: Sequence[PairLinks], backward: bool) -> float:
    """How often the word at the same relative position is the linked one."""
    hits = total = 0
    for pair in pairs:
        links = {(one, other - pair.first) for one, other in pair.links.tolist()}
        sizes = (pair.second, pair.first) if backward else (pair.first, pair.second)
        links = {(other, one) for one, other in links} if backward else links
        scale = (sizes[1] - 1) / max(sizes[0] - 1, 1)
        attending = {one for one, _ in links}
        hits += sum((one, int(one * scale + 0.5)) in links for one in attending)
        total += len(attending)
    return hits / total if total else float("nan")
