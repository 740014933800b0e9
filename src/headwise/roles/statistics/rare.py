"""Attention to the least frequent tokens or words of a sentence (Voita et al., 2019, §5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise.architectures import Stack
from headwise.errors import FieldError
from headwise.roles.attention import BatchTokens, SiteAttention, top_in
from headwise.roles.corpus import Corpus
from headwise.roles.statistics.base import ALL, SELF, Column, Statistic
from headwise.support.extras import require

#: Sentences whose least frequent token is among this number of most frequent tokens are not counted.
FREQUENT = 500
COLUMNS = (Column("rare:1"), Column("rare:2"))


class _Rarest:
    """Hits of the rarest token or word of a sentence, and of the two rarest."""

    def measure(self, site: SiteAttention) -> tuple[Tensor, Tensor]:
        """The number of hits, (rows, heads, 2), and of tokens that see such a token or word, (rows, 2)."""
        found = [top_in(site, site.top_text, mask) for mask in (self._rarest, self._two_rarest)]
        return torch.stack([hits for hits, _ in found], -1), torch.stack([counts for _, counts in found], -1)

    # Methods rather than closures: a mask is computed once for all sites, and is found again by its function.
    def _rarest(self, batch: BatchTokens) -> Tensor:
        return self._mask(batch, 1)

    def _two_rarest(self, batch: BatchTokens) -> Tensor:
        return self._mask(batch, 2)

    def _mask(self, batch: BatchTokens, number: int) -> Tensor:
        """The pairs of queries and keys whose key is among a number of rarest ones."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RareTokens(_Rarest):
    """How often the largest weight on the text is on the least frequent token, or on one of the two least frequent.

    Frequencies are those of the examples. Of equally frequent tokens, the one with the higher id counts as rarer:
    vocabularies list frequent tokens first.

    Attributes:
        source: The least frequent tokens of each example, the rarest first; -1 if there is none, (examples, 2).
        target: The same for translations.
    """

    stacks: ClassVar[tuple[Stack, ...]] = ALL
    columns: ClassVar[tuple[Column, ...]] = COLUMNS

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

    def _mask(self, batch: BatchTokens, number: int) -> Tensor:
        rare = (self.target if batch.reads_target else self.source)[batch.index.cpu(), :number]
        same = batch.tokens.key_ids[..., None] == rare.to(batch.tokens.key_ids.device)[:, None]  # (rows, keys, number)
        return batch.text_pairs & same.any(-1)[:, None]


@dataclass(frozen=True, eq=False)
class RareWords(_Rarest):
    """The same for words by general frequencies: how often the largest weight on the text is on a piece of such a word.

    Attributes:
        rarest: The two rarest words of each example, -1 if there is none, (examples, 2).
        words: The word of each token of each example, -2 for special tokens and padding, (examples, tokens).
    """

    stacks: ClassVar[tuple[Stack, ...]] = SELF
    columns: ClassVar[tuple[Column, ...]] = COLUMNS

    rarest: Tensor
    words: Tensor

    @classmethod
    def of(cls, rarest: Sequence[Sequence[int]], words: Sequence[Sequence[int]]) -> "RareWords":
        """The statistic for examples whose rarest words are known; `words` has -1 for special tokens."""
        padded = pad_sequence([torch.tensor(each) for each in words], batch_first=True, padding_value=-1)
        return cls(torch.tensor(rarest), torch.where(padded < 0, -2, padded))

    def _mask(self, batch: BatchTokens, number: int) -> Tensor:
        index = batch.index.cpu()
        words = self.words[index, : batch.tokens.key_ids.shape[1], None]
        same = (words == self.rarest[index, None, :number]).any(-1)  # (rows, keys)
        return batch.text_pairs & same.to(batch.text_pairs.device)[:, None]


def rare_statistic(corpus: Corpus) -> Statistic:
    """The statistic for the examples of a language, by the frequencies of the corpus."""
    return RareTokens.of(corpus) if corpus.rarest is None else RareWords.of(corpus.rarest, corpus.words)


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


def rarest_words(texts: Sequence[Sequence[str]], language: str) -> tuple[tuple[int, int], ...]:
    """The numbers of the two rarest words of each text by the frequencies of the package `wordfreq`, the rarest first.

    Words without a letter or digit do not count. Words that the package does not know are the rarest; of equally rare
    words, the first one of the text is taken. Texts whose rarest word is at least as frequent as the package's word
    number `FREQUENT` have -1, and so have texts without a second word.

    Args:
        texts: The words of each text.
        language: The language.

    Raises:
        FieldError: The package has no frequencies of the language, or lacks a package for it.
        MissingPackageError: The package is not installed.

    Example:
        >>> rarest_words([["the", "armadillo", "sleeps"], ["this", "is", "the"], ["armadillo", "!"]], "en")
        ((1, 2), (-1, -1), (0, -1))
    """
    package = require("wordfreq", "wordfreq", "frequencies='wordfreq'")
    code = language.partition("_")[0]  # further corpora of a language are named such as zh_gsd
    if code not in package.available_languages():
        raise FieldError("frequencies", f"wordfreq has no frequencies of {language!r}: use 'data'")
    try:
        found = [[package.word_frequency(word, code) for word in text] for text in texts]
        frequent = package.word_frequency(package.top_n_list(code, FREQUENT)[-1], code)
    except ModuleNotFoundError as error:
        reason = f"the frequencies of {language!r} need the package {error.name}: pip install 'headwise[wordfreq]'"
        raise FieldError("frequencies", reason) from None
    return tuple(_two_rarest(text, values, frequent) for text, values in zip(texts, found, strict=True))


def _two_rarest(text: Sequence[str], frequencies: Sequence[float], frequent: float) -> tuple[int, int]:
    words = [number for number, word in enumerate(text) if any(map(str.isalnum, word))]
    first, second, *_ = (*sorted(words, key=lambda number: frequencies[number]), -1, -1)
    return (first, second) if first >= 0 and frequencies[first] < frequent else (-1, -1)
