"""A tagger from the multilingual encoder: tuned on a treebank, it also knows words that are not in the treebank."""

from collections.abc import Sequence
from typing import Any

import torch

from headwise.data.examples import Sentence, WordExample
from headwise.models import load_model, load_tokenizer
from headwise.tasks import Task, find_task
from headwise.tuning import TuningSettings, train_model
from tools.phrasebook.tagger import Guess

_MODEL = "e5-small-pos"
_SETTINGS = TuningSettings(epochs=3, learning_rate=1e-4)


class EncoderTagger:
    """A tuned encoder; `train_encoder` makes one.

    Attributes:
        model: The model.
        task: Its task.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: Any, task: Task, tokenizer: Any) -> None:
        self.model, self.task, self.tokenizer = model, task, tokenizer

    def tag(self, words: Sequence[str]) -> list[Guess]:
        """One guess for each word of a sentence."""
        encoded, _ = self.task.encode([WordExample("", tuple(words), ("X",) * len(words))], self.tokenizer)
        guesses = [Guess("?", {"?": 0.0})] * len(words)  # for words without a token
        batch = self.task.make_batch(self.model, encoded, [0], self.tokenizer.pad_token_id)
        self.model.eval()
        with torch.inference_mode():
            logits = self.model(**batch.inputs(torch.device("cpu"))).logits
        chances = torch.log_softmax(self.task.select(logits, batch), -1).tolist()
        for place, row in zip(batch.places.tolist(), chances, strict=True):
            scores = dict(zip(self.task.labels, row, strict=True))
            guesses[place] = Guess(max(scores, key=lambda tag: scores[tag]), scores)
        return guesses


def train_encoder(sentences: Sequence[Sentence]) -> EncoderTagger:
    """Tune the encoder, which was trained on English tags, on the sentences of a treebank."""
    model, tokenizer = load_model(_MODEL), load_tokenizer(_MODEL)
    task = find_task("pos")
    if not isinstance(task, Task):
        raise TypeError(f"parts of speech are labels, not {task}")
    examples = [WordExample(sentence.id, sentence.words, sentence.upos) for sentence in sentences]
    some = examples[:: max(1, len(examples) // 50)]  # enough to choose the best epoch
    train_model(model, task, examples, some, tokenizer, _SETTINGS)
    return EncoderTagger(model, task, tokenizer)
