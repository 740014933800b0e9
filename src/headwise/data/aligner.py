"""Word alignment by IBM model 1 (Brown et al., 1993), trained on the parallel sentences themselves."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Rounds of expectation maximisation.
ROUNDS = 10
#: A link needs a probability above this number, in both directions.
CERTAIN = 0.5

Ids = NDArray[np.int64]
#: Pairs of a word of the first and a word of the second sentence, counted from 0, (links, 2).
Links = NDArray[np.int64]


def align_words(first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> tuple[Links, ...]:
    """Align the words of sentences with those of their translations.

    IBM model 1 with an empty word is trained in both directions. Two words are linked if both directions give the link
    a probability above `CERTAIN`, so a word has at most one link. Upper and lower case are the same.

    Args:
        first: The words of each sentence.
        second: The words of each translation.

    Example:
        >>> english = [["the", "house"], ["the", "book"], ["a", "book"]]
        >>> german = [["das", "Haus"], ["das", "Buch"], ["ein", "Buch"]]
        >>> [links.tolist() for links in align_words(english, german)]
        [[[0, 0], [1, 1]], [[0, 0], [1, 1]], [[0, 0], [1, 1]]]
    """
    sides = [_numbered(side) for side in (first, second)]
    forward, backward = _posteriors(sides[0], sides[1]), _posteriors(sides[1], sides[0])
    return tuple(
        np.argwhere((to_second.T > CERTAIN) & (to_first > CERTAIN))
        for to_second, to_first in zip(forward, backward, strict=True)
    )


def model_1(occurrence: Ids, target: Ids, source: Ids) -> NDArray[np.float64]:
    """The probabilities of candidates for links by IBM model 1, (candidates,).

    Args:
        occurrence: For each candidate, the number of the word in the texts that is to be explained; the probabilities
            of its candidates sum to 1.
        target: The id of this word.
        source: The id of a word of the other text that may explain it; -1 is the empty word.
    """
    entries, entry = np.unique((source + 1) * (target.max() + 1) + target, return_inverse=True)
    _, source_of = np.unique(entries // (target.max() + 1), return_inverse=True)
    probability = np.ones(len(entries))
    posterior = probability[entry] / np.bincount(occurrence, probability[entry])[occurrence]
    for _ in range(ROUNDS):
        counts = np.bincount(entry, posterior)
        probability = counts / np.bincount(source_of, counts)[source_of]
        posterior = probability[entry] / np.bincount(occurrence, probability[entry])[occurrence]
    return np.asarray(posterior)


def _numbered(texts: Sequence[Sequence[str]]) -> list[Ids]:
    ids: dict[str, int] = {}
    return [np.array([ids.setdefault(word.casefold(), len(ids)) for word in text], dtype=np.int64) for text in texts]


def _posteriors(sources: Sequence[Ids], targets: Sequence[Ids]) -> list[NDArray[np.float64]]:
    """The probability that a word of the target is explained by a word of the source, (target, source) each."""
    sizes = [len(source) + 1 for source in sources]  # with the empty word
    widths = np.repeat(sizes, [len(target) for target in targets])
    if not len(widths):
        return [np.zeros((len(target), len(source))) for source, target in zip(sources, targets, strict=True)]
    found = model_1(
        np.repeat(np.arange(len(widths)), widths),
        np.repeat(np.concatenate(targets), widths),
        np.concatenate([np.tile([-1, *source], len(target)) for source, target in zip(sources, targets, strict=True)]),
    )
    ends = np.cumsum([size * len(target) for size, target in zip(sizes, targets, strict=True)])
    return [
        part.reshape(len(target), size)[:, 1:]
        for part, target, size in zip(np.split(found, ends[:-1]), targets, sizes, strict=True)
    ]
