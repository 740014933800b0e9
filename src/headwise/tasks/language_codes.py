"""Codes of tokenizers that translate between many languages (NLLB, M2M100, mBART), set for each pair of languages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headwise.errors import HeadwiseError
from headwise.support.extras import require

#: A language with its script (`swh_Latn`) or country (`en_XX`).
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
#: Largest distance of langcodes between a language and the code that stands for it: the same language.
_FARTHEST = 9


def has_codes(tokenizer: Any) -> bool:
    """Whether a tokenizer must be told the languages of a pair."""
    return hasattr(tokenizer, "src_lang")


def find_code(tokenizer: Any, language: str) -> str:
    """The tokenizer's code of a language, such as `swh_Latn` for `sw`.

    Raises:
        HeadwiseError: The tokenizer does not have the language, or the package `langcodes` is not installed.
    """
    codes = codes_of(tokenizer)
    if language in codes:
        return language
    langcodes = require("langcodes", "cli", "the languages of a translation model")
    tags = {_tag(code): code for code in codes}
    tag, distance = langcodes.closest_match(language, list(tags), max_distance=_FARTHEST)
    if tag not in tags or distance > _FARTHEST:
        shown = ", ".join(codes[:8])
        raise HeadwiseError(f"languages: the model has no code for {language!r}; its codes are {shown} …")
    return tags[tag]


def codes_of(tokenizer: Any) -> list[str]:
    """All language codes of a tokenizer."""
    for name in ("lang_code_to_token", "lang_code_to_id"):  # M2M100, mBART
        if found := getattr(tokenizer, name, None):
            return list(found)
    special = getattr(tokenizer, "additional_special_tokens", None) or tokenizer.all_special_tokens
    return [token for token in special if _CODE.fullmatch(token)]  # NLLB


@contextmanager
def speaking(tokenizer: Any, pair: str) -> Iterator[int]:
    """Inside the `with` statement a tokenizer encodes sources and targets of a pair of languages.

    Yields:
        The id of the token of the target language.

    Raises:
        HeadwiseError: There is no pair, or the tokenizer does not have one of its languages.
    """
    source, dash, target = pair.partition("-")
    if not dash:
        raise HeadwiseError(
            "the model translates between many languages, and the languages of an example are not known: name them as "
            "in --languages en-sw, or give TranslationExample(..., pair='en-sw')"
        )
    before = tokenizer.src_lang, tokenizer.tgt_lang
    codes = find_code(tokenizer, source), find_code(tokenizer, target)
    tokenizer.src_lang, tokenizer.tgt_lang = codes
    try:
        yield _token_id(tokenizer, codes[1])
    finally:
        tokenizer.tgt_lang = before[1]
        tokenizer.src_lang = before[0]


def _tag(code: str) -> str:
    """A code as a language tag: `swh_Latn` is `swh-Latn`, and `en_XX` is `en`."""
    return code.removesuffix("_XX").replace("_", "-")


def _token_id(tokenizer: Any, code: str) -> int:
    tokens = getattr(tokenizer, "lang_code_to_token", None) or {}
    return int(tokenizer.convert_tokens_to_ids(tokens.get(code, code)))
