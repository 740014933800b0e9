"""A set of examples in several languages, loaded language by language and split by split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwise.data.examples import Example
from headwise.data.ids import tells_item
from headwise.data.languages import check_code
from headwise.errors import HeadwiseError


@dataclass(frozen=True)
class Dataset:
    """Examples of one task in several languages.

    Attributes:
        name: What people call it.
        languages: The languages it has, as short codes.
        splits: The splits it has, such as `train`, `dev`, `test`.
        load: Reads the examples of a language and a split.
        note: What must be said wherever results on it are shown (empty if nothing).

    Raises:
        HeadwiseError: A language's code is not one: files are named by it.

    Example:
        >>> from headwise.data.examples import TextExample
        >>> hello = {"en": "hello", "sw": "habari"}
        >>> greetings = Dataset("greetings", ("en", "sw"), ("test",),
        ...                     lambda language, split: (TextExample("1", hello[language], "greet"),))
        >>> [example.text for (example,) in greetings.aligned(["sw", "en"], "test").values()]
        ['habari', 'hello']
    """

    name: str
    languages: tuple[str, ...]
    splits: tuple[str, ...]
    load: Callable[[str, str], tuple[Example, ...]]
    note: str = ""

    def __post_init__(self) -> None:
        for language in self.languages:
            check_code(language, self.name)

    def examples(self, language: str, split: str) -> tuple[Example, ...]:
        """The examples of one language, in the order of the data.

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
        return examples

    def aligned(self, languages: Sequence[str], split: str) -> dict[str, tuple[Example, ...]]:
        """The same items in every language: those that all of them have, in the order of the first.

        Ids that only count the items of a file (`#7`, `dev-s7`) tell of no item that it is the same.

        Raises:
            HeadwiseError: The languages share no item.
        """
        by_id = {
            language: {example.id: example for example in self.examples(language, split)} for language in languages
        }
        told = filter(tells_item, by_id[languages[0]])
        shared = [key for key in told if all(key in examples for examples in by_id.values())]
        if not shared:
            raise HeadwiseError(f"{self.name}: {', '.join(languages)} share no item in split {split!r}")
        return {language: tuple(examples[key] for key in shared) for language, examples in by_id.items()}
