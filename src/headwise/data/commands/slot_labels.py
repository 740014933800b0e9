"""Splits sentences into words and labels the words with their slots in IOB2."""

import re
import unicodedata
from collections.abc import Iterator

from headwise.data.commands.sentences import Utterance

SPACED = re.compile(r"\S+")

#: Without spaces between words, every character is a word; numbers and Latin words are kept whole.
UNSPACED = re.compile(r"[0-9a-z]+|\S")


def labelled(sentence: Utterance, spaced: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a sentence and their labels; a word in two slots has the label of the first.

    Example:
        >>> sentence = Utterance("heat the living room", ((9, 20, "area"),), "heat the {area}")
        >>> labelled(sentence, spaced=True)
        (('heat', 'the', 'living', 'room'), ('O', 'O', 'B-area', 'I-area'))
    """
    words, labels = [], []
    for start, end in _bounds(sentence.text, spaced):
        span = next((span for span in sentence.spans if span[0] < end and start < span[1]), None)
        words.append(sentence.text[start:end])
        labels.append("O" if span is None else f"{'B' if span[0] >= start else 'I'}-{span[2]}")
    return tuple(words), tuple(labels)


def _bounds(text: str, spaced: bool) -> Iterator[tuple[int, int]]:
    """Return the start and end of each word."""
    pending: tuple[int, int] | None = None
    for match in (SPACED if spaced else UNSPACED).finditer(text):
        # A vowel or tone sign belongs to the character before it.
        if pending and not spaced and unicodedata.category(match.group()[0]) == "Mn" and pending[1] == match.start():
            pending = (pending[0], match.end())
            continue
        if pending:
            yield pending
        pending = match.span()
    if pending:
        yield pending
