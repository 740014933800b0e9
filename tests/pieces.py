"""A tokenizer of a few pieces, for tests of tasks and of tuning."""

from typing import Any

from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import Unigram
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
