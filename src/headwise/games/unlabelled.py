"""Games that need no labelled example of a language."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.games.base import Answers, Labels, MeanGame
from headwise.games.means import ProbabilityGame

#: The source language of `agreement` by default.
SOURCE = "en"
_AGREEMENT = re.compile(r"agreement(?:\(([\w-]+)\))?")


@dataclass(frozen=True)
class AgreementGame(ProbabilityGame):
    """Mean probability of the answers of the whole model to the same item in the source language.

    The examples of the game have these answers as labels.

    Attributes:
        source: The source language.
    """

    name: str = "agreement"
    labels: Labels = "answers"
    source: str = SOURCE


@dataclass(frozen=True)
class TopProbabilityGame(MeanGame):
    """Mean probability of the most likely label: the confidence of the model under a mask."""

    name: str = "top-probability"
    bounds: tuple[float, float] | None = (0.0, 1.0)
    differentiable: bool = True
    labels: Labels = "none"

    def measure(self, answers: Answers) -> Tensor:
        """The mean probability of each row's most likely labels, (rows, 1)."""
        logits = answers.logits.float()
        return answers.mean((logits.amax(-1) - logits.logsumexp(-1)).exp())


@dataclass(frozen=True)
class NegativeEntropyGame(MeanGame):
    """Mean of -entropy ÷ log(labels) of an example's predictions: from -1 (uniform) to 0 (certain)."""

    name: str = "negative-entropy"
    bounds: tuple[float, float] | None = (-1.0, 0.0)
    differentiable: bool = True
    labels: Labels = "none"

    def measure(self, answers: Answers) -> Tensor:
        """The mean negative entropy of each row's predictions, (rows, 1)."""
        logits = answers.logits.float()
        allowed = logits > -torch.inf  # multiple choice: an example may have fewer choices than others
        known = logits.masked_fill(~allowed, 0.0)
        entropy = logits.logsumexp(-1) - (logits.softmax(-1) * known).sum(-1)
        return answers.mean(-entropy / allowed.sum(-1).clamp(min=2).log())


@dataclass(frozen=True)
class AnswerGame(MeanGame):
    """The most likely label of each place of a row, as a number; -1 where there is none.

    It is not played: an engine answers with it, so that answers are computed where values are.
    """

    name: str = "answers"
    bounds: tuple[float, float] | None = None
    differentiable: bool = False
    labels: Labels = "none"

    def measure(self, answers: Answers) -> Tensor:
        """The answers of each row, (rows, statistics)."""
        # In float32, whatever the logits are in: bfloat16 is exact up to 256 only.
        found = torch.full((len(answers.counts), self.statistics), -1.0, device=answers.logits.device)
        found[answers.rows, answers.places] = answers.best.to(found)
        return found


def find_agreement(name: str) -> AgreementGame | None:
    """The game `agreement` or `agreement(LANGUAGE)`; None for another name.

    Example:
        >>> find_agreement("agreement").source, find_agreement("agreement(de)").source
        ('en', 'de')
    """
    match = _AGREEMENT.fullmatch(name)
    return None if match is None else AgreementGame(name, source=match[1] or SOURCE)
