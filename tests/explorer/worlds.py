"""A session with a tiny tagger and random sentences in two languages, and text that attacks a page."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForTokenClassification, AutoTokenizer

from headwise import dataset, find_heads
from headwise.data.examples import WordExample
from headwise.explorer.session import Session
from headwise.scores import HeadScores, Provenance
from headwise.scoring.setting import Setting, make_setting
from headwise.stats import Decision
from tests.scoring.world import WORDS, save_model

ATTACK = "<img src=x onerror=alert(1)>"
ATTACKS = (
    ATTACK,
    "</script><script>alert(1)</script>",
    "\"' onmouseover='alert(1)'",
    "\u202eevil\u202c",
    "javascript:alert(1)",
)
SENTENCE = ("</script><script>alert(2)</script>", "javascript:alert(3)", "\u202eevil", "'\"`")


@functools.cache
def tagger() -> tuple[Any, Any]:
    """The tiny tagger of 3 layers with 4 heads each, and its tokenizer of whole words."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder))
        model = AutoModelForTokenClassification.from_pretrained(folder).eval()
        return model, AutoTokenizer.from_pretrained(folder)


def make_sentences(count: int, seed: int = 0) -> tuple[WordExample, ...]:
    """Sentences of random words with random labels."""
    draw, known = np.random.default_rng(seed), list(WORDS)
    found = []
    for number in range(count):
        words = tuple(known[place] for place in draw.integers(0, len(known), draw.integers(2, 9)))
        labels = tuple(("NOUN", "X", "DET", "ADJ")[place] for place in draw.integers(0, 4, len(words)))
        found.append(WordExample(str(number), words, labels))
    return tuple(found)


def make_examples() -> dict[str, tuple[WordExample, ...]]:
    """The samples: the first sentence of English attacks the page."""
    attack = WordExample("attack", SENTENCE, ("NOUN",) * len(SENTENCE))
    return {"en": (attack, *make_sentences(30)), "sw": make_sentences(20, seed=1)}


def make_world(name: str = "tiny") -> Setting:
    """The setting of the tagger."""
    model, tokenizer = tagger()
    rows = [{"words": ["cat"], "labels": ["NOUN"], "language": "en", "split": "dev"}]
    return make_setting(model, tokenizer, dataset(rows, task="pos", name=f"data {ATTACK}"), "pos", name=name)


def make_session(folder: Path, name: str = "tiny", **options: Any) -> Session:
    """A session that writes into a folder."""
    options = {"examples": make_examples(), "out": folder / "masks", "export_dir": folder / "pruned", **options}
    return Session(make_world(name), **options)


def make_scores() -> dict[str, HeadScores]:
    """Scores of all heads in English, from harmful to helpful."""
    heads = find_heads(tagger()[0]).players()
    values = tuple(float(each) for each in np.linspace(-0.02, 0.03, len(heads)))
    n = len(heads)
    undecided: Decision = "undecided"
    provenance = Provenance("stars", "full", language="en")
    return {"en": HeadScores(heads, values, (0.001,) * n, (9,) * n, (undecided,) * n, provenance)}
