"""Cuts sentences into words and labels them with their slots in IOB2."""

import re
import unicodedata
from collections.abc import Iterator

from headwise.data.commands.sentences import Utterance

SPACED = re.compile(r"\S+")

#: Where words are not spaced, a word is a character; numbers and foreign words stay whole.
UNSPACED = re.compile(r"[0-9a-z]+|\S")


def labelled(sentence: Utterance, spaced: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a sentence and their labels; a word that holds the beginnings of two slots has the first's.

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
    """Start and end of each word."""
    pending: tuple[int, int] | None = None
    for match in (SPACED if spaced else UNSPACED).finditer(text):
        # A vowel or tone sign is no character of its own: it belongs to the one before.
        if pending and not spaced and unicodedata.category(match.group()[0]) == "Mn" and pending[1] == match.start():
            pending = (pending[0], match.end())
            continue
        if pending:
            yield pending
        pending = match.span()
    if pending:
        yield pending
