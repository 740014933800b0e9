"""The interface of methods: the problem, the estimand, and rounds that can be resumed."""

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headwise.engine import Engine, EngineFactory, EngineSettings, ExampleSet, LocalEngine, PlayerSet
from headwise.errors import HeadwiseError
from headwise.games import Game
from headwise.heads import HeadMap
from headwise.means import MeanOutputs
from headwise.runs import Journal
from headwise.scores import HeadScores
from headwise.support.steps import Steps, run_steps

Arrays = Mapping[str, NDArray[Any]]
#: Called with the units spent, the units of the budget and a short status.
RoundProgress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Estimand:
    """The average of marginals that is estimated.

    Attributes:
        share: 0 for the Shapley value, which averages over coalitions of every size. Otherwise only coalitions with
            more than this share of the players are included, and all sizes have the same weight.

    Example:
        >>> Estimand().name, Estimand(0.5).name, Estimand(0.5).smallest(144)
        ('full', 'truncated(0.5)', 73)
    """

    share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise HeadwiseError(f"the share of an estimand must be at least 0 and below 1, not {self.share}")

    @property
    def name(self) -> str:
        """`full` or `truncated(share)`."""
        return f"truncated({self.share:g})" if self.share else "full"

    def smallest(self, players: int) -> int:
        """The size of the smallest coalition that a player joins: 73 of 144 players for a share of one half."""
        # In floating point 0.29 · 100 is 28.999…, but the smallest size above 29 is 30.
        return min(int(self.share * players + 1e-9) + 1, players - 1) if self.share else 0


@dataclass(frozen=True)
class Problem:
    """The problem that a method solves.

    Attributes:
        model: The model.
        heads: Its head map.
        examples: The examples.
        players: The players to score.
        game: The game that defines the value of a coalition.
        estimand: The average of marginals to estimate.
        language: Language of the examples.
        data: Fingerprint of the examples.
        settings: Settings of the engines.
        make_engine: Creates engines.
        baseline: The mean outputs that replace what is off (mean ablation); None for zero.
    """

    model: nn.Module
    heads: HeadMap
    examples: ExampleSet
    players: PlayerSet
    game: Game
    estimand: Estimand = field(default_factory=Estimand)
    language: str | None = None
    data: str | None = None
    settings: EngineSettings = field(default_factory=EngineSettings)
    make_engine: EngineFactory = LocalEngine
    baseline: MeanOutputs | None = None

    def engine(self, game: Game | None = None) -> Engine:
        """An engine for the problem's game, or for another game.

        Raises:
            HeadwiseError: The other game needs labels, but the problem's game has none.
        """
        if game is not None and self.game.labels == "none" != game.labels:
            raise HeadwiseError(
                f"the game {self.game.name!r} has no labels, but the value {game.name!r} needs them: use a method that "
                "values the game itself, such as stars, or the game 'agreement'"
            )
        return self.make_engine(
            self.model, self.heads, game or self.game, self.examples, self.players, self.settings, self.baseline
        )

    @cached_property
    def smallest(self) -> int:
        """The size of the smallest coalition that a player joins."""
        return self.estimand.smallest(len(self.players))


def require_mean_game(problem: Problem, instead: str = "probability") -> None:
    """Check that the game of a problem has a value on single examples.

    Args:
        problem: The problem.
        instead: The game or method to use otherwise.

    Raises:
        HeadwiseError: The game is not a mean over examples.
    """
    if problem.game.statistics > 1:
        raise HeadwiseError(
            f"the game {problem.game.name!r} is not a mean over examples, so it has no value on single examples: "
            f"use {instead!r}"
        )


def require_local(problem: Problem, method: str) -> None:
    """Check that the engines of a problem run in this process.

    Args:
        problem: The problem.
        method: The method, which changes the model or reads its activations while it runs.

    Raises:
        HeadwiseError: The engines run on a cluster.
    """
    if problem.make_engine is not LocalEngine:
        raise HeadwiseError(
            f"{method} needs the model in this process, so it cannot use a cluster: omit --workers and --cluster"
        )


@dataclass(frozen=True)
class Budget:
    """The budget of a method.

    Attributes:
        units: Passes of one example through the whole model.
        seconds: Time limit; None for no limit. A run that ends by time is not exactly repeatable.
    """

    units: float = np.inf
    seconds: float | None = None


class Rounds(Protocol):
    """The state of a running method. It depends only on the rounds, so replaying them resumes a run."""

    @property
    def done(self) -> bool:
        """Whether the method has finished."""

    @property
    def next_units(self) -> float:
        """Maximum cost of the next round."""

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Compute the next round: its results (including its `units`) and its number of draws."""

    def absorb(self, arrays: Arrays) -> None:
        """Add the results of a round to the state."""

    @property
    def status(self) -> str:
        """A short description of the progress."""

    def scores(self, units: float, seed: int) -> HeadScores:
        """The scores so far."""


class Method(Protocol):
    """A method that scores players. Its class attributes are its properties, its fields are its options."""

    @property
    def name(self) -> str:
        """Its name in `METHODS`."""

    @property
    def version(self) -> int:
        """Increased when the same seed and options give other rounds, so that no run mixes versions."""

    @property
    def signed(self) -> bool:
        """Whether a value below 0 means that the player is harmful."""

    @property
    def unbiased(self) -> bool:
        """Whether values are unbiased estimates of the estimand."""

    @property
    def needs_units(self) -> bool:
        """Whether it needs its budget in advance, as its option `units`."""

    @property
    def trains(self) -> bool:
        """Whether it trains gates instead of sampling coalitions."""

    def start(self, problem: Problem, seed: int) -> Rounds:
        """Start the method on a problem."""


@dataclass(frozen=True)
class MethodRun:
    """The result of running a method on a problem.

    Attributes:
        rounds: The state of the method after its rounds.
        units: Cost of the rounds.
        seconds: Time of the rounds, including those of earlier sessions.
        seed: Seed of their draws.
    """

    rounds: Rounds
    units: float
    seconds: float
    seed: int

    @property
    def scores(self) -> HeadScores:
        """The scores so far."""
        return self.rounds.scores(self.units, self.seed)


def score(
    method: Method,
    problem: Problem,
    budget: Budget,
    seed: int = 0,
    journal: Journal | None = None,
    stream: str = "",
    progress: RoundProgress | None = None,
) -> HeadScores:
    """The scores of `run_method`, which has the same arguments."""
    return run_method(method, problem, budget, seed, journal, stream, progress).scores


def run_method(
    method: Method,
    problem: Problem,
    budget: Budget,
    seed: int = 0,
    journal: Journal | None = None,
    stream: str = "",
    progress: RoundProgress | None = None,
) -> MethodRun:
    """Run a method on a problem until its budget is spent or it has finished.

    Args:
        method: The method.
        problem: The problem.
        budget: The budget, which is never exceeded.
        seed: Seed of its draws.
        journal: Journal that stores the rounds. If it contains rounds, the run continues after them, with exactly the
            same result as a run without interruption.
        stream: The name of the rounds in the journal, such as a language.
        progress: Called after each round.
    """
    return run_steps(method_steps(method, problem, budget, seed, journal, stream, progress))


def method_steps(
    method: Method,
    problem: Problem,
    budget: Budget,
    seed: int = 0,
    journal: Journal | None = None,
    stream: str = "",
    progress: RoundProgress | None = None,
) -> Steps[MethodRun]:
    """`run_method` as a task of `run_together`, so that rounds of several problems overlap; each round is a call."""
    rounds, units, seconds, first_draw, kept = method.start(problem, seed), 0.0, 0.0, 0, None
    for kept in journal.rounds(stream) if journal is not None else ():
        with kept.replaying() as arrays:
            rounds.absorb(arrays)
            units += _amount(arrays["units"])
            seconds += _amount(arrays.get("seconds", np.zeros(())))
        first_draw = kept.first_draw + kept.draws
    if kept is not None:
        with kept.replaying():  # arrays of wrong shapes may be absorbed, and fail only here
            rounds.scores(units, seed)
    number, start = journal.count(stream) if journal is not None else 0, time.monotonic()
    while not rounds.done and units + rounds.next_units <= budget.units:
        if budget.seconds is not None and time.monotonic() - start >= budget.seconds:
            break
        began = time.perf_counter()
        arrays, draws = yield functools.partial(rounds.draw, first_draw)
        arrays = {**arrays, "seconds": np.array(time.perf_counter() - began)}
        if journal is not None:
            journal.record(stream, number, arrays, first_draw, draws)
        rounds.absorb(arrays)
        units, first_draw, number = units + float(arrays["units"]), first_draw + draws, number + 1
        seconds += float(arrays["seconds"])
        if progress is not None:
            progress(units, budget.units, rounds.status)
    return MethodRun(rounds, units, seconds, seed)


def _amount(recorded: NDArray[Any]) -> float:
    """A cost or a time in a journal."""
    found = float(recorded)
    if not (math.isfinite(found) and found >= 0):
        raise ValueError(f"a cost or a time is {found:g}")
    return found
