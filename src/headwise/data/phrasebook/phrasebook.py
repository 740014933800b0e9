"""`phrasebook`: the same 260 sentences in several languages, with parts of speech, trees and entities."""

from functools import cache
from importlib.resources import as_file, files
from typing import Literal, get_args

from headwise.data.conllu import entity_examples, pos_examples, read_conllu
from headwise.data.dataset import Dataset
from headwise.data.examples import Sentence, WordExample
from headwise.errors import HeadwiseError

Task = Literal["pos", "ner"]

LANGUAGES = ("en", "de", "fr", "es", "ru", "tr", "ar", "hi", "zh", "ja", "ko", "th", "vi", "sw")
SPLITS = ("dev", "test", "all")


def open_phrasebook(task: Task) -> Dataset:
    """Open the phrasebook for one task.

    The splits are fixed halves: items with odd numbers are `dev`, for scoring, and items with even numbers are `test`,
    for evaluation; `all` is both. An item is in the same half in every language.

    Args:
        task: `pos` for parts of speech, `ner` for entities in IOB2 (PER, ORG, LOC, MISC).

    Raises:
        HeadwiseError: The phrasebook has no such task.

    Example:
        >>> first, *rest = open_phrasebook("pos").examples("en", "dev")
        >>> first.words, len(rest)
        (('Is', 'the', 'museum', 'near', 'the', 'station', '?'), 129)
    """
    if task not in get_args(Task):
        raise HeadwiseError(f"phrasebook has no task {task!r}: choose one of {', '.join(get_args(Task))}")

    def load(language: str, split: str) -> tuple[WordExample, ...]:
        chosen = _sentences(language, split)
        return pos_examples(chosen) if task == "pos" else entity_examples(chosen)

    return Dataset("phrasebook", LANGUAGES, SPLITS, load)


def open_phrasebook_trees() -> Dataset:
    """Open the phrasebook as sentences with their trees; languages and splits are those of `open_phrasebook`.

    Example:
        >>> first = open_phrasebook_trees().examples("en", "dev")[0]
        >>> list(zip(first.words, first.heads, first.relations))[2]
        ('museum', 6, 'nsubj')
    """
    return Dataset("phrasebook", LANGUAGES, SPLITS, _sentences)


def _sentences(language: str, split: str) -> tuple[Sentence, ...]:
    return tuple(sentence for sentence in phrasebook_sentences(language) if split in ("all", _half(sentence)))


@cache
def phrasebook_sentences(language: str) -> tuple[Sentence, ...]:
    """Return the sentences of one language with their trees, in the same order in all languages.

    Raises:
        HeadwiseError: The phrasebook has no such language.

    Example:
        >>> phrasebook_sentences("de")[0].text
        'Liegt das Museum in der Nähe des Bahnhofs?'
    """
    if language not in LANGUAGES:
        raise HeadwiseError(f"phrasebook has no language {language!r}: it has {', '.join(LANGUAGES)}")
    with as_file(files("headwise.data.phrasebook") / f"{language}.conllu") as path:
        return read_conllu(path)


def _half(sentence: Sentence) -> str:
    """Return the split of a sentence; ids end in a running number."""
    return "dev" if int(sentence.id.rpartition("-")[2]) % 2 else "test"
