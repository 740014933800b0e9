"""A tiny tagger and treebanks in which some heads are harmful: the gold tags are what it says without them."""

from pathlib import Path

import numpy as np
import torch

import headwise as hw
from tests.scoring.world import WORDS, save_model

LANGUAGES = ("en", "sw", "zh")


def save_planted(folder: Path, off: tuple[str, ...], sentences: int = 48, words: int = 6) -> tuple[Path, Path]:
    """A model and a data folder.

    Args:
        folder: Where to write both.
        off: The heads that are harmful.
        sentences: Number of sentences of each language; all languages have the same items.
        words: Number of words of a sentence.

    Returns:
        The folders of the model and of the data.
    """
    path = save_model(folder / "model")
    model, tokenizer = hw.load(path)
    (folder / "data" / "ud").mkdir(parents=True)
    draw = np.random.default_rng(0)
    for language in LANGUAGES:
        texts = draw.choice(list(WORDS), (sentences, words))
        inputs = tokenizer([" ".join(each) for each in texts.tolist()], return_tensors="pt")
        heads = hw.find_heads(model)
        with torch.no_grad(), hw.gated(model, hw.HeadMask.without(heads, off), heads=heads):
            found = model(**inputs).logits.argmax(-1)  # (sentences, words): a token is a word
        for split in ("dev", "test"):
            text = "".join(
                _sentence(number, each, [model.config.id2label[int(tag)] for tag in tags])
                for number, (each, tags) in enumerate(zip(texts.tolist(), found, strict=True))
            )
            (folder / "data" / "ud" / f"{language}_toy-ud-{split}.conllu").write_text(text)
    return path, folder / "data"


def _sentence(number: int, words: list[str], tags: list[str]) -> str:
    rows = [
        f"{place}\t{word}\t_\t{tag}\t_\t_\t{int(place > 1)}\t{'dep' if place > 1 else 'root'}\t_\t_\n"
        for place, (word, tag) in enumerate(zip(words, tags, strict=True), 1)
    ]
    return f"# sent_id = {number}\n# text = {' '.join(words)}\n{''.join(rows)}\n"
