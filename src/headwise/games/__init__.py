"""Games: what a coalition of players is worth."""

from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError
from headwise.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.games.base import Answers, Game
    from headwise.games.entities import EntityGame
    from headwise.games.means import AccuracyGame, LikelihoodGame, MarginGame, ProbabilityGame
    from headwise.games.writing import WritingGame, writing_game
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "base": ("Answers", "Game"),
            "entities": ("EntityGame",),
            "means": ("AccuracyGame", "LikelihoodGame", "MarginGame", "ProbabilityGame"),
            "writing": ("WritingGame", "writing_game"),
        },
    )

GAMES = ("accuracy", "probability", "log-likelihood", "margin", "f1")

__all__ = [
    "GAMES",
    "AccuracyGame",
    "Answers",
    "EntityGame",
    "Game",
    "LikelihoodGame",
    "MarginGame",
    "ProbabilityGame",
    "WritingGame",
    "find_game",
    "writing_game",
]


def find_game(name: str, labels: tuple[str, ...] = ()) -> "Game":
    """The game of a name.

    Args:
        name: One of `GAMES`.
        labels: The task's labels in IOB2, for `f1`.

    Example:
        >>> find_game("accuracy").bounds
        (0.0, 1.0)
    """
    from headwise.games.entities import EntityGame
    from headwise.games.means import AccuracyGame, LikelihoodGame, MarginGame, ProbabilityGame

    match name:
        case "accuracy":
            return AccuracyGame()
        case "probability":
            return ProbabilityGame()
        case "log-likelihood":
            return LikelihoodGame()
        case "margin":
            return MarginGame()
        case "f1" if labels:
            return EntityGame(labels)
        case "f1":
            raise HeadwiseError("the game 'f1' needs the labels of its task")
    raise HeadwiseError(f"there is no game {name!r}: choose one of {', '.join(GAMES)}")
