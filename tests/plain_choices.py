"""Multiple choice one sequence at a time, without shared prompts: what the engine is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.data.examples import ChoiceExample
from headwise.tasks.causal import check_window, sum_sequences
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.likelihood import Gating
from headwise.tasks.metrics import Accuracy, Array


@dataclass(frozen=True)
class ChoiceScores:
    """A model's score of each choice.

    Attributes:
        scores: Log-likelihood of each choice of each example, normalised as the task specifies.
        answers: The right choice of each example.
        cut: Number of examples whose context was cut at its beginning.
    """

    scores: tuple[Array, ...]
    answers: tuple[int, ...]
    cut: int

    @property
    def predicted(self) -> tuple[int, ...]:
        """The choice with the highest score, for each example."""
        return tuple(int(each.argmax()) for each in self.scores)

    @property
    def probabilities(self) -> Array:
        """Probability of the right choice among the choices (the soft value), (examples,)."""
        pairs = zip(self.scores, self.answers, strict=True)
        return np.array([1 / np.exp(each - each[answer]).sum() for each, answer in pairs])


def score_choices(
    model: Any, task: MultipleChoice, examples: Sequence[ChoiceExample], tokenizer: Any, gating: Gating | None = None
) -> ChoiceScores:
    """The score of each choice of each example."""
    encoded, cut = task.encode(examples, tokenizer)
    sequences = [(owner, choice) for owner, each in enumerate(encoded) for choice in each.choices]
    check_window(model, max(len(choice.ids) for _, choice in sequences), stride=1)
    sums = sum_sequences(model, sequences, tokenizer, gating)  # (choices of all examples, 4)
    lengths = np.array([length for each in encoded for length in each.lengths])
    scores = np.split(sums[:, 0] / lengths, np.cumsum([len(each.choices) for each in encoded])[:-1])
    return ChoiceScores(tuple(scores), tuple(example.answer for example in examples), cut)


def evaluate_choices(
    model: Any, task: MultipleChoice, examples: Sequence[ChoiceExample], tokenizer: Any, gating: Gating | None = None
) -> Evaluation:
    """Accuracy of a causal model on multiple choice; statistics are (examples, 2)."""
    found = score_choices(model, task, examples, tokenizer, gating)
    right = np.array(found.predicted) == np.array(found.answers)
    return Evaluation.of(Accuracy(), np.stack([right, np.ones(len(right))], axis=1), found.cut)
