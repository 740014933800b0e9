"""Does a model answer in the language of the prompt? The same answer in two languages, as a choice."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

from headwise.data.dataset import Dataset
from headwise.data.examples import ChoiceExample, Example, PromptExample, TextExample
from headwise.errors import HeadwiseError

#: Name of the task.
ANSWER_LANGUAGE = "answer-language"
#: The language that models usually answer in by mistake: its pairs are those of `--languages all`.
_USUAL = "en"


def answer_language(texts: Dataset) -> Dataset:
    """Prompts with their continuation in the language asked for (choice 0) and in another language (choice 1).

    The languages of the result are pairs: `sw-en` asks for Swahili, and English is wrong. The items of both languages
    must be the same. A prompt with its continuation is taken as it is. A text is cut near its middle: the first part is
    the prompt, the second part is the continuation, and the wrong continuation is the second part of the same text in
    the other language.

    Args:
        texts: Prompts with continuations, or texts, in at least two languages.

    Raises:
        HeadwiseError: There are fewer than two languages.

    Example:
        >>> texts = {"en": "My name is Anna and I live here.", "sw": "Jina langu ni Anna na ninaishi hapa."}
        >>> data = Dataset("texts", ("en", "sw"), ("test",), lambda code, split: (TextExample("1", texts[code]),))
        >>> data = answer_language(data)
        >>> data.languages
        ('en-sw', 'sw-en')
        >>> [example] = data.examples("sw-en", "test")
        >>> example.context, example.choices, example.answer
        ('Jina langu ni Anna', ('na ninaishi hapa.', 'and I live here.'), 0)
    """
    languages = [code for code in texts.languages if code not in texts.variants]
    if len(languages) < 2:
        raise HeadwiseError(
            f"{texts.name}: the task {ANSWER_LANGUAGE!r} needs the same items in at least two languages, not only in "
            f"{', '.join(languages)}"
        )
    pairs = {f"{asked}-{wrong}": (asked, wrong) for asked, wrong in permutations(languages, 2)}
    unusual = tuple(name for name, pair in pairs.items() if _USUAL in languages and _USUAL not in pair)
    cached = replace(texts, load=functools.cache(texts.load))
    return replace(
        texts,
        languages=tuple(pairs),
        load=functools.partial(_load, cached, pairs),
        variants=unusual,
        task=ANSWER_LANGUAGE,
    )


def asked_language(pair: str) -> str:
    """The language that is asked for: the first one of a pair.

    Example:
        >>> asked_language("sw-en"), asked_language("de")
        ('sw', 'de')
    """
    return pair.partition("-")[0]


def prompts_of(examples: Sequence[Example]) -> list[PromptExample]:
    """The prompts of examples of the task, with their continuations in the language asked for."""
    return [
        PromptExample(each.id, each.context, each.choices[each.answer], each.separator)
        for each in examples
        if isinstance(each, ChoiceExample)
    ]


def base_task(name: str) -> str:
    """The task that data with this name are opened for: prompts in tables of your own, otherwise plain texts."""
    return "continuation" if Path(name.removesuffix(".gz")).suffix in (".csv", ".tsv", ".jsonl", ".json") else "lm"


def _load(texts: Dataset, pairs: Mapping[str, tuple[str, str]], pair: str, split: str) -> tuple[Example, ...]:
    asked, wrong = pairs[pair]
    aligned = texts.aligned([asked, wrong], split)
    return tuple(_choice(*both) for both in zip(aligned[asked], aligned[wrong], strict=True))


def _choice(own: Example, other: Example) -> ChoiceExample:
    one, two = _parts(own), _parts(other)
    return ChoiceExample(one.id, one.prompt, (one.continuation, two.continuation), 0, one.separator)


def _parts(example: Example) -> PromptExample:
    match example:
        case PromptExample():
            return example
        case TextExample():
            first, separator, second = _halves(example.text)
            return PromptExample(example.id, first, second, separator)
    raise HeadwiseError(f"the task {ANSWER_LANGUAGE!r} needs texts, or prompts with continuations")


def _halves(text: str) -> tuple[str, str, str]:
    """A text cut at the space nearest to its middle, or at its middle if it has no space: first, separator, second.

    Example:
        >>> _halves("one two three"), _halves("你好世界")
        (('one two', ' ', 'three'), ('你好', '', '世界'))
    """
    text = text.strip()
    spaces = [place for place, sign in enumerate(text) if sign == " "]
    if not spaces:
        return text[: len(text) // 2], "", text[len(text) // 2 :]
    middle = min(spaces, key=lambda place: abs(place - len(text) / 2))
    return text[:middle].rstrip(), " ", text[middle + 1 :].lstrip()
