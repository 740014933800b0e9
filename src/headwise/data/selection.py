"""Selection of languages and of their examples."""

import dataclasses
import functools
from collections.abc import Sequence

from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.errors import HeadwiseError

#: Languages that share at least this part of their items are aligned; a smaller part may be equal ids by accident.
ALIGNED_SHARE = 0.9
_ALIGNED = (
    "The languages are aligned: all are scored on the same examples under the same masks, so that their values can be "
    "compared."
)
_NOT_ALIGNED = "The languages do not share their items: each is scored on its own examples."


def language_codes(languages: str, dataset: Dataset, option: str = "--languages") -> list[str]:
    """Return the languages of a comma-separated list without repetitions; `all` stands for all but the variants.

    Raises:
        HeadwiseError: The list is empty.
    """
    if languages == "all":
        return [code for code in dataset.languages if code not in dataset.variants]
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    if not codes:
        raise HeadwiseError(f"{option} names no language: give codes such as zh,tr or 'all'")
    return list(dict.fromkeys(codes))


def choose_examples(
    dataset: Dataset, languages: Sequence[str], split: str, limit: int | None = None
) -> tuple[dict[str, tuple[Example, ...]], str]:
    """Return the examples of each language and a note that says whether they are aligned.

    Aligned languages get only the items that all of them have, in the same order.

    Args:
        dataset: The data set.
        languages: The languages.
        split: The split.
        limit: Maximum number of examples per language; the first ones are used.
    """
    cached = dataclasses.replace(dataset, load=functools.cache(dataset.load))
    own = {language: cached.examples(language, split) for language in languages}
    note = ""
    if len(languages) > 1:
        shared = _shared_examples(cached, languages, split)
        aligned = all(len(shared.get(code, ())) >= ALIGNED_SHARE * len(own[code]) for code in languages)
        own, note = (shared, _ALIGNED) if aligned else (own, _NOT_ALIGNED)
    return {language: examples[:limit] for language, examples in own.items()}, note


def _shared_examples(dataset: Dataset, languages: Sequence[str], split: str) -> dict[str, tuple[Example, ...]]:
    try:
        return dataset.aligned(languages, split)
    except HeadwiseError:  # no shared item
        return {}
