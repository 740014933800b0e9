"""Examples of the tasks, independent of the file or hub that they come from."""

from dataclasses import dataclass, field

#: Universal part-of-speech tags, in the order of classifiers' outputs.
UPOS = (
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
)


@dataclass(frozen=True)
class TextExample:
    """One text with a label, such as an intent; without a label, a text for language modelling, or unlabelled data."""

    id: str
    text: str
    label: str = ""


@dataclass(frozen=True)
class PairExample:
    """Two texts with a label, such as premise and hypothesis; the label of unlabelled data is empty."""

    id: str
    first: str
    second: str
    label: str


@dataclass(frozen=True)
class WordExample:
    """The words of a sentence, each with a label: a part of speech, or an entity or slot in IOB2.

    Attributes:
        id: The id; equal for the same sentence in every language of an aligned set.
        words: The words, segmented as in the data.
        labels: One label for each word; none for unlabelled data.
    """

    id: str
    words: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class TranslationExample:
    """A sentence and its translation.

    Attributes:
        id: The same for the same item in every language of an aligned set.
        source: The sentence.
        target: Its translation.
        pair: The languages of both, such as `en-sw`; a data set sets it. Only models of many languages need it.
    """

    id: str
    source: str
    target: str
    pair: str = field(default="", repr=False)


@dataclass(frozen=True)
class ChoiceExample:
    """A text and several continuations, of which one is right.

    Attributes:
        id: The same for the same item in every language of an aligned set.
        context: The text before the continuation.
        choices: The continuations.
        answer: The number of the right one, counted from 0.
        separator: Text between the context and a continuation; by default a space, or nothing after an empty context.
        contexts: One context per choice, instead of `context`; empty if all choices have the same.
    """

    id: str
    context: str
    choices: tuple[str, ...]
    answer: int
    separator: str | None = None
    contexts: tuple[str, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The context of each choice, and the continuation with its separator.

        Example:
            >>> ChoiceExample("1", "Two and two are", ("four.", "five."), 0).pairs
            (('Two and two are', ' four.'), ('Two and two are', ' five.'))
        """
        contexts = self.contexts or (self.context,) * len(self.choices)
        return tuple(
            (context, _separator(self.separator, context) + choice)
            for context, choice in zip(contexts, self.choices, strict=True)
        )


@dataclass(frozen=True)
class PromptExample:
    """A prompt and the continuation whose likelihood is measured.

    Attributes:
        id: The same for the same item in every language of an aligned set.
        prompt: The text before the continuation; may be empty.
        continuation: The continuation.
        separator: Text between the two; by default a space, or nothing after an empty prompt.
    """

    id: str
    prompt: str
    continuation: str
    separator: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """The prompt, and the continuation with its separator."""
        return self.prompt, _separator(self.separator, self.prompt) + self.continuation


def _separator(separator: str | None, context: str) -> str:
    return separator if separator is not None else " " if context else ""


@dataclass(frozen=True)
class Sentence:
    """A sentence with its dependency tree, as in CoNLL-U.

    Attributes:
        id: The sentence's `sent_id`.
        text: Its text.
        words: Its syntactic words; multiword tokens are not words.
        upos: The universal part of speech of each word.
        heads: The head of each word, counted from 1; 0 is the root.
        relations: The dependency relation of each word.
        entities: The IOB2 label of each word (`O` if the file has none).
    """

    id: str
    text: str
    words: tuple[str, ...]
    upos: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    entities: tuple[str, ...]


Example = TextExample | PairExample | WordExample | TranslationExample | ChoiceExample | PromptExample | Sentence
