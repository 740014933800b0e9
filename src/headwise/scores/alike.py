"""Scores of several languages that can be put together."""

from collections.abc import Mapping

from headwise.errors import HeadwiseError
from headwise.masks import describe_shape
from headwise.scores.head_scores import HeadScores


def check_alike(scores: Mapping[str, HeadScores]) -> None:
    """Check that the scores of all languages are of the same players, and by the same method, estimand and game.

    Raises:
        HeadwiseError: They are not.

    Example:
        >>> from headwise.scores import Provenance
        >>> one = HeadScores(("encoder.0.0",), (1.0,), (0.1,), (9,), ("undecided",), Provenance("stars", "full"))
        >>> check_alike({"de": one, "sw": one})
    """
    one, first = next(iter(scores.items()))
    for language, each in scores.items():
        if each.players != first.players:
            shapes = f"{describe_shape(first.players)} and {describe_shape(each.players)}"
            raise HeadwiseError(f"{one} and {language} have different players, {shapes}: score the same model")
        for name in ("method", "estimand", "game"):
            mine, its = (getattr(found.provenance, name) for found in (first, each))
            if mine != its:
                raise HeadwiseError(f"{one} and {language} have different {name}s, {mine} and {its}: score them alike")
