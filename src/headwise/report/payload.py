"""The data of the page as one compact JSON object, which the script of the page draws from.

Values are whole numbers in steps of `10**-decimals`. Players and maps are listed once for all languages that have the
same players (a `shape`), and decisions are one letter per player.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwise.report.attended import attention_payload
from headwise.report.contents import NOUNS, Report
from headwise.report.grids import grids
from headwise.report.names import name_of
from headwise.report.numbers import decimals_for
from headwise.report.palette import limit_of
from headwise.report.relations import best_relations, places_of
from headwise.roles.labels import ROLES, label_heads
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores

#: Version of the object; the script of another version cannot read it.
VERSION = 3
#: The estimand of scores that are the effect of removing one player alone.
ALONE = "leave-one-out"
_LETTERS = {"harmful": "-", "helpful": "+", "undecided": "?"}


def payload_of(report: Report) -> dict[str, Any] | None:
    """The data of the atlas; None if there are no scores.

    Raises:
        HeadwiseError: A player's name is invalid.
    """
    scores = {language: each for language, each in report.scores.items() if each.players}
    if not scores:
        return None
    shapes: dict[tuple[str, ...], HeadScores] = {}
    values = [value for each in scores.values() for value in each.value]
    main = _run(report.name, scores, shapes)
    compared = [_run(run.name, run.scores, shapes) for run in report.compared]
    for language in (language for run in compared for language in run["languages"]):
        del language["count"], language["limit"]  # only the maps of the main run show them
    return {
        "version": VERSION,
        "noun": report.noun,
        "signed": any(each.provenance.signed for each in scores.values()),
        "decimals": main["decimals"],
        "limit": limit_of(values),
        "languages": main.pop("languages"),
        "runs": [main, *compared],
        "shapes": [_shape(each) for each in shapes.values()],
        "masks": _masks(report, scores),
        "roles": _roles(report.roles, scores) if report.roles is not None else {},
        "relations": best_relations(report.roles, scores) if report.roles is not None else {},
        "attention": None if report.attention is None else attention_payload(report.attention),
    }


def _run(name: str, scores: Mapping[str, HeadScores], shapes: dict[tuple[str, ...], HeadScores]) -> dict[str, Any]:
    """The scores of one run; its shapes are added to those that are known."""
    known = {language: each for language, each in scores.items() if each.players}
    for each in known.values():
        shapes.setdefault(each.players, each)
    places = {players: place for place, players in enumerate(shapes)}
    decimals = decimals_for([value for each in known.values() for value in each.value]) + 1
    scales = {scale: place for place, scale in enumerate(dict.fromkeys(map(_scale, known.values())))}
    return {
        "name": name,
        "about": _about(known),
        "scales": list(scales),
        "alone": all(each.provenance.estimand == ALONE for each in known.values()),
        "decimals": decimals,
        "languages": [
            {
                "code": code,
                "name": name_of(code),
                "shape": places[each.players],
                "scale": scales[_scale(each)],
                **_numbers(each, decimals),
            }
            for code, each in known.items()
        ],
    }


def _scale(scores: HeadScores) -> str:
    """What the values of scores are: the value of a coalition, and the estimand."""
    return ", ".join(filter(None, (scores.provenance.game, scores.provenance.estimand)))


def _about(scores: Mapping[str, HeadScores]) -> str:
    """Method, estimand, game, baseline and seed of a run, each once."""
    origins = [each.provenance for each in scores.values()]
    parts = [
        *(origin.method for origin in origins),
        *(origin.estimand for origin in origins),
        *(origin.game for origin in origins),
        *(f"baseline {origin.baseline}" for origin in origins if origin.baseline != "zero"),
        *(f"seed {origin.seed}" for origin in origins if origin.seed),
    ]
    return ", ".join(dict.fromkeys(part for part in parts if part))


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
        "members": [list(each) for each in scores.members] or None,
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
    places = places_of(scores)
    for label in label_heads(roles):
        place = places.get(label.language, {}).get(label.head)
        if place is not None:
            row = [place, label.statistic, round(label.value, 3), int(label.sure)]
            found[label.role].setdefault(label.language, []).append(row)
    return {role: languages for role, languages in found.items() if languages}
