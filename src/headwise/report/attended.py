"""Attention of some heads on some sentences, in the data of the page."""

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwise.scores import HeadScores

if TYPE_CHECKING:  # imports torch
    from headwise.attention.view import AttentionView

#: Maximum number of characters that the weights of a report take.
MOST_CHARACTERS = 1_200_000


def attention_payload(view: "AttentionView") -> dict[str, Any]:
    """The tokens and weights of a view; the label of each sentence is the code of its language."""
    return {
        "heads": [{"name": name, "sides": view.sides(name)} for name in view.heads],
        "sentences": [
            {
                "language": each.label,
                "source": each.source.to_dict(),
                "target": None if each.target is None else each.target.to_dict(),
                "weights": [packed(each.weights[name]) for name in view.heads],
            }
            for each in view.sentences
        ],
    }


def packed(weights: NDArray[np.float32]) -> str:
    """Weights as text: one byte each, the square root of the weight in steps of 1/255, in base64.

    The square root keeps small weights apart: errors are at most 0.4% for a weight of 1, and less for smaller ones.

    Example:
        >>> packed(np.array([[1.0, 0.0, 0.25]], dtype=np.float32))
        '/wCA'
    """
    steps = (255 * np.sqrt(weights.clip(0, 1))).round().astype(np.uint8)
    return base64.b64encode(steps.tobytes()).decode()


def notable_heads(scores: Mapping[str, HeadScores], most: int) -> tuple[str, ...]:
    """The heads with the lowest and the highest values of every language, at most `most`, in the model's order.

    Languages take turns: the lowest and the highest value of each, then the second ones, and so on.

    Example:
        >>> from headwise.scores import Provenance
        >>> names = ("encoder.0.0", "encoder.0.1", "encoder.0.2")
        >>> one = HeadScores(names, (0.1, -0.2, 0.3), (0.1,) * 3, (9,) * 3, ("undecided",) * 3, Provenance("stars", ""))
        >>> notable_heads({"zh": one}, 2)
        ('encoder.0.1', 'encoder.0.2')
    """
    languages = [(each.ranked(), _members(each)) for each in scores.values()]
    chosen: set[str] = set()
    for turn in range(max((len(order) for order, _ in languages), default=0)):
        for order, members in languages:
            for player in (*order[turn : turn + 1], *order[::-1][turn : turn + 1]):
                if len(more := chosen.union(members[player])) > most:
                    return _in_order(chosen, languages)
                chosen = more
    return _in_order(chosen, languages)


_Ranked = tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]


def _members(scores: HeadScores) -> dict[str, tuple[str, ...]]:
    return dict(zip(scores.players, scores.members or ((name,) for name in scores.players), strict=True))


def _in_order(chosen: set[str], languages: Sequence[_Ranked]) -> tuple[str, ...]:
    every = dict.fromkeys(name for _, members in languages for each in members.values() for name in each)
    return tuple(name for name in every if name in chosen)
