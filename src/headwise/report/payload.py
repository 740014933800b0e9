"""The data of the page as one compact JSON object, which the script of the page draws from.

Values are whole numbers in steps of `10**-decimals`. Players and maps are listed once for all languages that have the
same players (a `shape`), and decisions are one letter per player.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwise.report.contents import NOUNS, Report
from headwise.report.grids import grids
from headwise.report.names import name_of
from headwise.report.numbers import decimals_for
from headwise.report.palette import limit_of
from headwise.roles.labels import ROLES, label_heads
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores

#: Version of the object; the script of another version cannot read it.
VERSION = 2
_LETTERS = {"harmful": "-", "helpful": "+", "undecided": "?"}


def payload_of(report: Report) -> dict[str, Any] | None:
    """The data of the atlas; None if there are no scores.

    Raises:
        HeadwiseError: A player's name is invalid.
    """
    scores = {language: each for language, each in report.scores.items() if each.players}
    if not scores:
        return None
    values = [value for each in scores.values() for value in each.value]
    decimals = decimals_for(values) + 1
    shapes: dict[tuple[str, ...], int] = {}
    languages = [
        {
            "code": language,
            "name": name_of(language),
            "shape": shapes.setdefault(each.players, len(shapes)),
            **_numbers(each, decimals),
        }
        for language, each in scores.items()
    ]
    by_players = {each.players: each for each in scores.values()}
    return {
        "version": VERSION,
        "noun": report.noun,
        "decimals": decimals,
        "limit": limit_of(values),
        "shapes": [_shape(by_players[players]) for players in shapes],
        "languages": languages,
        "masks": _masks(report, scores),
        "roles": _roles(report.roles, scores) if report.roles is not None else {},
    }


def _numbers(scores: HeadScores, decimals: int) -> dict[str, Any]:
    return {
        "value": _scaled(scores.value, decimals),
        "stderr": _scaled(scores.stderr, decimals),
        "count": [int(n) for n in scores.count],
        "decision": "".join(_LETTERS[each] for each in scores.decision),
        "limit": limit_of(scores.value),
    }


def _scaled(values: Sequence[float], decimals: int) -> list[int | str | None]:
    """Values as whole numbers; None for missing ones, and text for infinite ones."""
    found = np.array(values, dtype=np.float64) * 10.0**decimals
    return [
        round(value) if math.isfinite(value) else None if math.isnan(value) else str(value).replace("inf", "Infinity")
        for value in found.tolist()
    ]


def _shape(scores: HeadScores) -> dict[str, Any]:
    return {
        "players": list(scores.players),
        "kind": NOUNS[scores.kind],
        "grids": [
            {
                "title": grid.title,
                "rows": list(grid.row_names),
                "columns": grid.columns,
                "places": [[row, column, place] for (row, column), place in grid.places.items()],
                "rowTitle": grid.row_title,
                "columnTitle": grid.column_title,
            }
            for grid in grids(scores.players, scores.kind)
        ],
    }


def _masks(report: Report, scores: Mapping[str, HeadScores]) -> dict[str, dict[str, list[int]]]:
    """The numbers of the players that every mask removes, by mask and language."""
    found: dict[str, dict[str, list[int]]] = {}
    for section in report.sections:
        for name, languages in section.masks.items():
            found[name] = {
                language: _players_of(off, scores[language])
                for language, off in languages.items()
                if language in scores
            }
    return found


def _players_of(off: Sequence[str], scores: HeadScores) -> list[int]:
    """The players all of whose members are off."""
    gone = set(off)
    members = scores.members or tuple((name,) for name in scores.players)
    return [place for place, each in enumerate(members) if gone.issuperset(each)]


def _roles(roles: HeadRoles, scores: Mapping[str, HeadScores]) -> dict[str, dict[str, list[list[Any]]]]:
    """The roles of the players: `found[role][language]` is a list of [player, statistic, value, sure]."""
    found: dict[str, dict[str, list[list[Any]]]] = {role.name: {} for role in ROLES}
    places = {
        language: {
            member: place
            for place, name in enumerate(each.players)
            for member in (each.members[place] if each.members else (name,))
        }
        for language, each in scores.items()
    }
    for label in label_heads(roles):
        place = places.get(label.language, {}).get(label.head)
        if place is not None:
            row = [place, label.statistic, round(label.value, 3), int(label.sure)]
            found[label.role].setdefault(label.language, []).append(row)
    return {role: languages for role, languages in found.items() if languages}
