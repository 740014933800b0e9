"""Roles joined with scores: separators, what roles are worth, and heads that are shared by or specific to languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.roles.labels import heads_by_role, label_heads
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores
from headwise.scores.affinity import shared_scores, specific_to
from headwise.scores.rules import tells_likely
from headwise.stats.multiple import holm

#: Error rate of the tests of all languages together.
ERROR_RATE = 0.05


@dataclass(frozen=True)
class SeparatorTest:
    """The Mann-Whitney U test of one language: do harmful heads attend to separators more or less than other heads?

    Heads are the samples. Holm's procedure over all tested languages decides which results are significant.

    Attributes:
        language: The language.
        harmful: Number of harmful heads: likely harmful ones if the scores show them, otherwise decided ones.
        others: Number of other heads.
        harmful_mean: Mean of the statistic over harmful heads.
        others_mean: Mean over other heads.
        superiority: Probability that a random harmful head has a larger value than a random other head, with ties
            counted by one half; 0.5 means no difference.
        p_value: Two-sided p-value; NaN if there are no harmful or no other heads.
        significant: Whether the difference is significant at a rate of 5% over all languages.
    """

    language: str
    harmful: int
    others: int
    harmful_mean: float
    others_mean: float
    superiority: float
    p_value: float
    significant: bool


def separator_test(
    roles: HeadRoles, scores: Mapping[str, HeadScores], statistic: str = "separator_top"
) -> tuple[SeparatorTest, ...]:
    """Test for each language whether harmful heads attend to separators more or less than others (Held & Yang, §5.2).

    Args:
        roles: The roles.
        scores: Scores of heads of the same model by language.
        statistic: The statistic to compare: `separator_top`, `separator_all`, `separator_weight` or any other one.

    Raises:
        HeadwiseError: Roles and scores have no language in common, or are of different heads.
    """
    measured = []
    for language in _shared_languages(roles, scores):
        bad = harmful_heads(scores[language])
        values = roles[language][statistic]
        harmful = np.array([head in bad for head in roles[language].heads])
        known = ~np.isnan(values)
        measured.append((language, values[harmful & known], values[~harmful & known]))
    tests = _tests([(one, other) for _, one, other in measured])
    return tuple(SeparatorTest(language, *test) for (language, *_), test in zip(measured, tests, strict=True))


@dataclass(frozen=True)
class RoleValue:
    """What heads with a role are worth in a language, compared with the other heads by the Mann-Whitney U test.

    With scores of the baseline `mean`, it says which roles mean ablation hurts: those whose heads have large values,
    because the model needs what these heads compute for each input, and not only their mean output.

    Attributes:
        language: The language.
        baseline: What replaced removed heads: `zero` or `mean`.
        role: The role.
        heads: Number of heads with the role.
        others: Number of other heads.
        value: Mean value of heads with the role; above 0, the model loses when they are removed.
        others_value: Mean value of other heads.
        superiority: Probability that a random head with the role has a larger value than a random other head, with
            ties counted by one half.
        p_value: Two-sided p-value; NaN if no head or every head has the role.
        significant: Whether the difference is significant at a rate of 5% over all roles and languages.
    """

    language: str
    baseline: str
    role: str
    heads: int
    others: int
    value: float
    others_value: float
    superiority: float
    p_value: float
    significant: bool


def role_values(roles: HeadRoles, scores: Mapping[str, HeadScores]) -> tuple[RoleValue, ...]:
    """Compare the values of heads with each role and of all others, in every language.

    Args:
        roles: The roles.
        scores: Scores of heads of the same model by language, with the baseline `zero` or `mean`.

    Raises:
        HeadwiseError: Roles and scores have no language in common, or are of different heads.

    Example:
        >>> from headwise.roles.statistics.base import Column
        >>> from headwise.roles.table import LanguageRoles
        >>> from headwise.scores import Provenance
        >>> heads = tuple(f"encoder.0.{number}" for number in range(4))
        >>> one = LanguageRoles(heads, (Column("self"),), np.array([[0.9], [0.8], [0.1], [0.1]]), np.zeros((4, 1)),
        ...                     np.full((4, 1), 400), 100, 0, 100.0)
        >>> scores = HeadScores(heads, (0.4, 0.2, 0.1, -0.1), (0.1,) * 4, (9,) * 4, ("undecided",) * 4,
        ...                     Provenance("stars", "full", language="de"))
        >>> [row] = role_values(HeadRoles({"de": one}, {}), {"de": scores})
        >>> row.role, row.heads, round(row.value, 3), round(row.others_value, 3), row.superiority
        ('self', 2, 0.3, 0.0, 1.0)
    """
    labels = heads_by_role(label_heads(roles))
    named: list[tuple[str, str, str]] = []
    samples = []
    for language in _shared_languages(roles, scores):
        known = dict(zip(scores[language].players, scores[language].value, strict=True))
        values = np.array([known[head] for head in roles[language].heads])
        for role, heads in labels.items():
            owns = np.array([language in heads.get(head, ()) for head in roles[language].heads])
            if owns.any():
                named.append((language, scores[language].provenance.baseline, role))
                samples.append((values[owns], values[~owns]))
    found = zip(named, _tests(samples), strict=True)
    return tuple(RoleValue(language, baseline, role, *test) for (language, baseline, role), test in found)


#: Sizes and means of two samples, superiority of the first, p-value, and whether it is significant.
_Test = tuple[int, int, float, float, float, float, bool]


def _tests(samples: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> list[_Test]:
    """The Mann-Whitney U test of each pair of samples, with Holm's procedure over all of them."""
    found = [_mann_whitney(one, other) for one, other in samples]
    rejected = iter(holm([p for _, p in found if not np.isnan(p)], ERROR_RATE))
    return [
        (
            len(one),
            len(other),
            float(one.mean()) if len(one) else float("nan"),
            float(other.mean()) if len(other) else float("nan"),
            superiority,
            p,
            False if np.isnan(p) else bool(next(rejected)),
        )
        for (one, other), (superiority, p) in zip(samples, found, strict=True)
    ]


def harmful_heads(scores: HeadScores) -> frozenset[str]:
    """The heads that are likely harmful if the scores show them, otherwise those that are decided harmful."""
    return frozenset(scores.mask("likely").off if tells_likely(scores) else scores.decided("harmful"))


def _mann_whitney(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """The probability of superiority of the first sample, and the two-sided p-value."""
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # here: it takes about a second to import

    if not len(one) or not len(other):
        return float("nan"), float("nan")
    found = mannwhitneyu(one, other, alternative="two-sided")
    return float(found.statistic) / (len(one) * len(other)), float(found.pvalue)


def _shared_languages(roles: HeadRoles, scores: Mapping[str, HeadScores]) -> list[str]:
    shared = [language for language in roles if language in scores]
    if not shared:
        raise HeadwiseError(
            f"roles are of {', '.join(roles)} and scores of {', '.join(scores)}: measure both on the same languages"
        )
    for language in shared:
        if missing := set(roles[language].heads) - set(scores[language].players):
            raise HeadwiseError(f"the scores of {language} have no head {min(missing)}: score the heads of this model")
    return shared


@dataclass(frozen=True)
class SharedHead:
    """A head that all languages need, or whose value in one language has the opposite sign (Held & Yang, §5).

    Attributes:
        head: The head.
        kind: `agnostic` if it is among the best heads of every language, `specific` if one language differs.
        language: The language that differs; empty for agnostic heads.
        roles: Its roles, each with the languages in which it has them.
        separators: Share of sentences whose tokens all attend to separators, in the language that differs.
        separators_elsewhere: Mean of that share over the other languages.
        separators_spread: Standard deviation over the other languages.
    """

    head: str
    kind: str
    language: str
    roles: Mapping[str, frozenset[str]]
    separators: float = float("nan")
    separators_elsewhere: float = float("nan")
    separators_spread: float = float("nan")


def shared_heads(roles: HeadRoles, scores: Mapping[str, HeadScores]) -> tuple[SharedHead, ...]:
    """The language-agnostic and the language-specific heads with their roles; empty for fewer than two languages.

    Raises:
        HeadwiseError: Roles and scores have no language in common, or are of different heads.
    """
    languages = _shared_languages(roles, scores)
    shared = shared_scores({language: scores[language] for language in languages})
    if shared is None:
        return ()
    by_role = heads_by_role(label_heads(roles))

    def roles_of(head: str) -> dict[str, frozenset[str]]:
        return {role: heads[head] for role, heads in by_role.items() if head in heads}

    found = [SharedHead(head, "agnostic", "", roles_of(head)) for head in shared.agnostic()]
    for head, decisions in shared.opposed().items():
        place = specific_to(decisions)
        if place is not None:
            own = languages[place]
            rest = np.array([_separators(roles, each, head) for each in languages if each != own])
            numbers = (_separators(roles, own, head), float(rest.mean()), float(rest.std(ddof=1)))
            found.append(SharedHead(head, "specific", own, roles_of(head), *numbers))
    return tuple(found)


def _separators(roles: HeadRoles, language: str, head: str) -> float:
    found = roles[language]
    return float(found["separator_all"][found.heads.index(head)])
