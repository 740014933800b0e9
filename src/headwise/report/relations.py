"""The dependency relation that each head follows best, for the page of a head."""

from collections.abc import Iterator, Mapping
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

    Heads that exceed the offset of no relation have none.

    Returns:
        `names` of relations; `rows[language]`: a list of [player, number of the name, accuracy in percent]; and
        `offsets[language]`: the accuracy of the offset in percent, by the number of the name. Empty if the roles have
        no relations.
    """
    places, names = places_of(scores), dict[str, int]()
    rows: dict[str, list[list[int]]] = {}
    offsets: dict[str, dict[int, int]] = {}
    for language, found in roles.items():
        for head, relation, value, baseline in _best(found):
            if head in places.get(language, {}):
                number = names.setdefault(relation, len(names))
                rows.setdefault(language, []).append([places[language][head], number, round(100 * value)])
                offsets.setdefault(language, {})[number] = round(100 * baseline)
    return {"names": list(names), "rows": rows, "offsets": offsets} if rows else {}


def _best(found: LanguageRoles) -> Iterator[tuple[str, str, float, float]]:
    """The head, its best relation, its accuracy and that of the offset, for each head that has one."""
    columns = [
        place
        for place, column in enumerate(found.columns)
        if column.name.startswith(_SYNTAX) and not column.name.startswith(_PUNCTUATION)
    ]
    if not columns:
        return
    baselines = np.array([found.columns[place].baseline for place in columns])
    enough = (found.count[:, columns] >= FEWEST) & ~np.isnan(found.value[:, columns])
    excess = np.where(enough, found.value[:, columns] - baselines, 0.0)  # (heads, relations)
    for head, best in enumerate(excess.argmax(1)):
        if excess[head, best] > 0:
            _, relation, direction = found.columns[columns[best]].name.split(":")
            yield (
                found.heads[head], relation_name(relation, direction), float(found.value[head, columns[best]]),
                float(baselines[best]),
            )  # fmt: skip
