"""One mask for all languages: without what is likely harmful on average over them.

Every language sees the same draws, so errors do not average out as those of independent estimates would, nor do they
all go together. How far they do shows when some rounds are left out, the same ones in all languages at once: what the
mean changes by, over all groups of rounds, is the error of the mean (the jackknife).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.masks import HeadMask
from headwise.methods import Method, Problem
from headwise.runs import Journal
from headwise.scores import HeadScores
from headwise.scores.rules import FALSE_SHARE
from headwise.stats import bh, chance_below

Array = NDArray[np.float64]

#: Groups of rounds that are left out one after the other, at most; with fewer than the fewest nothing can be said.
_GROUPS, _FEWEST = 20, 5


@dataclass(frozen=True)
class PooledScores:
    """Values on average over languages.

    Attributes:
        value: The mean over languages, (players,).
        stderr: Its standard error, (players,).
        degrees: Degrees of freedom of the error; None where it is the most that it can be.
    """

    value: Array
    stderr: Array
    degrees: int | None


def pool_languages(
    scores: Mapping[str, HeadScores], method: Method, problems: Mapping[str, Problem], journal: Journal, seed: int = 0
) -> PooledScores:
    """The mean of scores over languages, and how far from the truth it may be.

    Args:
        scores: The scores of each language.
        method: The method that made them.
        problems: The problem of each language.
        journal: Where its rounds are, a stream for each language.
        seed: Seed of its draws.
    """
    value = np.mean([each.values() for each in scores.values()], axis=0)
    groups = min(_GROUPS, *(journal.count(language) for language in scores))
    if groups < _FEWEST:
        # As if errors went together entirely, which is the most that there can be.
        return PooledScores(value, np.mean([each.stderr for each in scores.values()], axis=0), None)
    without = np.mean(
        [_leave_out(method, problems[language], journal, language, groups, seed) for language in scores], axis=0
    )  # (groups, players)
    spread = ((without - without.mean(0)) ** 2).sum(0)
    return PooledScores(value, np.sqrt(spread * (groups - 1) / groups), groups - 1)


def pooled_mask(pooled: PooledScores, like: HeadScores) -> HeadMask:
    """The mask without the players that are likely harmful on average over languages.

    Args:
        pooled: The average.
        like: Scores of one of the languages, for the names and the kind of the players.
    """
    likely = bh(chance_below(pooled.value, pooled.stderr, pooled.degrees), FALSE_SHARE)
    off = [name for name, low in zip(like.players, likely, strict=True) if low]
    return dataclasses.replace(like.without(off), language=None)


def _leave_out(method: Method, problem: Problem, journal: Journal, stream: str, groups: int, seed: int) -> Array:
    """The values without each group of rounds, (groups, players): all that a method knows comes from its rounds."""
    found = []
    kept = [each.arrays for each in journal.rounds(stream)]
    for group in range(groups):
        rounds = method.start(problem, seed)
        for number, arrays in enumerate(kept):
            if number % groups != group:
                rounds.absorb(arrays)
        found.append(rounds.scores(0.0, seed).values())
    return np.array(found)
