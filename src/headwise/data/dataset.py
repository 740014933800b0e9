"""A set of examples in several languages, loaded language by language and split by split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headwise.data.examples import Example, TranslationExample
from headwise.data.ids import identifies_item
from headwise.data.languages import check_code
from headwise.errors import HeadwiseError


@dataclass(frozen=True)
class Dataset:
    """Examples of one task in several languages.

    Attributes:
        name: The name that is shown with results.
        languages: The codes of its languages.
        splits: The names of its splits, such as `train`, `dev`, `test`.
        load: Returns the examples of a language and a split.
        note: A remark that is shown wherever results on the data set are shown; may be empty.
        variants: Those of `languages` that are not part of `--languages all`: further corpora of a language, such as
            `en_ewt` beside `en`, and pairs of languages without English.
        task: The task that it was opened for.
        source: What `open_dataset` opened, such as a folder, so that a run folder can open it again; empty for data
            made in Python.

    Raises:
        HeadwiseError: A language code is not valid (files are named after it).

    Example:
        >>> from headwise.data.examples import TextExample
        >>> hello = {"en": "hello", "sw": "habari"}
        >>> greetings = Dataset("greetings", ("en", "sw"), ("test",),
        ...                     lambda language, split: (TextExample("1", hello[language], "greet"),))
        >>> " ".join(example.text for (example,) in greetings.aligned(["sw", "en"], "test").values())
        'habari hello'
    """

    name: str
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    load: Callable[[str, str], tuple[Example, ...]]
    note: str = ""
    variants: tuple[str, ...] = ()
    task: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        for language in self.languages:
            check_code(language, self.name)

    def examples(self, language: str, split: str) -> tuple[Example, ...]:
        """Return the examples of one language, in the order of the data.

        Raises:
            HeadwiseError: The data set has no such language or split, or no examples there.
        """
        if language not in self.languages:
            raise HeadwiseError(f"{self.name} has no language {language!r}: it has {', '.join(self.languages)}")
        if split not in self.splits:
            raise HeadwiseError(f"{self.name} has no split {split!r}: it has {', '.join(self.splits)}")
        examples = self.load(language, split)
        if not examples:
            raise HeadwiseError(f"{self.name}: no examples for language {language!r} in split {split!r}")
        return tuple(_with_pair(each, language) for each in examples) if "-" in language else examples

    def aligned(self, languages: Sequence[str], split: str) -> dict[str, tuple[Example, ...]]:
        """Return the items that all the languages have, in the order of the first language.

        Items are the same if their ids are equal. Ids that are only running numbers within a file (`#7`, `dev-s7`) do
        not identify an item and are ignored.

        Raises:
            HeadwiseError: The languages share no item.
        """
        by_id = {
            language: {example.id: example for example in self.examples(language, split)} for language in languages
        }
        identified = filter(identifies_item, by_id[languages[0]])
        shared = [key for key in identified if all(key in examples for examples in by_id.values())]
        if not shared:
            raise HeadwiseError(f"{self.name}: {', '.join(languages)} share no item in split {split!r}")
        return {language: tuple(examples[key] for key in shared) for language, examples in by_id.items()}


def _with_pair(example: Example, language: str) -> Example:
    """The example with the pair of languages that the code names, if it is a translation without one."""
    if not isinstance(example, TranslationExample) or example.pair:
        return example
    return replace(example, pair=language.partition("_")[0])
