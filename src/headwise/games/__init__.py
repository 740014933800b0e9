"""Games: they define the value of a coalition of players."""

from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError
from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.games.base import Answers, Game
    from headwise.games.generation import GenerationGame, generation_game
    from headwise.games.means import (
        AccuracyGame,
        LikelihoodGame,
        MarginGame,
        ProbabilityGame,
        SequenceLikelihoodGame,
        TextLikelihoodGame,
        TopLogitGame,
    )
    from headwise.games.metric import MetricGame
    from headwise.games.unlabelled import AgreementGame, NegativeEntropyGame, TopProbabilityGame
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "base": ("Answers", "Game"),
            "generation": ("GenerationGame", "generation_game"),
            "means": (
                "AccuracyGame",
                "LikelihoodGame",
                "MarginGame",
                "ProbabilityGame",
                "SequenceLikelihoodGame",
                "TextLikelihoodGame",
                "TopLogitGame",
            ),
            "metric": ("MetricGame",),
            "unlabelled": ("AgreementGame", "NegativeEntropyGame", "TopProbabilityGame"),
        },
    )

GAMES = (
    *("accuracy", "probability", "log-likelihood", "margin", "f1"),
    *("log-likelihood-per-byte", "log-likelihood-per-character"),
    *("agreement", "top-probability", "negative-entropy"),
)

__all__ = [
    "GAMES",
    "AccuracyGame",
    "AgreementGame",
    "Answers",
    "Game",
    "GenerationGame",
    "LikelihoodGame",
    "MarginGame",
    "MetricGame",
    "NegativeEntropyGame",
    "ProbabilityGame",
    "SequenceLikelihoodGame",
    "TextLikelihoodGame",
    "TopLogitGame",
    "TopProbabilityGame",
    "find_game",
    "generation_game",
]


def find_game(name: str, labels: tuple[str, ...] = ()) -> "Game":
    """The game with this name.

    Args:
        name: One of `GAMES`, or `agreement(LANGUAGE)` for another source language than English.
        labels: The task's labels in IOB2, for `f1`.

    Example:
        >>> find_game("accuracy").bounds
        (0.0, 1.0)
    """
    from headwise.games.means import AccuracyGame, LikelihoodGame, MarginGame, ProbabilityGame, TextLikelihoodGame
    from headwise.games.metric import MetricGame
    from headwise.games.unlabelled import NegativeEntropyGame, TopProbabilityGame, find_agreement
    from headwise.tasks.metrics import EntityF1

    match name:
        case "accuracy":
            return AccuracyGame()
        case "probability":
            return ProbabilityGame()
        case "log-likelihood":
            return LikelihoodGame()
        case "log-likelihood-per-byte":
            return TextLikelihoodGame(name)
        case "log-likelihood-per-character":
            return TextLikelihoodGame(name, column=1)
        case "margin":
            return MarginGame()
        case "f1" if labels:
            return MetricGame(EntityF1(labels))
        case "f1":
            raise HeadwiseError("the game 'f1' needs the labels of its task")
        case "top-probability":
            return TopProbabilityGame()
        case "negative-entropy":
            return NegativeEntropyGame()
    if (agreement := find_agreement(name)) is not None:
        return agreement
    raise HeadwiseError(f"there is no game {name!r}: choose one of {', '.join(GAMES)}")
