"""Roles of heads: statistics above thresholds, those of the papers where these give one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.roles.statistics.base import Column
from headwise.roles.table import HeadRoles, LanguageRoles

#: Fewest tokens, words or sentences that a value must be a mean of.
FEWEST = 20


@dataclass(frozen=True)
class Role:
    """A role: a head has it if one of its statistics reaches a threshold.

    Attributes:
        name: Its name.
        statistics: The names of its statistics, or what they begin with if they end with a colon.
        threshold: The smallest value.
        above_baseline: Whether the threshold is a difference from the statistic's baseline.
        without: Beginnings of the names of statistics that do not give the role.
        source: Where the threshold comes from.
    """

    name: str
    statistics: tuple[str, ...]
    threshold: float
    above_baseline: bool = False
    without: tuple[str, ...] = ()
    source: str = "headwise"

    def includes(self, column: Column) -> bool:
        """Whether a statistic is one of the role's."""
        named = any(
            column.name.startswith(name) if name.endswith(":") else column.name == name for name in self.statistics
        )
        return named and not any(map(column.name.startswith, self.without))

    def measured_in(self, found: LanguageRoles) -> bool:
        """Whether one of the role's statistics was measured on some tokens."""
        return any(self.includes(each) and found.count[:, place].any() for place, each in enumerate(found.columns))

    def least(self, column: Column) -> float:
        """The smallest value of a statistic that gives the role."""
        return self.threshold + column.baseline if self.above_baseline else self.threshold


#: All roles. To add one, add a row.
ROLES = (
    Role("positional", ("offset:",), 0.9, source="Voita et al., 2019, section 5.1"),
    # Attention to punctuation is not syntactic: the head of a punctuation mark is a convention of treebanks.
    Role("syntactic", ("syntax:",), 0.1, True, ("syntax:punct:",), source="Voita et al., 2019, section 5.2"),
    Role("rare", ("rare:2",), 0.5, source="Voita et al., 2019, section 5.3"),
    Role("separator", ("separator_top",), 0.5),
    Role("self", ("self",), 0.5),
    Role("first", ("first",), 0.5),
    Role("broad", ("broad",), 0.5),
    Role("duplicate", ("duplicate",), 0.5),
    Role("induction", ("induction",), 0.5),
    Role("retrieval", ("retrieval",), 0.1, source="Wu et al., 2024"),
    Role("transition", ("transition",), 0.1),
    Role("alignment", ("alignment:link:",), 0.1, True),
)


@dataclass(frozen=True)
class RoleLabel:
    """A role of a head in a language.

    Attributes:
        head: The head.
        language: The language.
        role: Name of the role.
        statistic: The statistic that gives the role, such as `offset:-1`.
        value: Its value.
        threshold: The smallest value that gives the role.
        sure: Whether the whole interval of the value is at or above the threshold.
    """

    head: str
    language: str
    role: str
    statistic: str
    value: float
    threshold: float
    sure: bool


def label_heads(roles: HeadRoles) -> tuple[RoleLabel, ...]:
    """The roles of all heads in all languages; a head may have several, and one role by several statistics.

    A statistic with fewer than `FEWEST` occurrences gives no role, and neither does a relative position that fewer than
    half of the tokens have.

    Example:
        >>> column = Column("offset:-1")
        >>> one = LanguageRoles(("encoder.0.0",), (column,), np.array([[0.95]]), np.array([[0.01]]), np.array([[400]]),
        ...                     100, 0, 100.0)
        >>> label, = label_heads(HeadRoles({"de": one}, {}))
        >>> label.role, label.statistic, label.sure
        ('positional', 'offset:-1', True)
    """
    return tuple(label for language, found in roles.items() for label in _label(language, found))


def _label(language: str, found: LanguageRoles) -> list[RoleLabel]:
    low, _ = found.intervals()
    enough = _enough(found)
    labels = []
    for role in ROLES:
        for place, column in enumerate(found.columns):
            if not role.includes(column):
                continue
            least = role.least(column)
            with np.errstate(invalid="ignore"):
                chosen = np.flatnonzero((found.value[:, place] >= least - 1e-9) & enough[:, place])
            labels += [
                RoleLabel(found.heads[head], language, role.name, column.name, float(found.value[head, place]), least,
                          bool(low[head, place] >= least))
                for head in chosen
            ]  # fmt: skip
    return labels


def _enough(found: LanguageRoles) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether values are means of enough occurrences, (heads, columns)."""
    offsets = np.array([column.name.startswith("offset:") for column in found.columns])
    most = np.where(offsets, found.count, 0).max(1, keepdims=True, initial=0)
    enough: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (found.count >= FEWEST) & (
        ~offsets | (2 * found.count >= most)
    )
    return enough


def heads_by_role(labels: Sequence[RoleLabel]) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """The languages in which each head has each role: `found[role][head]`."""
    found: dict[str, dict[str, set[str]]] = {}
    for label in labels:
        found.setdefault(label.role, {}).setdefault(label.head, set()).add(label.language)
    return {role: {head: frozenset(languages) for head, languages in heads.items()} for role, heads in found.items()}
