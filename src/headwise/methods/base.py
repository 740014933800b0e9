"""What methods share: the problem they solve, what they estimate, and rounds that survive being killed."""

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
from headwise.runs import Journal
from headwise.scores import HeadScores

Arrays = Mapping[str, NDArray[Any]]
#: Called with the units spent, the units of the budget and a word on how it goes.
RoundProgress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class Estimand:
    """Which average of marginals a value is.

    Attributes:
        share: 0 for the Shapley value, which averages over coalitions of every size. Otherwise only coalitions that
            hold more than this share of the players count, every size as much as any other.

    Example:
        >>> Estimand().name, Estimand(0.5).name, Estimand(0.5).smallest(144)
        ('full', 'truncated(0.5)', 73)
    """

    share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise HeadwiseError(f"the share of an estimand is at least 0 and below 1, not {self.share}")

    @property
    def name(self) -> str:
        """`full` or `truncated(share)`."""
        return f"truncated({self.share:g})" if self.share else "full"

    def smallest(self, players: int) -> int:
        """The size of the smallest coalition that a player joins: 73 of 144 players for a share of one half."""
        # 0.29 · 100 is 28.999…, of which "more than" is 30 all the same.
        return min(int(self.share * players + 1e-9) + 1, players - 1) if self.share else 0


@dataclass(frozen=True)
class Problem:
    """What a method is asked about.

    Attributes:
        model: The model.
        heads: Its head map.
        examples: The examples.
        players: Whose values are wanted.
        game: What a coalition is worth.
        estimand: Which average of marginals.
        language: Language of the examples.
        data: Fingerprint of the examples.
        settings: How engines work.
        make_engine: What makes engines.
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

    def engine(self, game: Game | None = None) -> Engine:
        """An engine for the problem's game, or for another game."""
        return self.make_engine(self.model, self.heads, game or self.game, self.examples, self.players, self.settings)

    @cached_property
    def smallest(self) -> int:
        """The size of the smallest coalition that a player joins."""
        return self.estimand.smallest(len(self.players))


@dataclass(frozen=True)
class Budget:
    """What a method may spend.

    Attributes:
        units: Passes of one example through the whole model.
        seconds: Time, None for no limit. A run that ends by time is not repeatable to the last bit.
    """

    units: float = np.inf
    seconds: float | None = None


class Rounds(Protocol):
    """A method at work: everything it knows comes from its rounds, so replaying them is resuming."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to find out."""

    @property
    def next_units(self) -> float:
        """What the next round may cost at most."""

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Compute the next round: what it found (with its `units`), and how many draws it took."""

    def absorb(self, arrays: Arrays) -> None:
        """Take in what a round found."""

    @property
    def status(self) -> str:
        """How it goes, in a few words."""

    def scores(self, units: float, seed: int) -> HeadScores:
        """What is known so far."""


class Method(Protocol):
    """A way to score players. Its class says what it is; its fields are its options."""

    @property
    def name(self) -> str:
        """Its name in `METHODS`."""

    @property
    def version(self) -> int:
        """Raised when the same seed and options give other rounds, so that no run mixes them."""

    @property
    def signed(self) -> bool:
        """Whether a value below 0 means that the player hurts."""

    @property
    def unbiased(self) -> bool:
        """Whether values are estimates of the estimand without bias."""

    @property
    def needs_units(self) -> bool:
        """Whether it has to know its budget beforehand, as its option `units`."""

    @property
    def trains(self) -> bool:
        """Whether it trains gates, and does not sample coalitions."""

    def start(self, problem: Problem, seed: int) -> Rounds:
        """Begin work on a problem."""


@dataclass(frozen=True)
class MethodRun:
    """A method that has worked on a problem.

    Attributes:
        rounds: The method's rounds, with everything that they have found.
        units: What they cost.
        seconds: How long they took, those of earlier sessions included.
        seed: Seed of their draws.
    """

    rounds: Rounds
    units: float
    seconds: float
    seed: int

    @property
    def scores(self) -> HeadScores:
        """What is known so far."""
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
    """The scores that `run_method` finds, which takes the same arguments."""
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
    """Let a method work on a problem until its budget is spent or nothing is left to find out.

    Args:
        method: The method.
        problem: The problem.
        budget: What it may spend; never overspent.
        seed: Seed of its draws.
        journal: Where rounds are kept. A run that finds rounds there continues after them, and ends with the same
            bits as a run that was never stopped.
        stream: The rounds' name in the journal, such as a language.
        progress: Called after each round.
    """
    rounds, units, seconds, first_draw = method.start(problem, seed), 0.0, 0.0, 0
    for kept in journal.rounds(stream) if journal is not None else ():
        rounds.absorb(kept.arrays)
        units, first_draw = units + float(kept.arrays["units"]), kept.first_draw + kept.draws
        seconds += float(kept.arrays.get("seconds", 0.0))
    number, start = journal.count(stream) if journal is not None else 0, time.monotonic()
    while not rounds.done and units + rounds.next_units <= budget.units:
        if budget.seconds is not None and time.monotonic() - start >= budget.seconds:
            break
        began = time.perf_counter()
        arrays, draws = rounds.draw(first_draw)
        arrays = {**arrays, "seconds": np.array(time.perf_counter() - began)}
        if journal is not None:
            journal.record(stream, number, arrays, first_draw, draws)
        rounds.absorb(arrays)
        units, first_draw, number = units + float(arrays["units"]), first_draw + draws, number + 1
        seconds += float(arrays["seconds"])
        if progress is not None:
            progress(units, budget.units, rounds.status)
    return MethodRun(rounds, units, seconds, seed)
