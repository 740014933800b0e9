"""How stable the roles of heads are between two results: of two tasks, data sets, or models of the same shape."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headwise.errors import HeadwiseError
from headwise.roles.labels import ROLES, label_heads
from headwise.roles.table import HeadRoles, LanguageRoles
from headwise.stats import Correlation, jaccard, spearman


@dataclass(frozen=True)
class RoleAgreement:
    """The heads with a role in two results.

    Attributes:
        role: The role.
        one: Number of heads with the role in the first result.
        other: Number in the second result.
        both: Number of heads with the role in both.
        jaccard: Jaccard index of the two sets.
    """

    role: str
    one: int
    other: int
    both: int
    jaccard: float


@dataclass(frozen=True)
class RoleComparison:
    """Two results in one language.

    Attributes:
        language: The language.
        same: Share of heads that have exactly the same roles in both results, out of those measured in both.
        roles: The agreement on each role that some head has.
        correlations: Rank correlation of heads by each statistic that both results have.
    """

    language: str
    same: float
    roles: tuple[RoleAgreement, ...]
    correlations: Mapping[str, Correlation]

    @property
    def median_correlation(self) -> float:
        """Median of the rank correlations."""
        return float(np.median([each.rho for each in self.correlations.values()])) if self.correlations else np.nan


def compare_roles(one: HeadRoles, other: HeadRoles) -> tuple[RoleComparison, ...]:
    """Compare the roles of the same heads in two results, for each language that both have.

    Args:
        one: Roles of a model on some data.
        other: Roles on data of another task, or of another model with the same heads, such as one tuned for another
            task.

    Raises:
        HeadwiseError: The results are of different heads, or have no language in common.

    Example:
        >>> from headwise.roles.statistics.base import Column
        >>> def result(*values):
        ...     table = np.array(values)[:, None]
        ...     heads = tuple(f"encoder.0.{number}" for number in range(len(values)))
        ...     return HeadRoles({"de": LanguageRoles(heads, (Column("self"),), table, 0 * table,
        ...                                           np.full(table.shape, 400), 100, 0, 100.0)}, {})
        >>> [found] = compare_roles(result(0.9, 0.8, 0.1, 0.2), result(0.7, 0.3, 0.1, 0.2))
        >>> found.same, found.roles[0].jaccard, found.correlations["self"].rho
        (0.75, 0.5, 1.0)
    """
    if one.heads != other.heads:
        raise HeadwiseError("the two results are of different heads: compare models of the same shape")
    shared = [language for language in one if language in other]
    if not shared:
        raise HeadwiseError(f"the results are of {', '.join(one)} and of {', '.join(other)}: none in common")
    labels = [_labels(each) for each in (one, other)]
    return tuple(_compare(language, one[language], other[language], labels) for language in shared)


def _labels(roles: HeadRoles) -> dict[tuple[str, str], set[str]]:
    """The heads with each role in each language."""
    found: dict[tuple[str, str], set[str]] = {}
    for label in label_heads(roles):
        found.setdefault((label.language, label.role), set()).add(label.head)
    return found


def _compare(
    language: str, one: LanguageRoles, other: LanguageRoles, labels: list[dict[tuple[str, str], set[str]]]
) -> RoleComparison:
    agreements, different = [], set[str]()
    for role in ROLES:
        if not (role.measured_in(one) and role.measured_in(other)):
            continue
        here, there = (each.get((language, role.name), set()) for each in labels)
        different |= here ^ there
        if here | there:
            both = len(here & there)
            agreements.append(RoleAgreement(role.name, len(here), len(there), both, jaccard(here, there)))
    same = 1 - len(different) / len(one.heads)
    return RoleComparison(language, same, tuple(agreements), _correlations(one, other))


def _correlations(one: LanguageRoles, other: LanguageRoles) -> dict[str, Correlation]:
    """Rank correlations over the heads with a value in both results, if there are at least four."""
    found = {}
    for column in one.columns:
        if other.place(column.name) is None:
            continue
        values = np.stack([one[column.name], other[column.name]])
        values = values[:, ~np.isnan(values).any(0)]
        if values.shape[1] >= 4 and (np.ptp(values, axis=1) > 0).all():
            found[column.name] = spearman(*values)
    return found
