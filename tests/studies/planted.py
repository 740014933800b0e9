"""A tagger with planted heads: only those of its middle layer do anything, and tags depend on the word before.

The word `run` is a noun after an article and a verb after a particle. So a model without attention is wrong about half
of these words. The output weights of the attention of the first and the last layer are 0: their heads are noise.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

from headwise.data.examples import UPOS, WordExample
from headwise.tasks import find_task
from headwise.tuning import TuningSettings, train_model

#: Languages of the paper's groups; each has its own articles and particles.
LANGUAGES = ("en", "es", "hi", "ar", "tr")
#: The layer whose heads matter.
PLANTED = 1
LAYERS, HEADS = 3, 4
_TYPOLOGY = {
    "en": ("SVO", "high"), "es": ("SVO", "high"), "hi": ("SOV", "medium"), "ar": ("VSO", "high"),
    "tr": ("SOV", "medium"),
}  # fmt: skip


def sentences(language: str, count: int, seed: int) -> list[WordExample]:
    """Sentences of phrases: an article or a particle, and then a word that may be a noun or a verb."""
    generator = np.random.default_rng(seed)  # the same items in every language
    found = []
    for number in range(count):
        phrases = generator.integers(2, size=3)
        words = [word for phrase in phrases for word in ((f"the-{language}", "run"), (f"to-{language}", "run"))[phrase]]
        tags = [tag for phrase in phrases for tag in (("DET", "NOUN"), ("PART", "VERB"))[phrase]]
        found.append(WordExample(str(number), tuple(words), tuple(tags)))
    return found


def save_world(folder: Path) -> Path:
    """The folders `model` and `data`."""
    tokenizer = _tokenizer()
    model = _pretrained(tokenizer)
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "data" / "ud").mkdir(parents=True)
    for language in LANGUAGES:
        for seed, (split, count) in enumerate((("train", 32), ("dev", 16), ("test", 40))):
            text = "".join(_conllu(each) for each in sentences(language, count, seed))
            (folder / "data" / "ud" / f"{language}_toy-ud-{split}.conllu").write_text(text)
    (folder / "data" / "typology").mkdir()
    rows = ["code\tword_order_81A\tresource_level", *("\t".join((code, *row)) for code, row in _TYPOLOGY.items())]
    (folder / "data" / "typology" / "languages.tsv").write_text("\n".join(rows) + "\n")
    return folder


def _conllu(example: WordExample) -> str:
    lines = [f"# sent_id = {example.id}\n"]
    for place, (word, tag) in enumerate(zip(example.words, example.labels, strict=True), 1):
        head, relation = (0, "root") if place == 1 else (1, "dep")
        lines.append(f"{place}\t{word}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n")
    return "".join([*lines, "\n"])


def _tokenizer() -> Any:
    words = ["[PAD]", "[UNK]", "run", *(f"{word}-{language}" for language in LANGUAGES for word in ("the", "to"))]
    fast = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=fast, pad_token="[PAD]", unk_token="[UNK]")


def _pretrained(tokenizer: Any) -> Any:
    """A tagger of all languages whose first and last layers have heads without effect."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=32,
        max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0,
    )  # fmt: skip
    config.id2label, config.label2id = dict(enumerate(UPOS)), {name: place for place, name in enumerate(UPOS)}
    model = BertForTokenClassification(config)
    for number, layer in enumerate(model.bert.encoder.layer):
        if number != PLANTED:
            dense = layer.attention.output.dense
            torch.nn.init.zeros_(dense.weight)
            dense.requires_grad_(False)
    examples = [each for language in LANGUAGES for each in sentences(language, 64, 9)]
    settings = TuningSettings(epochs=20, learning_rate=5e-3, batch_tokens=256, freeze_embeddings=False)
    train_model(model, find_task("pos"), examples, examples[:64], tokenizer, settings)
    return model
