"""Attention between words in a dependency relation (Voita et al., 2019, §5.2), with pieces merged to words."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.architectures import Stack
from headwise.data.examples import Sentence
from headwise.roles.attention import BatchTokens, SiteAttention, word_attention, word_members
from headwise.roles.corpus import Corpus
from headwise.roles.statistics.base import SELF, Column

#: Edges of an example: dependent, head and number of the relation, (edges, 3).
Edges = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Syntax:
    """How often the largest attention of a word goes to a word in a given relation with it, in each direction.

    The attention of a word to a word is the sum over the pieces of the attended word and the mean over the pieces of
    the attending word (Clark et al., 2019). Special tokens are not words. Subtypes of relations are merged
    (`nsubj:pass` is `nsubj`). A word with several dependents of one relation counts once.

    Attributes:
        columns: `syntax:nsubj:head` (from a subject to its verb), `syntax:nsubj:dependent` (from a verb to its
            subject), and so on; the baseline is the accuracy of always choosing the relation's most frequent offset.
        edges: The edges of each example.
        words: The word of each token of each example, -1 for special tokens.
    """

    stacks: ClassVar[tuple[Stack, ...]] = SELF

    columns: tuple[Column, ...]
    edges: tuple[Edges, ...]
    words: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, corpus: Corpus) -> "Syntax":
        """The statistic for the examples of a language; without trees, it has no columns."""
        trees = [None if each is None else _edges_of(each, words) for each, words in zip(
            corpus.sentences, corpus.words, strict=True)]  # fmt: skip
        relations = sorted({relation for tree in trees if tree for *_, relation in tree})
        number = {relation: place for place, relation in enumerate(relations)}
        edges = tuple(
            np.array([(one, other, number[relation]) for one, other, relation in tree or ()], dtype=np.int64).reshape(
                -1, 3
            )
            for tree in trees
        )
        return cls(_columns(relations, edges), edges, corpus.words)

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The number of hits, (rows, heads, columns), and of words that are in the relation, (rows, columns)."""
        graph = site.batch.once(self._graph)
        rows, heads, width = len(site.batch.index), site.weights.shape[1], len(self.columns)
        if not len(graph.place):
            return site.weights.new_zeros(rows, heads, width), graph.counts
        weight, word = word_attention(site.weights, graph.members).max(-1)
        top = torch.where(weight > 0, word, -1).transpose(1, 2)  # (rows, words, heads)
        hits = top[graph.row, graph.attending] == graph.attended[:, None]  # (pairs, heads)
        sums = torch.zeros(rows * width, heads, dtype=torch.long, device=hits.device)
        sums.index_add_(0, graph.place, hits.long())
        return sums.view(rows, width, heads).transpose(1, 2), graph.counts

    def _graph(self, batch: BatchTokens) -> "_Graph":
        """The words and the pairs of words of a batch."""
        device, width = batch.tokens.key_ids.device, len(self.columns)
        chosen = batch.index.tolist()
        row = np.repeat(np.arange(len(chosen)), [len(self.edges[example]) for example in chosen])
        one, other, relation = np.concatenate([self.edges[example] for example in chosen]).T
        # Columns of a relation are adjacent: from dependents to heads, then from heads to dependents.
        upwards, downwards = row * width + 2 * relation, row * width + 2 * relation + 1
        queries = np.unique(np.stack([downwards, other]), axis=1)[0]  # each head once for each of its relations
        counts = np.bincount(np.concatenate([upwards, queries]), minlength=len(chosen) * width)
        return _Graph(
            members=word_members(self.words, batch),
            row=_joined(row, row).to(device),
            attending=_joined(one, other).to(device),
            attended=_joined(other, one).to(device),
            place=_joined(upwards, downwards).to(device),
            counts=torch.from_numpy(counts).view(-1, width).to(device),
        )


@dataclass(frozen=True, eq=False)
class _Graph:
    """The words of a batch and its pairs of related words.

    Attributes:
        members: Whether a token is a piece of a word, (rows, words, tokens).
        row: Row of each pair, (pairs,).
        attending: The attending word of each pair, (pairs,).
        attended: The attended word of each pair, (pairs,).
        place: Row times the number of columns plus column of each pair, (pairs,).
        counts: Number of words in each relation and direction, (rows, columns).
    """

    members: Tensor
    row: Tensor
    attending: Tensor
    attended: Tensor
    place: Tensor
    counts: Tensor


def _joined(one: NDArray[np.int64], other: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(np.concatenate([one, other]))


def _edges_of(sentence: Sentence, words: tuple[int, ...]) -> list[tuple[int, int, str]]:
    """Dependent, head and relation of each word except the root, if both words have pieces."""
    read = set(words)
    return [
        (word, head - 1, relation.partition(":")[0])
        for word, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
        if head and word in read and head - 1 in read
    ]


def _columns(relations: list[str], edges: tuple[Edges, ...]) -> tuple[Column, ...]:
    """Both columns of each relation with their baselines."""
    offsets: list[Counter[int]] = [Counter() for _ in relations]
    heads = Counter[int]()
    for tree in edges:
        for one, other, relation in tree.tolist():
            offsets[relation][other - one] += 1
        heads.update(relation for _, relation in {(other, relation) for _, other, relation in tree.tolist()})
    found = []
    for number, relation in enumerate(relations):
        most = max(offsets[number].values())
        found.append(Column(f"syntax:{relation}:head", baseline=most / offsets[number].total()))
        found.append(Column(f"syntax:{relation}:dependent", baseline=most / heads[number]))
    return tuple(found)
