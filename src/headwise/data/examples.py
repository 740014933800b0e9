"""What a task is given: plain examples, whatever file or hub they come from."""

from dataclasses import dataclass

#: Universal part-of-speech tags, in the order of classifiers' outputs.
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)


@dataclass(frozen=True)
class TextExample:
    """One text with a label: an intent, a sentiment; without one it is a text to be predicted."""

    id: str
    text: str
    label: str = ""


@dataclass(frozen=True)
class PairExample:
    """Two texts with a label: premise and hypothesis, two paraphrases."""

    id: str
    first: str
    second: str
    label: str


@dataclass(frozen=True)
class WordExample:
    """A sentence in words with one label each: parts of speech, entities or slots in IOB2.

    Attributes:
        id: The same for the same sentence in every language of an aligned set.
        words: The words, as the data segment them.
        labels: One label for each word.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class TranslationExample:
    """A sentence and its translation."""

    id: str
    source: str
    target: str


@dataclass(frozen=True)
class Sentence:
    """A sentence with its dependency tree, as CoNLL-U gives it.

    Attributes:
        id: The sentence's `sent_id`.
        text: Its text.
        words: Its syntactic words; multiword tokens are not words.
        upos: Universal part of speech of each word.
        heads: Head of each word, counted from 1; 0 is the root.
        relations: Dependency relation of each word.
        entities: IOB2 label of each word (`O` where the file names none).
    """

    id: str
    text: str
    words: tuple[str, ...]
    upos: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    entities: tuple[str, ...]


Example = TextExample | PairExample | WordExample | TranslationExample
