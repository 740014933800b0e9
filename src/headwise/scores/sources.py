"""One ranking from the scores of several source languages: the sum of their matrices (SD of Ma et al., 2021, §5.2)."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from headwise.errors import HeadwiseError
from headwise.scores.alike import check_alike
from headwise.scores.head_scores import HeadScores
from headwise.stats import Decision


def sum_sources(scores: Mapping[str, HeadScores]) -> HeadScores:
    """The sum of the scores of several languages, each divided by its largest absolute value.

    The scaling gives all languages the same weight and keeps signs. Scores in [0, 1] with a maximum of 1, such as those
    of `gradient`, are not changed by it. A sum ranks players and decides nothing. It has no standard errors, because
    the errors of languages that share their draws are correlated.

    Args:
        scores: The scores of each language, by one method and of the same players.

    Raises:
        HeadwiseError: There are fewer than two languages, they have other players, methods or estimands, or a value is
            missing or all values of a language are 0.

    Example:
        >>> from headwise.scores import Provenance
        >>> names, none = ("encoder.0.0", "encoder.0.1", "encoder.0.2"), ("undecided",) * 3
        >>> def of(*value):
        ...     return HeadScores(names, value, (0.1,) * 3, (9,) * 3, none, Provenance("gradient", "sensitivity"))
        >>> found = sum_sources({"en": of(1.0, 0.25, 0.0), "ar": of(0.5, 1.0, 0.0)})
        >>> found.value, found.ranked()
        ((1.5, 1.25, 0.0), ('encoder.0.2', 'encoder.0.1', 'encoder.0.0'))
    """
    _check(scores)
    every = list(scores.values())
    first, values = every[0], np.array([each.values() for each in every])  # (languages, players)
    total = (values / np.abs(values).max(axis=1, keepdims=True)).sum(0)
    origin = dataclasses.replace(
        first.provenance,
        estimand=f"sum of {first.provenance.estimand}",
        language="+".join(scores),
        units=sum(each.provenance.units for each in every),
        error_rate=None,
        confidence="none: a sum of languages",
        data=None,
        unbiased=False,
    )
    undecided: tuple[Decision, ...] = ("undecided",)
    return dataclasses.replace(
        first,
        value=tuple(total.tolist()),
        stderr=(float("nan"),) * len(total),
        count=tuple(map(sum, zip(*(each.count for each in every), strict=True))),
        decision=undecided * len(total),
        provenance=origin,
    )


def _check(scores: Mapping[str, HeadScores]) -> None:
    if len(scores) < 2:
        raise HeadwiseError(f"a sum of languages needs at least 2 languages, not {len(scores)}")
    check_alike(scores)
    for language, each in scores.items():
        if not np.isfinite(each.values()).all():
            raise HeadwiseError(f"some players of {language} have no value yet: score it with a larger budget")
        if not each.values().any():
            raise HeadwiseError(f"all values of {language} are 0, so it has no ranking")
