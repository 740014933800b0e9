"""What the statistics say together: best heads of relations, roles shared between languages, roles that are removed."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headwise.masks import HeadMask
from headwise.roles.labels import ROLES, heads_by_role, label_heads
from headwise.roles.table import HeadRoles, LanguageRoles
from headwise.stats import jaccard, spearman_matrix


@dataclass(frozen=True)
class BestHead:
    """The head that follows a relation best (Voita et al., 2019, table 1).

    Attributes:
        relation: The relation, such as `nsubj`.
        direction: `head` if dependents attend to their heads, `dependent` if heads attend to their dependents.
        head: The best head.
        value: How often its largest attention goes to the related word.
        low: Lower end of the interval of the value, which ignores that the head is the best of many.
        high: Upper end.
        baseline: How often the relation's most frequent offset is right.
        count: Number of words.
    """

    relation: str
    direction: str
    head: str
    value: float
    low: float
    high: float
    baseline: float
    count: int


def best_heads(found: LanguageRoles) -> tuple[BestHead, ...]:
    """The best head of each relation and direction in one language."""
    low, high = found.intervals()
    rows = []
    for place, column in enumerate(found.columns):
        if not column.name.startswith("syntax:"):
            continue
        _, relation, direction = column.name.split(":")
        head = int(np.nanargmax(found.value[:, place]))
        rows.append(
            BestHead(
                relation, direction, found.heads[head],
                value=float(found.value[head, place]), low=float(low[head, place]), high=float(high[head, place]),
                baseline=column.baseline, count=int(found.count[head, place]),
            )
        )  # fmt: skip
    return tuple(rows)


@dataclass(frozen=True)
class RoleStability:
    """How much languages agree on the heads of a role.

    Attributes:
        role: The role.
        any_language: Heads that have the role in at least one language.
        all_languages: Heads that have it in every language.
        jaccard: Mean Jaccard index of the sets of heads of two languages; NaN if no language has such a head.
    """

    role: str
    any_language: tuple[str, ...]
    all_languages: tuple[str, ...]
    jaccard: float


def role_stability(roles: HeadRoles) -> tuple[RoleStability, ...]:
    """How much languages agree on each role; needs at least two languages for the Jaccard index."""
    by_role = heads_by_role(label_heads(roles))
    found = []
    for role in ROLES:
        heads = by_role.get(role.name, {})
        sets = [{head for head, where in heads.items() if language in where} for language in roles]
        pairs = [jaccard(one, other) for one, other in combinations(sets, 2) if one or other]
        ordered = [head for head in roles.heads if head in heads]
        everywhere = tuple(head for head in ordered if len(heads[head]) == len(roles))
        found.append(
            RoleStability(role.name, tuple(ordered), everywhere, float(np.mean(pairs)) if pairs else float("nan"))
        )
    return tuple(found)


def statistic_stability(roles: HeadRoles) -> dict[str, float]:
    """The mean rank correlation, over pairs of languages, of the values of all heads, for each shared statistic.

    Heads without a value in one of the languages are left out, and so are statistics with fewer than four heads.
    """
    names = [column.name for column in next(iter(roles.values())).columns]
    found = {}
    for name in names if len(roles) > 1 else ():
        if any(each.place(name) is None for each in roles.values()):
            continue
        values = np.stack([each[name] for each in roles.values()])  # (languages, heads)
        values = values[:, ~np.isnan(values).any(0)]
        if values.shape[1] >= 4 and (np.ptp(values, axis=1) > 0).all():
            matrix = spearman_matrix(list(values))
            found[name] = float(matrix[np.triu_indices(len(matrix), 1)].mean())
    return found


@dataclass(frozen=True)
class SurvivingRole:
    """How many heads of a role a mask keeps (Voita et al., 2019, figure 8).

    Attributes:
        language: The language.
        role: The role.
        heads: Number of heads with the role.
        kept: Number of these that the mask keeps.
        share: The share of all heads that the mask keeps, to compare with.
    """

    language: str
    role: str
    heads: int
    kept: int
    share: float


def surviving_roles(roles: HeadRoles, masks: Mapping[str, HeadMask]) -> tuple[SurvivingRole, ...]:
    """Which roles survive pruning, for the languages that have a mask."""
    by_role = heads_by_role(label_heads(roles))
    found = []
    for language, mask in masks.items():
        off = set(mask.off)
        share = 1 - len(off.intersection(roles.heads)) / len(roles.heads)
        for role in ROLES:
            heads = {head for head, where in by_role.get(role.name, {}).items() if language in where}
            if heads:
                found.append(SurvivingRole(language, role.name, len(heads), len(heads - off), share))
    return tuple(found)
