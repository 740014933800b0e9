"""A tiny tokenizer of NLLB's kind: letters, or the words of a lexicon, and codes of languages."""

from collections.abc import Sequence
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LETTERS = "abcdefghijkl"
CODES = ["eng_Latn", "fra_Latn", "swh_Latn", "zho_Hans"]
_START = "▁"


def nllb_like(letters: str = LETTERS, words: Sequence[str] = (), codes: Sequence[str] = CODES) -> Any:
    """A tokenizer with 21 tokens by default.

    Args:
        letters: The letters of all words.
        words: Words that are one token; other words are split into letters.
        codes: The codes of its languages.
    """
    # A word is merged letter by letter from its start, so its beginnings are tokens too.
    starts = dict.fromkeys(_START + word[:end] for word in sorted(words) for end in range(1, len(word) + 1))
    merges = [(start[:-1], start[-1]) for start in starts]
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    vocabulary = {token: number for number, token in enumerate([*special, _START, *letters, *starts])}
    if transformers.__version__.startswith("5"):
        return transformers.NllbTokenizer(vocab=vocabulary, merges=merges, extra_special_tokens=list(codes))
    base = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    base.decoder = decoders.Metaspace(prepend_scheme="always")
    return transformers.NllbTokenizerFast(tokenizer_object=base, additional_special_tokens=list(codes))
