"""Which languages and which of their examples are meant."""

import dataclasses
import functools
from collections.abc import Sequence

from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.errors import HeadwiseError

#: Languages that share this much of their items are aligned; less may be ids that happen to be the same.
_ALIGNED = 0.9
_SAME_ITEMS = "The languages are aligned: every draw is the same item and coalition in all of them."
_OWN_ITEMS = "The languages do not share their items: each is scored on examples of its own."


def language_codes(languages: str, dataset: Dataset, option: str = "--languages") -> list[str]:
    """The languages of a comma-separated list, each once; `all` is every plain code.

    Raises:
        HeadwiseError: The option names none.
    """
    if languages == "all":
        return [code for code in dataset.languages if "_" not in code]
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    if not codes:
        raise HeadwiseError(f"{option} names no language: give codes such as zh,tr or 'all'")
    return list(dict.fromkeys(codes))


def choose_examples(
    dataset: Dataset, languages: Sequence[str], split: str, limit: int | None = None
) -> tuple[dict[str, tuple[Example, ...]], str]:
    """The examples of each language, the same items in all of them if these are most of each, and a note on which."""
    known = dataclasses.replace(dataset, load=functools.cache(dataset.load))
    own = {language: known.examples(language, split) for language in languages}
    note = ""
    if len(languages) > 1:
        shared = _shared_examples(known, languages, split)
        aligned = all(len(shared.get(language, ())) >= _ALIGNED * len(own[language]) for language in languages)
        own, note = (shared, _SAME_ITEMS) if aligned else (own, _OWN_ITEMS)
    return {language: examples[:limit] for language, examples in own.items()}, note


def _shared_examples(dataset: Dataset, languages: Sequence[str], split: str) -> dict[str, tuple[Example, ...]]:
    try:
        return dataset.aligned(languages, split)
    except HeadwiseError:  # they share nothing
        return {}
