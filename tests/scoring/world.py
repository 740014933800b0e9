"""A tiny tagger, tiny treebanks, and a method that is quick, repeatable and can be told to dawdle or to stop.

Run as a program, this is `headwise` with that method in place of its own.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import BertForTokenClassification, PreTrainedTokenizerFast

from headwise import HeadScores
from headwise.cli.main import main
from headwise.data.examples import UPOS
from headwise.draws import Draws
from headwise.methods import Problem
from headwise.methods.head_scores import make_scores
from headwise.stats import Decision
from tests.families import BY_NAME, enliven

WORDS = {"cat": "NOUN", "sat": "VERB", "the": "DET", "paka": "NOUN", "alikaa": "VERB", "kissa": "NOUN"}
#: English and Swahili have the same items; Finnish has ids of its own.
SENTENCES = {
    "en": ["the cat sat", "the cat", "cat sat the cat", "sat"],
    "sw": ["paka alikaa", "alikaa paka", "paka", "alikaa"],
    "fi": ["kissa", "kissa kissa"],
}
DRAWS = 8


def save_model(folder: Path) -> Path:
    """A tagger with random weights and a tokenizer of whole words."""
    torch.manual_seed(0)
    config = BY_NAME["bert"].build().config
    config.id2label, config.label2id = dict(enumerate(UPOS)), {name: place for place, name in enumerate(UPOS)}
    model = BertForTokenClassification(config)
    enliven(model)
    model.save_pretrained(folder)
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    return folder


def save_training_data(folder: Path) -> Path:
    """The treebanks of `save_data`, with the dev examples as training examples."""
    save_data(folder)
    for dev in (folder / "ud").glob("*-dev.conllu"):
        dev.with_name(dev.name.replace("-dev", "-train")).write_text(dev.read_text())
    return folder


def save_data(folder: Path) -> Path:
    """A folder with treebanks of three languages."""
    (folder / "ud").mkdir(parents=True)
    for language, sentences in SENTENCES.items():
        for split in ("dev", "test"):
            lines = []
            for number, text in enumerate(sentences):
                lines.append(f"# sent_id = {'fi' if language == 'fi' else ''}{number}\n# text = {text}\n")
                for place, word in enumerate(text.split(), 1):
                    head, relation = (0, "root") if place == 1 else (1, "dep")
                    lines.append(f"{place}\t{word}\t_\t{WORDS[word]}\t_\t_\t{head}\t{relation}\t_\t_\n")
                lines.append("\n")
            (folder / "ud" / f"{language}_toy-ud-{split}.conllu").write_text("".join(lines))
    return folder


@dataclass(frozen=True)
class Dawdler:
    """What players are worth at random coalitions, round by round.

    Attributes:
        error_rate: Not used, but an option.
        rounds: After so many all is known.
    """

    name: ClassVar[str] = "dawdler"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    error_rate: float = 0.1
    rounds: int = 1000

    def start(self, problem: Problem, seed: int) -> "DawdlerRounds":
        return DawdlerRounds(self, problem, seed)


class DawdlerRounds:
    """The dawdler at work; `STOP_AT` in the environment is the round at which it acts as if Ctrl-C were pressed."""

    def __init__(self, method: Dawdler, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        self.engine, self.count = problem.engine(), 0
        self.total, self.squares = np.zeros(len(problem.players)), np.zeros(len(problem.players))

    @property
    def done(self) -> bool:
        return self.count >= self.method.rounds * DRAWS

    @property
    def next_units(self) -> float:
        return float(DRAWS)

    @property
    def status(self) -> str:
        return f"{self.count} draws"

    def draw(self, first_draw: int) -> tuple[Mapping[str, NDArray[Any]], int]:
        if first_draw == DRAWS * int(os.environ.get("STOP_AT", "-1")):
            raise KeyboardInterrupt
        time.sleep(float(os.environ.get("PAUSE", "0")))
        draws, players = Draws(self.seed), len(self.problem.players)
        masks = draws.coalitions(first_draw, DRAWS, players)
        values = self.engine.values(masks, draws.examples(first_draw, DRAWS, len(self.problem.examples))).values
        signed = values.numpy().astype(np.float64)[:, None] * np.where(masks, 1.0, -1.0)
        found = {"total": signed.sum(0), "squares": (signed**2).sum(0), "units": np.array(float(DRAWS))}
        return found, DRAWS

    def absorb(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.count += DRAWS
        self.total, self.squares = self.total + arrays["total"], self.squares + arrays["squares"]

    def scores(self, units: float, seed: int) -> HeadScores:
        value = self.total / max(self.count, 1)
        stderr = np.sqrt(self.squares) / max(self.count, 1)
        decision: list[Decision] = ["harmful" if each < 0 else "helpful" for each in value]
        decision[-1] = "undecided"
        count = np.full(len(value), self.count)
        return make_scores(self.problem, self.method, value, stderr, count, decision, units, seed, 0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with patch("headwise.scoring.run.find_method", lambda name, **options: Dawdler(**options)):
        main()
