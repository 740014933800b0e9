"""Tiny models of every kind with examples to measure roles on."""

from functools import cache
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from headwise.data.examples import Example, TextExample, TranslationExample
from headwise.data.phrasebook import phrasebook_sentences
from headwise.data.treebanks import open_treebank
from headwise.heads import find_heads
from headwise.models import load_tokenizer
from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.pairs import ParallelSentences, parallel_sentences, read_pairs
from tests.families import BY_NAME, enliven


@cache
def e5_tokenizer() -> Any:
    return load_tokenizer("e5-small")


def word_tokenizer() -> Any:
    """Fifty words, the first four of them special; a text ends with `</s>`."""
    words = ["<unk>", "<pad>", "<s>", "</s>", *(f"w{i}" for i in range(46))]
    pieces = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)])
    return PreTrainedTokenizerFast(
        tokenizer_object=pieces, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def bert(heads: int = 4, layers: int = 2, positions: int = 512, **options: Any) -> Any:
    """A narrow BERT with the vocabulary of e5-small."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=250_037, hidden_size=16, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=16,
        max_position_embeddings=positions, num_labels=3, **options,
    )  # fmt: skip
    model = BertForTokenClassification(config)
    enliven(model)
    with torch.no_grad():
        for layer in model.bert.encoder.layer:  # peaked attention
            layer.attention.self.query.weight.mul_(8)
    return model.eval()


def trees(language: str = "en", count: int = 12) -> tuple[Example, ...]:
    return phrasebook_sentences(language)[:count]


def texts(count: int = 8, seed: int = 0) -> tuple[Example, ...]:
    """Texts of a few words, so that words are repeated."""
    draw = np.random.default_rng(seed)
    return tuple(TextExample(str(i), words(draw, int(draw.integers(3, 12)))) for i in range(count))


def pairs(count: int = 8, seed: int = 0) -> tuple[Example, ...]:
    draw = np.random.default_rng(seed)
    return tuple(
        TranslationExample(str(i), words(draw, int(draw.integers(3, 9))), words(draw, int(draw.integers(2, 11))))
        for i in range(count)
    )


def words(draw: np.random.Generator, count: int) -> str:
    return " ".join(f"w{number}" for number in draw.integers(0, 12, count))


@cache
def parallel(first: str = "en", second: str = "de", count: int = 12) -> ParallelSentences:
    """Sentences of the phrasebook with their translations."""
    return parallel_sentences(open_treebank("phrasebook"), (first, second), "dev", count)


def pair_world(kind: str, second: str = "de", **options: Any) -> tuple[Any, Corpus]:
    """A model with the vocabulary of e5-small, and parallel sentences: `bert`, or a family with a vocabulary size."""
    model = bert(**options) if kind == "bert" else BY_NAME[kind].build(
        vocab_size=250_037, max_position_embeddings=200, **options)  # fmt: skip
    return model, read_pairs(model, find_heads(model), e5_tokenizer(), parallel(second=second))


def world(kind: str, **options: Any) -> tuple[Any, Corpus]:
    """A model and a corpus: `trees-en`, `trees-zh`, or the name of a family with texts or translations."""
    if kind.startswith("trees"):
        model = bert(**options)
        return model, read_corpus(model, find_heads(model), e5_tokenizer(), trees(kind.partition("-")[2]))
    model = BY_NAME[kind].build(**options)
    examples = pairs() if BY_NAME[kind].seq2seq else texts()
    return model, read_corpus(model, find_heads(model), word_tokenizer(), examples)
