"""A tokenizer with sub-words and special tokens, for tiny models with a vocabulary of 50."""

from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "dog", "sleep", "##s", "##ing", ".", "ein", "hund", "schläf",
          "##t", "狗", "##在", "##睡", "##觉", "كلب", "ينام")  # fmt: skip


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece with `[CLS]` at the start and `[SEP]` at the end."""
    vocabulary = {piece: place for place, piece in enumerate(PIECES)}
    words = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
