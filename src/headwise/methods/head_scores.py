"""Create the scores of a method, with their provenance."""

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from numpy.typing import ArrayLike

from headwise.methods.base import Method, Problem
from headwise.scores import HeadScores, Provenance
from headwise.stats import Decision

#: The decision for one undecided player, to be repeated.
UNDECIDED: tuple[Decision, ...] = ("undecided",)

_LIBRARIES = ("headwise", "torch", "transformers")


def make_scores(
    problem: Problem,
    method: Method,
    value: ArrayLike,
    stderr: ArrayLike,
    count: ArrayLike,
    decision: Sequence[Decision],
    units: float,
    seed: int,
    error_rate: float | None = None,
    confidence: str = "",
    estimand: str | None = None,
    shrunk: tuple[ArrayLike, ArrayLike] | None = None,
) -> HeadScores:
    """The scores of a problem's players.

    A method with another estimand than the problem's passes its `estimand`. A method that has shrunk values passes
    them with their standard errors.
    """
    kinds = list(problem.players.owners)
    provenance = Provenance(
        method=method.name,
        version=method.version,
        signed=method.signed,
        unbiased=method.unbiased,
        estimand=estimand or problem.estimand.name,
        game=problem.game.name,
        language=problem.language,
        seed=seed,
        units=units,
        error_rate=error_rate,
        confidence=confidence,
        model=problem.heads.model,
        fingerprint=problem.heads.fingerprint,
        data=problem.data,
        baseline="zero" if problem.baseline is None else "mean",
        versions={name: version(name) for name in _LIBRARIES},
    )
    return HeadScores(
        players=problem.players.names,
        value=tuple(np.asarray(value, dtype=np.float64).tolist()),
        stderr=tuple(np.asarray(stderr, dtype=np.float64).tolist()),
        count=tuple(np.asarray(count, dtype=np.int64).tolist()),
        decision=tuple(decision),
        provenance=provenance,
        kind=kinds[0],
        members=_members(problem),
        shrunk=() if shrunk is None else tuple(np.asarray(shrunk[0], dtype=np.float64).tolist()),
        shrunk_error=() if shrunk is None else tuple(np.asarray(shrunk[1], dtype=np.float64).tolist()),
    )


def _members(problem: Problem) -> tuple[tuple[str, ...], ...]:
    """What each player consists of; empty if every player is one head, block or layer."""
    known = problem.heads.players(next(iter(problem.players.owners)))
    return () if problem.players.names == known or not known else problem.players.members(problem.heads)
