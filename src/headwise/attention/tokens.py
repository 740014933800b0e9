"""Tokens of a sentence as a reader sees them, with the word that each belongs to."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Beginnings of the Unicode names of letters of scripts that are written without spaces between words.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")


@dataclass(frozen=True)
class TokenRow:
    """The tokens of one sentence.

    Attributes:
        tokens: Their texts, as in the sentence; special tokens by their names.
        words: The number of the word of each token, from 0. In scripts without spaces, each token is a word.
        special: Whether each token is a special token.
    """

    tokens: tuple[str, ...]
    words: tuple[int, ...]
    special: tuple[bool, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def to_dict(self) -> dict[str, Any]:
        """The tokens as plain data."""
        return {"tokens": list(self.tokens), "words": list(self.words), "special": [int(each) for each in self.special]}


def token_row(tokenizer: Any, encoding: Any, text: str, ids: Sequence[int]) -> TokenRow:
    """The tokens of an encoded sentence.

    Args:
        tokenizer: The tokenizer.
        encoding: What the tokenizer returned, with `offset_mapping` if it is a fast tokenizer.
        text: The sentence.
        ids: The token ids, (tokens,).
    """
    names = [str(name) for name in tokenizer.convert_ids_to_tokens(list(ids))]
    specials = set(tokenizer.all_special_ids)
    unknown = tokenizer.unk_token_id
    special = [token in specials and token != unknown for token in ids]
    if not getattr(tokenizer, "is_fast", False) or "offset_mapping" not in encoding:
        return TokenRow(tuple(names), _marked_words(names, special), tuple(special))
    spans = [tuple(map(int, span)) for span in encoding["offset_mapping"][0]]
    shown = [
        name if hidden or not text[slice(*span)].strip() else text[slice(*span)].strip()
        for name, span, hidden in zip(names, spans, special, strict=True)
    ]
    own = encoding.word_ids(0)
    words: list[int] = []
    last: int | None = None
    for place, (word, hidden) in enumerate(zip(own, special, strict=True)):
        joins = place > 0 and not hidden and word is not None and word == last and not _starts_word(shown[place])
        words.append(words[-1] if joins else (words[-1] + 1 if words else 0))
        last = None if hidden else word
    return TokenRow(tuple(shown), tuple(words), tuple(special))


def _marked_words(names: Sequence[str], special: Sequence[bool]) -> tuple[int, ...]:
    """Words by the marks of a slow tokenizer: `##` continues a word, `▁` or `Ġ` starts one."""
    starts = any(name.startswith(("▁", "Ġ")) for name in names)
    words: list[int] = []
    for place, (name, hidden) in enumerate(zip(names, special, strict=True)):
        new = not name.startswith("##") if not starts else name.startswith(("▁", "Ġ"))
        joins = place > 0 and not new and not hidden and not special[place - 1] and not _starts_word(name)
        words.append(words[-1] if joins else (words[-1] + 1 if words else 0))
    return tuple(words)


def _starts_word(text: str) -> bool:
    """Whether the first letter belongs to a script without spaces."""
    return bool(text) and unicodedata.name(text[0], "").startswith(_UNSPACED)
