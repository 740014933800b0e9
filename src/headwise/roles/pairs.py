"""Sentences that are read together with their translations, and the links between their words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headwise.data.aligner import Links, align_words
from headwise.data.dataset import Dataset
from headwise.data.examples import Example, Sentence, WordExample
from headwise.errors import FieldError
from headwise.heads import HeadMap
from headwise.roles.corpus import (
    Corpus,
    ModelKind,
    PairLinks,
    Read,
    encoder_heads,
    encoder_only,
    make_corpus,
    model_kind,
    most_tokens,
    word_pieces,
)
from headwise.tasks.causal import start_token
from headwise.tasks.encoding import Encoded, TokenInput, token_inputs

WithWords = Sentence | WordExample


@dataclass(frozen=True, eq=False)
class ParallelSentences:
    """Sentences, their translations and the links between their words.

    Attributes:
        first: The sentences.
        second: Their translations.
        links: Linked words of each pair, counted from 0 in each sentence, (links, 2) each.
    """

    first: tuple[WithWords, ...]
    second: tuple[WithWords, ...]
    links: tuple[Links, ...]


def language_pairs(pairs: str | Sequence[str], dataset: Dataset) -> dict[str, tuple[str, str]]:
    """The languages of each pair, such as `en-de`.

    Args:
        pairs: Pairs as a list or separated by commas; may be empty.
        dataset: The data set, which knows its languages.

    Raises:
        FieldError: A pair is not two languages of the data set, separated by a hyphen.
    """
    named = pairs.split(",") if isinstance(pairs, str) else pairs
    found = {}
    for pair in filter(None, (each.strip() for each in named)):
        halves = [(pair[:place], pair[place + 1 :]) for place, sign in enumerate(pair) if sign == "-"]
        known = [half for half in halves if half[0] != half[1] and set(half) <= set(dataset.languages)]
        if not known:
            raise FieldError(
                "pairs",
                f"{pair!r} is not a pair of languages of {dataset.name}: give two of "
                f"{', '.join(dataset.languages)}, such as {dataset.languages[0]}-{dataset.languages[-1]}",
            )
        found[pair] = known[0]
    return found


def parallel_sentences(
    dataset: Dataset, pair: tuple[str, str], split: str, limit: int | None = None
) -> ParallelSentences:
    """The sentences that two languages share, with links between their words by `align_words`.

    The aligner is trained on dev and test data together, or on training data if these are measured, so a limit does
    not change the links. Links between equal words (copies) and between words without a letter or digit are left out.

    Args:
        dataset: A treebank or other data with words.
        pair: The two languages.
        split: The split.
        limit: Maximum number of sentences, the first ones.

    Raises:
        HeadwiseError: The languages share no sentences, or the data have no words.
    """
    shared = dataset.aligned(pair, split)
    known = dataset.aligned(pair, "all") if split != "train" and "all" in dataset.splits else shared
    texts = [[_with_words(each, dataset).words for each in known[language]] for language in pair]
    links = dict(zip((each.id for each in known[pair[0]]), align_words(*texts), strict=True))
    first, second = (tuple(_with_words(each, dataset) for each in shared[language][:limit]) for language in pair)
    chosen = [
        np.array([link for link in links[one.id].tolist() if _translated(one.words[link[0]], other.words[link[1]])])
        for one, other in zip(first, second, strict=True)
    ]
    return ParallelSentences(first, second, tuple(each.reshape(-1, 2).astype(np.int64) for each in chosen))


def read_pairs(model: Any, heads: HeadMap, tokenizer: Any, sentences: ParallelSentences) -> Corpus:
    """Encode sentences together with their translations, as `tokenizer(first, second)` does.

    Words are split into pieces one by one. Causal models read the start token, a sentence, a line break and its
    translation. Of sequence-to-sequence models, only the encoder is measured. Of pairs that are too long, the ends of
    both sentences are cut.

    Args:
        model: The model.
        heads: Its head map.
        tokenizer: Its tokenizer.
        sentences: The sentences.
    """
    kind = model_kind(heads)
    frame = _causal_frame(tokenizer) if kind == "causal" else _pair_frame(tokenizer)
    pieces = zip(*(word_pieces(side, tokenizer) for side in (sentences.first, sentences.second)), strict=True)
    found, cut = _encode_pairs(list(pieces), sentences, frame, most_tokens(model))
    sizes = [(len(one.words), len(other.words)) for one, other in zip(sentences.first, sentences.second, strict=True)]
    pairs = tuple(
        PairLinks(first, second, _read_links(links + np.array([0, first]), words))
        for (first, second), links, (_, words) in zip(sizes, sentences.links, found, strict=True)
    )
    corpus = make_corpus(tokenizer, _for_kind(found, kind), cut, heads, (None,) * len(found))
    return replace(corpus, pairs=pairs, heads=encoder_heads(heads) if kind == "seq2seq" else heads)


@dataclass(frozen=True)
class _Frame:
    """The tokens around two texts, and other inputs as (before, first, between, second, after)."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    extra: tuple[TokenInput, ...] = ()

    def join(self, first: tuple[int, ...], second: tuple[int, ...]) -> Encoded:
        """The tokens of a pair."""
        ids = (*self.before, *first, *self.between, *second, *self.after)
        sizes = (len(self.before), len(first), len(self.between), len(second), len(self.after))
        extra = tuple(
            replace(each, values=tuple(v for v, size in zip(each.values, sizes, strict=True) for _ in range(size)))
            for each in self.extra
        )
        return Encoded(ids, (), (0,), extra=extra)


def _pair_frame(tokenizer: Any) -> _Frame:
    """The special tokens that a tokenizer puts around and between two texts."""
    one, other = (tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in ("a", "b"))
    tokens = tokenizer(["a"], ["b"])
    ids = tuple(tokens["input_ids"][0])
    start = next(i for i in range(len(ids)) if ids[i : i + len(one)] == one)
    middle = next(i for i in range(start + len(one), len(ids)) if ids[i : i + len(other)] == other)
    ends = (start, start + len(one), middle, middle + len(other), len(ids))
    extra = tuple(
        # One value for each of the five parts; of an empty part, any value.
        replace(each, values=tuple(each.values[min(place, len(ids) - 1)] for place in (0, *ends[:-1])))
        for each in token_inputs(tokens, 0, tokenizer)
    )
    return _Frame(ids[:start], ids[ends[1] : middle], ids[ends[3] :], extra)


def _causal_frame(tokenizer: Any) -> _Frame:
    line_break = tuple(tokenizer("\n", add_special_tokens=False)["input_ids"])
    return _Frame((start_token(tokenizer),), line_break, ())


def _encode_pairs(
    pieces: Sequence[tuple[list[tuple[int, int]], list[tuple[int, int]]]],
    sentences: ParallelSentences,
    frame: _Frame,
    longest: int,
) -> tuple[list[Read], int]:
    """The pairs in tokens with the words of the tokens, and the number of pairs that were cut."""
    outside = tuple((-1,) * len(part) for part in (frame.before, frame.between, frame.after))
    room = longest - sum(map(len, outside))
    found: list[Read] = []
    cut = 0
    for sentence, (one, other) in zip(sentences.first, pieces, strict=True):
        if len(one) + len(other) > room:
            cut += 1
            one = one[: max(room - len(other), room // 2)]
            other = other[: room - len(one)]
        encoded = frame.join(tuple(piece for piece, _ in one), tuple(piece for piece, _ in other))
        first, second = tuple(word for _, word in one), tuple(word + len(sentence.words) for _, word in other)
        found.append((encoded, (*outside[0], *first, *outside[1], *second, *outside[2])))
    return found, cut


def _for_kind(found: list[Read], kind: ModelKind) -> list[Read]:
    return encoder_only(found) if kind == "seq2seq" else found


def _read_links(links: Links, words: tuple[int, ...]) -> Links:
    """The links between words that have pieces."""
    return links[np.isin(links, words).all(1)]


def _with_words(example: Example, dataset: Dataset) -> WithWords:
    if not isinstance(example, WithWords):
        raise FieldError("pairs", f"{dataset.name} has no words to align: use a treebank or data with tagged words")
    return example


def _translated(one: str, other: str) -> bool:
    """Whether two words are different, and both have a letter or digit."""
    return one.casefold() != other.casefold() and all(any(map(str.isalnum, word)) for word in (one, other))
