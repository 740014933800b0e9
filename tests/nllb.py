"""A tiny tokenizer of NLLB's kind: letters and codes of four languages."""

from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LETTERS = "abcdefghijkl"
CODES = ["eng_Latn", "fra_Latn", "swh_Latn", "zho_Hans"]


def nllb_like() -> Any:
    """A tokenizer with 21 tokens."""
    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS])}
    if transformers.__version__.startswith("5"):
        return transformers.NllbTokenizer(vocab=vocabulary, merges=[], extra_special_tokens=CODES)
    base = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    base.decoder = decoders.Metaspace(prepend_scheme="always")
    return transformers.NllbTokenizerFast(tokenizer_object=base, additional_special_tokens=CODES)
