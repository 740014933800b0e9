"""A tokenizer of a few pieces, for tests of tasks and of tuning."""

from typing import Any

from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import Unigram, WordLevel
from transformers import PreTrainedTokenizerFast


def xlmr_like() -> Any:
    """Like XLM-R's: words begin with a piece `▁` that may stand alone."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁the", "▁cat", "s", "中国", "人", "▁sat"]
    words = Tokenizer(Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=3))
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


def one_token_a_word() -> Any:
    """One token a word: `w7` is 7, and `<s>` is 1. No padding token, as GPT-2 and Llama have none."""
    names = ["<unk>", "<s>", *(f"w{n}" for n in range(2, 50))]
    base = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=base, bos_token="<s>", unk_token="<unk>")
