"""Games that are means over examples: accuracy, and soft values as its substitutes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.games.base import Answers, Game, Labels, MeanGame
from headwise.tasks.metrics import Accuracy


@dataclass(frozen=True)
class AccuracyGame(MeanGame):
    """Share of an example's labels that are right.

    Each sentence has the same weight, independent of its number of words, because bounds hold for a mean over examples.
    """

    name: str = "accuracy"
    bounds: tuple[float, float] | None = (0.0, 1.0)
    differentiable: bool = False

    def measure(self, answers: Answers) -> Tensor:
        """The share of right labels of each row, (rows, 1)."""
        counts = Accuracy().statistics(answers)  # right labels and labels, (rows, 2)
        return counts[:, :1] / counts[:, 1:].clamp(min=1)


@dataclass(frozen=True)
class ProbabilityGame(MeanGame):
    """Mean probability of an example's gold labels: the soft form of accuracy."""

    name: str = "probability"
    bounds: tuple[float, float] | None = (0.0, 1.0)
    differentiable: bool = True

    def measure(self, answers: Answers) -> Tensor:
        """The mean probability of each row's gold labels, (rows, 1)."""
        return answers.mean(answers.log_probabilities.exp())


@dataclass(frozen=True)
class LikelihoodGame(MeanGame):
    """Mean log-probability of an example's gold labels."""

    name: str = "log-likelihood"
    bounds: tuple[float, float] | None = None
    differentiable: bool = True

    def measure(self, answers: Answers) -> Tensor:
        """The mean log-probability of each row's gold labels, (rows, 1)."""
        return answers.mean(answers.log_probabilities)


@dataclass(frozen=True)
class TextLikelihoodGame(MeanGame):
    """Log-probability of an example's text per byte or per character, comparable between languages and tokenizers.

    Attributes:
        column: 0 for bytes, 1 for characters.
    """

    name: str = "log-likelihood-per-byte"
    bounds: tuple[float, float] | None = None
    differentiable: bool = True
    column: int = 0

    def measure(self, answers: Answers) -> Tensor:
        """The summed log-probability of each row's gold tokens ÷ the length of their text, (rows, 1).

        Raises:
            HeadwiseError: The labels are not tokens of a text.
        """
        if answers.sizes is None:
            raise HeadwiseError(
                f"the game {self.name!r} is for the tasks lm, continuation and translation, whose labels are tokens "
                "of a text: use 'log-likelihood'"
            )
        sizes = answers.sizes[:, self.column, None].clamp(min=1)
        return answers.sum(answers.log_probabilities)[:, None] / sizes


@dataclass(frozen=True)
class SequenceLikelihoodGame(MeanGame):
    """Summed log-probability of an example's gold tokens: the logit of a choice in multiple choice."""

    name: str = "sequence-log-likelihood"
    bounds: tuple[float, float] | None = None
    differentiable: bool = True

    def measure(self, answers: Answers) -> Tensor:
        """The summed log-probability of each row's gold tokens, (rows, 1)."""
        return answers.sum(answers.log_probabilities)[:, None]


@dataclass(frozen=True)
class MarginGame(MeanGame):
    """Mean difference between an example's gold logits and the largest other logits."""

    name: str = "margin"
    bounds: tuple[float, float] | None = None
    differentiable: bool = True

    def measure(self, answers: Answers) -> Tensor:
        """The mean margin of each row's gold labels, (rows, 1)."""
        logits, gold = answers.logits.float(), answers.answered_gold[:, None]
        others = logits.scatter(1, gold, -torch.inf).amax(-1)
        return answers.mean(logits.gather(1, gold)[:, 0] - others)


@dataclass(frozen=True)
class TopLogitGame(MeanGame):
    """Mean of the largest logits of an example's answers: the target of relevance propagation.

    For translation, the answers are the generation steps, each after the reference's earlier tokens.
    """

    name: str = "top-logit"
    bounds: tuple[float, float] | None = None
    differentiable: bool = True
    labels: Labels = "none"

    def measure(self, answers: Answers) -> Tensor:
        """The mean of each row's largest logits, (rows, 1)."""
        return answers.mean(answers.logits.float().max(-1).values)


def hard_game(game: Game) -> Game:
    """The game that confirms decisions: accuracy for differentiable games with labels, otherwise the game itself.

    Example:
        >>> hard_game(ProbabilityGame()).name
        'accuracy'
    """
    return AccuracyGame() if game.differentiable and game.labels != "none" else game
