"""Tiny classifiers and parallel texts: on a target text, the model without some heads answers as on the source text."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel

import headwise as hw
from tests.families import BY_NAME, enliven

LABELS = ("ask", "call", "stop")
WORDS = tuple("abcdefghijklmnopqrst")
#: The head that the target language is better without.
HARMFUL = "encoder.1.2"
ITEMS, LENGTH = 24, 6


def save_classifier(folder: Path, auto: str = "AutoModelForSequenceClassification") -> Path:
    """A classifier of three labels, or a model with another head, and a tokenizer of whole words."""
    config = BY_NAME["bert"].build().config
    config.id2label, config.label2id = dict(enumerate(LABELS)), {label: n for n, label in enumerate(LABELS)}
    torch.manual_seed(2)
    model = getattr(tf, auto).from_config(config)
    enliven(model)
    if auto == "AutoModelForSequenceClassification":
        plant(model)
    model.save_pretrained(folder)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    words = Tokenizer(WordLevel({word: place for place, word in enumerate(names)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    return folder


def plant(model: Any) -> None:
    """Let `HARMFUL` matter, and make all labels frequent with and without it."""
    ids = torch.randint(5, 25, (64, LENGTH + 2))
    ids[:, 0], ids[:, -1] = 2, 3
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.output.dense.weight[:, 16:24] *= 2
        model.classifier.weight *= 30  # answers are certain
        whole = model.eval()(ids).logits
        with hw.gated(model, hw.HeadMask.without(hw.find_heads(model), [HARMFUL])):
            model.classifier.bias -= (whole.mean(0) + model(ids).logits.mean(0)) / 2


def random_texts(count: int, seed: int) -> list[str]:
    """Texts of random words."""
    return [" ".join(each) for each in np.random.default_rng(seed).choice(WORDS, (count, LENGTH)).tolist()]


def answers(model: Any, tokenizer: Any, texts: list[str], off: tuple[str, ...] = ()) -> list[str]:
    """The label of each text without some heads, by the model alone; all texts have the same length."""
    with torch.no_grad(), hw.gated(model, hw.HeadMask.without(hw.find_heads(model), off)):
        logits = model(**tokenizer(texts, return_tensors="pt")).logits
    return [model.config.id2label[label] for label in logits.argmax(-1).tolist()]


def parallel_texts(model: Any, tokenizer: Any) -> tuple[list[str], list[str]]:
    """Texts of the source and of the target: the model answers both alike if `HARMFUL` is off for the target."""
    pool = random_texts(400, seed=1)
    by_label: dict[str, list[str]] = {label: [] for label in LABELS}
    for text, label in zip(pool, answers(model, tokenizer, pool), strict=True):
        by_label[label].append(text)
    target = random_texts(ITEMS, seed=2)
    return [by_label[label].pop() for label in answers(model, tokenizer, target, (HARMFUL,))], target


def save_texts(folder: Path, texts: dict[str, list[str]]) -> Path:
    """A CSV file per language, without labels; the texts are dev examples, and there is a test example."""
    folder.mkdir()
    for language, each in texts.items():
        lines = [f"n{number},{text},dev\n" for number, text in enumerate(each)]
        (folder / f"{language}.csv").write_text("id,text,split\n" + "".join(lines) + "last,a b c,test\n")
    return folder
