"""Comparison of languages: rank correlation of their scores, and heads that help all languages or only one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.scores import HeadScores
from headwise.stats import spearman_matrix

Array = NDArray[np.float64]

#: A head is language-agnostic if its value is among the `TOP` highest values in every language.
TOP = 20
# Minimum number of players for a rank correlation.
_FEWEST = 4


@dataclass(frozen=True, eq=False)
class Shared:
    """Scores of the players that several languages have in common.

    Attributes:
        languages: The languages.
        players: The players that have a value in all of them.
        values: Their values, (languages, players).
        decisions: Their decisions, (languages, players): 1 helpful, −1 harmful, 0 undecided.

    Example:
        >>> names = ("encoder.0.0", "encoder.0.1", "encoder.0.2", "encoder.0.3")
        >>> values = np.array([[0.4, 0.3, 0.1, -0.2], [0.3, 0.4, -0.1, 0.1]])
        >>> shared = Shared(("sw", "tr"), names, values, np.sign(values))
        >>> shared.agnostic(), list(shared.opposed())
        (('encoder.0.0', 'encoder.0.1'), ['encoder.0.2', 'encoder.0.3'])
        >>> shared.likeness().round(2).tolist()
        [[1.0, 0.6], [0.6, 1.0]]
    """

    languages: tuple[str, ...]
    players: tuple[str, ...]
    values: Array
    decisions: Array

    @property
    def top(self) -> int:
        """Number of highest values that count as a language's best: `TOP`, but at most half of the players."""
        return min(TOP, len(self.players) // 2)

    def likeness(self) -> Array:
        """Spearman's rank correlation of the values of every two languages, (languages, languages)."""
        return spearman_matrix(list(self.values))

    def agnostic(self) -> tuple[str, ...]:
        """The players that are among the best in every language."""
        best = [set(np.argsort(-values, kind="stable")[: self.top].tolist()) for values in self.values]
        return tuple(self.players[place] for place in sorted(set.intersection(*best)))

    def opposed(self) -> dict[str, Array]:
        """The decisions on every player that is harmful in one language and helpful in another, (languages,) each.

        Players that are specific to one language (see `specific_to`) come first.
        """
        found = {
            name: column
            for name, column in zip(self.players, self.decisions.T, strict=True)
            if {-1.0, 1.0} <= set(column.tolist())
        }
        return dict(sorted(found.items(), key=lambda item: specific_to(item[1]) is None))

    def deciding(self, decisions: Array, sign: float) -> tuple[str, ...]:
        """The languages whose decision on a player has the given sign."""
        return tuple(name for name, found in zip(self.languages, decisions, strict=True) if found == sign)


def specific_to(decisions: Array) -> int | None:
    """The index of the only language whose decision is the opposite of all others; None if there is none.

    All languages must have a decision, and there must be at least three of them.

    Example:
        >>> specific_to(np.array([1.0, -1.0, 1.0])), specific_to(np.array([1.0, -1.0, 0.0]))
        (1, None)
    """
    if len(decisions) < 3 or not decisions.all():
        return None
    for sign in (-1.0, 1.0):
        [alone] = np.nonzero(decisions == sign)
        if len(alone) == 1:
            return int(alone[0])
    return None


def shared_scores(scores: Mapping[str, HeadScores]) -> Shared | None:
    """The scores that can be compared between languages, or None if there are none.

    None is returned for fewer than two languages, different estimands, or fewer than four players in common.

    Args:
        scores: The scores of each language.

    Example:
        >>> from headwise.scores import Provenance
        >>> names = ("encoder.0.0", "encoder.0.1", "encoder.0.2", "encoder.0.3")
        >>> one = HeadScores(names, (0.4, 0.3, 0.1, -0.2), (0.1,) * 4, (9,) * 4,
        ...                  ("helpful", "helpful", "undecided", "harmful"), Provenance("stars", "full"))
        >>> shared = shared_scores({"sw": one, "tr": one})
        >>> shared.languages, shared.decisions[0].tolist()
        (('sw', 'tr'), [1.0, 1.0, 0.0, -1.0])
        >>> shared_scores({"sw": one}) is None
        True
    """
    sets = list(scores.values())
    if len(sets) < 2 or len({each.provenance.estimand for each in sets}) > 1:
        return None
    places = [{name: place for place, name in enumerate(each.players)} for each in sets]
    known = [
        {name for name, value in zip(each.players, each.value, strict=True) if not math.isnan(value)} for each in sets
    ]
    players = tuple(name for name in sets[0].players if all(name in names for names in known))
    if len(players) < _FEWEST:
        return None
    signs = {"helpful": 1.0, "harmful": -1.0, "undecided": 0.0}
    values = [[each.value[at[name]] for name in players] for each, at in zip(sets, places, strict=True)]
    decisions = [[signs[each.decision[at[name]]] for name in players] for each, at in zip(sets, places, strict=True)]
    return Shared(tuple(scores), players, np.array(values, dtype=np.float64), np.array(decisions))
