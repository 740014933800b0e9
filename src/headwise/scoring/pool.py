"""One mask for all languages: it removes the players that are likely harmful on average over languages.

All languages use the same random draws, so their errors are correlated, but not perfectly. The standard error of the
mean over languages is estimated by the jackknife: each group of rounds is left out in all languages at once, and the
changes of the mean give its error.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.masks import HeadMask
from headwise.methods import Method, Problem
from headwise.runs import Journal
from headwise.scores import HeadScores
from headwise.scores.rules import FALSE_SHARE
from headwise.stats import bh, chance_below

Array = NDArray[np.float64]

#: Maximum number of groups of rounds for the jackknife, and the minimum number that it needs.
_GROUPS, _FEWEST = 20, 5


@dataclass(frozen=True)
class PooledScores:
    """Mean values over languages.

    Attributes:
        value: The mean over languages, (players,).
        stderr: Its standard error, (players,).
        degrees: Degrees of freedom of the error; None if the error is an upper bound.
    """

    value: Array
    stderr: Array
    degrees: int | None


def pool_languages(
    scores: Mapping[str, HeadScores], method: Method, problems: Mapping[str, Problem], journal: Journal, seed: int = 0
) -> PooledScores:
    """The mean of scores over languages, with its standard error.

    Args:
        scores: The scores of each language.
        method: The method that made them.
        problems: The problem of each language.
        journal: The journal with its rounds, one stream per language.
        seed: Seed of its random draws.
    """
    value = np.mean([each.values() for each in scores.values()], axis=0)
    groups = min(_GROUPS, *(journal.count(language) for language in scores))
    if groups < _FEWEST:
        # Too few rounds for the jackknife: the mean of the errors is exact for perfectly correlated errors, and an
        # upper bound otherwise.
        return PooledScores(value, np.mean([each.stderr for each in scores.values()], axis=0), None)
    without = np.mean(
        [_leave_out(method, problems[language], journal, language, groups, seed) for language in scores], axis=0
    )  # (groups, players)
    spread = ((without - without.mean(0)) ** 2).sum(0)
    return PooledScores(value, np.sqrt(spread * (groups - 1) / groups), groups - 1)


def error_correlation(
    scores: Mapping[str, HeadScores], method: Method, problems: Mapping[str, Problem], journal: Journal, seed: int = 0
) -> float:
    """The correlation of the errors of two languages, the mean over players and pairs, for `shrink_to_mean`.

    It is above 0 if languages share their draws, because the same coalitions are valued on the same items. It is
    estimated by the jackknife over groups of rounds.

    Args:
        scores: The scores of each language.
        method: The method that made them.
        problems: The problem of each language.
        journal: The journal with its rounds, one stream per language.
        seed: Seed of its random draws.

    Raises:
        HeadwiseError: There are fewer than 5 rounds.
    """
    groups = min(_GROUPS, *(journal.count(language) for language in scores))
    if groups < _FEWEST:
        raise HeadwiseError(f"errors of languages need at least {_FEWEST} rounds, not {groups}: raise the budget")
    without = np.array(
        [_leave_out(method, problems[language], journal, language, groups, seed) for language in scores]
    )  # (languages, groups, players)
    distance = without - without.mean(1, keepdims=True)
    single = (distance**2).sum(1)  # (languages, players), proportional to variances
    scale = single.mean(0)
    crossed = ((distance.sum(0) ** 2).sum(0) - single.sum(0))[scale > 0] / scale[scale > 0]  # all ordered pairs
    pairs = len(scores) * (len(scores) - 1)
    return float(np.clip(crossed.mean() / pairs, 0, 1)) if len(crossed) else 0.0


def pooled_mask(pooled: PooledScores, like: HeadScores) -> HeadMask:
    """The mask that removes the players that are likely harmful on average over languages.

    Args:
        pooled: The mean over languages.
        like: Scores of one of the languages, for the names and the kind of the players.
    """
    likely = bh(chance_below(pooled.value, pooled.stderr, pooled.degrees), FALSE_SHARE)
    off = [name for name, low in zip(like.players, likely, strict=True) if low]
    return dataclasses.replace(like.without(off), language=None)


def _leave_out(method: Method, problem: Problem, journal: Journal, stream: str, groups: int, seed: int) -> Array:
    """The values without each group of rounds, (groups, players).

    The method is started again and given the remaining rounds.
    """
    found = []
    kept = list(journal.rounds(stream))
    for group in range(groups):
        rounds = method.start(problem, seed)
        for number, each in enumerate(kept):
            if number % groups != group:
                with each.replaying() as arrays:
                    rounds.absorb(arrays)
        found.append(rounds.scores(0.0, seed).values())
    return np.array(found)
