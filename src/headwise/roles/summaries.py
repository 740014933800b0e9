"""What the statistics say together: best heads of relations, roles shared between languages, roles that are removed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.masks import HeadMask
from headwise.roles.labels import ROLES, heads_by_role, label_heads
from headwise.roles.statistics.alignment import DIRECTIONS
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
class AlignmentHead:
    """The head that links words with their translations best, in one direction (Held & Yang, 2023, figure 4).

    Attributes:
        pair: The pair of languages.
        direction: `forward` from the first language to the second, or `backward`.
        head: The head with the largest `link`.
        link: How often the largest attention to a word of the other sentence is to the linked word.
        low: Lower end of the interval of `link`, which ignores that the head is the best of many.
        high: Upper end.
        baseline: How often the word at the same relative position is the linked one.
        weight: Attention to the linked word.
        shuffled: Mean attention to a word of the other sentence.
        count: Number of linked words.
        heads: Number of heads with the role `alignment` in this direction.
    """

    pair: str
    direction: str
    head: str
    link: float
    low: float
    high: float
    baseline: float
    weight: float
    shuffled: float
    count: int
    heads: int


def alignment_heads(roles: HeadRoles) -> tuple[AlignmentHead, ...]:
    """The best alignment head of each pair of languages and direction; empty if no pairs were measured.

    Directions that a causal model cannot see are left out.
    """
    labels = [label for label in label_heads(roles) if label.role == "alignment"]
    rows = []
    for pair, found in roles.items():
        low, high = found.intervals()
        for direction in DIRECTIONS:
            name = f"alignment:link:{direction}"
            place = found.place(name)
            if place is None or np.isnan(found.value[:, place]).all():
                continue
            head = int(np.nanargmax(found.value[:, place]))
            link, weight, shuffled = (
                float(found[f"alignment:{kind}:{direction}"][head]) for kind in ("link", "weight", "shuffled")
            )
            rows.append(
                AlignmentHead(
                    pair, direction, found.heads[head], link, float(low[head, place]), float(high[head, place]),
                    found.columns[place].baseline, weight, shuffled, int(found.count[head, place]),
                    sum((label.language, label.statistic) == (pair, name) for label in labels),
                )
            )  # fmt: skip
    return tuple(rows)


def roles_by_layer(roles: HeadRoles) -> dict[str, tuple[tuple[str, ...], NDArray[np.float64]]]:
    """The number of heads with each role in each layer, as a mean over the languages that the role was measured in.

    Returns:
        For each stack, the roles whose statistics were measured, and a table, (roles, layers).

    Example:
        >>> from headwise.roles.statistics.base import Column
        >>> heads = ("encoder.0.0", "encoder.1.0")
        >>> one = LanguageRoles(heads, (Column("self"),), np.array([[0.1], [0.9]]), np.zeros((2, 1)),
        ...                     np.full((2, 1), 400), 100, 0, 100.0)
        >>> roles_by_layer(HeadRoles({"de": one}, {}))
        {'encoder': (('self',), array([[0., 1.]]))}
    """
    by_role = heads_by_role(label_heads(roles))
    present = [role for role in ROLES if any(map(role.measured_in, roles.values()))]
    places = [head.split(".")[:2] for head in roles.heads]
    found = {}
    for stack in dict.fromkeys(stack for stack, _ in places):
        layers = 1 + max(int(layer) for name, layer in places if name == stack)
        table = np.zeros((len(present), layers))
        for row, role in enumerate(present):
            number = sum(map(role.measured_in, roles.values()))
            for head, where in by_role.get(role.name, {}).items():
                name, layer = head.split(".")[:2]
                if name == stack:
                    table[row, int(layer)] += len(where) / number
        found[stack] = (tuple(role.name for role in present), table)
    return found


@dataclass(frozen=True)
class RoleStability:
    """How much languages agree on the heads of a role.

    Attributes:
        role: The role.
        any_language: Heads that have the role in at least one language.
        all_languages: Heads that have it in every language in which its statistics were measured.
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
        heads, languages = by_role.get(role.name, {}), [each for each in roles if role.measured_in(roles[each])]
        sets = [{head for head, where in heads.items() if language in where} for language in languages]
        pairs = [jaccard(one, other) for one, other in combinations(sets, 2) if one or other]
        ordered = [head for head in roles.heads if head in heads]
        everywhere = tuple(head for head in ordered if len(heads[head]) == len(languages))
        found.append(
            RoleStability(role.name, tuple(ordered), everywhere, float(np.mean(pairs)) if pairs else float("nan"))
        )
    return tuple(found)


def statistic_stability(roles: HeadRoles) -> dict[str, float]:
    """The mean rank correlation, over pairs of languages, of the values of all heads, for each shared statistic.

    Statistics that some languages do not have, such as rare relations, are left out. So are heads without a value in
    one of the languages, and statistics with fewer than four heads. Languages and pairs of languages are not compared
    with each other.
    """
    pairs = {key for key, each in roles.items() if each.place("alignment:link:forward") is not None}
    found = {}
    for keys in ([key for key in roles if key not in pairs], [key for key in roles if key in pairs]):
        tables = [roles[key] for key in keys]
        for name in [column.name for column in tables[0].columns] if len(tables) > 1 else ():
            if any(each.place(name) is None for each in tables):
                continue
            values = np.stack([each[name] for each in tables])  # (languages, heads)
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


@dataclass(frozen=True)
class RetainedRoles:
    """The roles of the heads that one mask keeps: a column of Voita et al. (2019), figure 8.

    Attributes:
        language: The language.
        kept: Number of heads that the mask keeps.
        total: Number of heads.
        roles: Number of kept heads with each role; a head with several roles counts for each.
        none: Number of kept heads without a role.
    """

    language: str
    kept: int
    total: int
    roles: Mapping[str, int]
    none: int


def retained_roles(roles: HeadRoles, masks: Iterable[HeadMask]) -> tuple[RetainedRoles, ...]:
    """The roles of the heads that each of several masks keeps, such as those of a path of L0 penalties.

    Roles are those of the full model, in the language of the mask; the roles of a pruned model itself, which may differ
    (Voita et al. saw roles move to other heads), need a measurement of their own.

    Args:
        roles: The roles.
        masks: The masks; each knows its language.

    Returns:
        A column for each mask, by language and the number of heads kept, the largest first. The first column of a
        language is the full model.

    Raises:
        HeadwiseError: A mask has no language, a language without roles, or other heads.

    Example:
        >>> from headwise.roles.statistics.base import Column
        >>> one = LanguageRoles(("encoder.0.0", "encoder.0.1"), (Column("self"),), np.array([[0.9], [0.1]]),
        ...                     np.zeros((2, 1)), np.array([[400], [400]]), 100, 0, 100.0)
        >>> mask = HeadMask(("encoder.0.0", "encoder.0.1"), (False, True), language="de")
        >>> for column in retained_roles(HeadRoles({"de": one}, {}), [mask]):
        ...     print(column.kept, dict(column.roles), column.none)
        2 {'self': 1} 1
        1 {'self': 0} 1
    """
    by_language: dict[str, list[frozenset[str]]] = {}
    for mask in masks:
        language = mask.language or ""
        if language not in roles:
            raise HeadwiseError(f"a mask is of the language {language!r}, but roles are of {', '.join(roles)}")
        if missing := set(roles.heads) - set(mask.players):
            raise HeadwiseError(f"the mask of {language} has no head {min(missing)}: give masks of this model")
        kept = frozenset(roles.heads) - set(mask.off)
        by_language.setdefault(language, [frozenset(roles.heads)]).append(kept)
    labels = heads_by_role(label_heads(roles))
    found = []
    for language, sets in by_language.items():
        owners = {role: {head for head, where in heads.items() if language in where} for role, heads in labels.items()}
        owners = {role.name: owners[role.name] for role in ROLES if owners.get(role.name)}
        anyone = set().union(*owners.values())
        found += [
            RetainedRoles(language, len(kept), len(roles.heads),
                          {role: len(heads & kept) for role, heads in owners.items()}, len(kept - anyone))
            for kept in sorted(set(sets), key=lambda kept: (-len(kept), sorted(kept)))
        ]  # fmt: skip
    return tuple(found)


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
