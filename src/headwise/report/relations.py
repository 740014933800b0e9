"""The dependency relation that each head follows best, for the page of a head."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwise.roles.labels import FEWEST
from headwise.roles.plots import relation_name
from headwise.roles.table import HeadRoles, LanguageRoles
from headwise.scores import HeadScores

#: Beginnings of the names of statistics of relations, and of those that are conventions of treebanks.
_SYNTAX, _PUNCTUATION = "syntax:", "syntax:punct:"


def places_of(scores: Mapping[str, HeadScores]) -> dict[str, dict[str, int]]:
    """The number of the player of each head, by language."""
    return {
        language: {
            member: place
            for place, name in enumerate(each.players)
            for member in (each.members[place] if each.members else (name,))
        }
        for language, each in scores.items()
    }


def best_relations(roles: HeadRoles, scores: Mapping[str, HeadScores]) -> dict[str, Any]:
    """The relation of every head whose accuracy exceeds that of its most frequent offset by most.

    Returns:
        `names`, and `rows[language]`: a list of [player, number of the name, accuracy, that of the offset]. Empty if
        the roles have no relations.
    """
    places, names = places_of(scores), dict[str, int]()
    rows: dict[str, list[list[Any]]] = {}
    for language, found in roles.items():
        if language not in places:
            continue
        for head, relation, value, baseline in _best(found):
            if head in places[language]:
                row = [places[language][head], names.setdefault(relation, len(names)), value, baseline]
                rows.setdefault(language, []).append(row)
    return {"names": list(names), "rows": rows} if rows else {}


def _best(found: LanguageRoles) -> list[tuple[str, str, float, float]]:
    """The head, its best relation, its accuracy and that of the offset, for each head that has one."""
    columns = [
        place
        for place, column in enumerate(found.columns)
        if column.name.startswith(_SYNTAX) and not column.name.startswith(_PUNCTUATION)
    ]
    if not columns:
        return []
    baselines = np.array([found.columns[place].baseline for place in columns])
    excess = np.where(found.count[:, columns] >= FEWEST, found.value[:, columns] - baselines, np.nan)
    excess = np.where(np.isnan(excess), -np.inf, excess)  # (heads, relations)
    rows = []
    for head, best in enumerate(excess.argmax(1)):
        if np.isfinite(excess[head, best]):
            _, relation, direction = found.columns[columns[best]].name.split(":")
            value = float(found.value[head, columns[best]])
            rows.append(
                (
                    found.heads[head],
                    relation_name(relation, direction),
                    round(value, 3),
                    round(float(baselines[best]), 3),
                )
            )
    return rows
