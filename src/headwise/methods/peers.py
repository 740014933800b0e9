"""Other libraries' estimators on our problems: shapiq and captum, for comparison and for what else they offer.

Both know a game as a function of coalitions, so a coalition is worth the mean over several examples; or they explain
one example after the other, and the mean of these explanations counts. Both estimate the full Shapley value alone, and
decide nothing.
"""

import importlib
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.draws import Draws
from headwise.engine import EngineCost
from headwise.errors import HeadwiseError
from headwise.methods.base import Arrays, Method, Problem
from headwise.methods.coalitions import value_coalitions
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import mean_and_error
from headwise.methods.tmab import draw_sample
from headwise.scores import HeadScores
from headwise.stats import EmpiricalBernstein

Array = NDArray[np.float64]
Approximator = Literal["PermutationSamplingSV", "KernelSHAP", "UnbiasedKernelSHAP", "SVARM"]


class CoalitionValues:
    """What coalitions are worth on several examples, and what asking has cost.

    Args:
        problem: The problem.
        examples: Examples of a coalition; all there are, if fewer, where they are not fresh.
        seed: Seed of the sample, or of the fresh draws.
        fresh: New examples for every coalition, drawn with replacement, in place of one sample for all.
    """

    def __init__(self, problem: Problem, examples: int, seed: int, fresh: bool = False) -> None:
        self.game, self.total = problem.game, len(problem.examples)
        self.engine = problem.engine()
        self.sample = None if fresh else draw_sample(seed, examples, self.total)
        self.size = examples if self.sample is None else len(self.sample)
        self.draws = Draws(seed, "peers")
        self.asked, self.cost = 0, EngineCost()

    def __call__(self, masks: NDArray[np.bool_]) -> Array:
        """The worth of coalitions (coalitions, players), or of a single one (players,), as (coalitions,)."""
        masks = np.atleast_2d(masks).astype(bool)
        count = len(masks)
        if self.sample is None:
            index = self.draws.examples(self.asked * self.size, count * self.size, self.total)
        else:
            index = np.tile(self.sample, count)
        found, cost = value_coalitions(self.engine, self.game, masks, index.reshape(count, self.size))
        self.asked, self.cost = self.asked + count, self.cost + cost
        return found


class _Peer(Method, Protocol):
    """What the rounds need to know of a peer's method."""

    @property
    def units(self) -> float: ...
    @property
    def examples_per_coalition(self) -> int: ...
    @property
    def fresh(self) -> bool: ...
    @property
    def coalitions(self) -> int: ...
    def solve(self, values: CoalitionValues, players: int, coalitions: int, seed: int) -> Array:
        """The values of all players, (players,), out of so many coalitions at most."""


@dataclass(frozen=True)
class Shapiq:
    """An estimator of shapiq, which knows a game only by its coalitions.

    Attributes:
        units: What may be spent; the number of coalitions has to be known beforehand.
        approximator: `PermutationSamplingSV`, `KernelSHAP`, `UnbiasedKernelSHAP` or `SVARM`.
        examples_per_coalition: Examples that a coalition is valued on.
        fresh: New examples for every coalition in place of one sample for all.
        coalitions: Coalitions of one estimate: estimates on samples of their own follow one another and are averaged.
            0 for a single estimate of as many as the units allow for.

    Example:
        >>> Shapiq(units=5000, approximator="SVARM").name
        'shapiq'
    """

    name: ClassVar[str] = "shapiq"
    signed: ClassVar[bool] = True
    needs_units: ClassVar[bool] = True
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    units: float = 10_000.0
    approximator: Approximator = "KernelSHAP"
    examples_per_coalition: int = 32
    fresh: bool = False
    coalitions: int = 0

    def __post_init__(self) -> None:
        _check_numbers(self)

    @property
    def unbiased(self) -> bool:
        """Whether the mean of many estimates is the value."""
        return self.approximator == "PermutationSamplingSV"  # the others value no coalition twice

    def start(self, problem: Problem, seed: int) -> "PeerRounds":
        """Begin work on a problem.

        Raises:
            HeadwiseError: shapiq is missing, has no such estimator, does not estimate this, or the units are too few.
        """
        _import("shapiq")
        if self.approximator not in get_args(Approximator):
            known = ", ".join(get_args(Approximator))
            raise HeadwiseError(f"an approximator of shapiq is one of {known}, not {self.approximator!r}")
        return PeerRounds(self, problem, seed)

    def solve(self, values: CoalitionValues, players: int, coalitions: int, seed: int) -> Array:
        """The values of all players, (players,)."""
        approximator = getattr(_import("shapiq"), self.approximator)(n=players, random_state=_small_seed(seed))
        if self.approximator != "PermutationSamplingSV":
            coalitions = min(coalitions, 2**players)  # the others value none twice
        # Centred by themselves: each values the empty coalition and subtracts it.
        found = approximator.approximate(coalitions, values)
        return _singles(found, players)


@dataclass(frozen=True)
class Captum:
    """captum's `ShapleyValueSampling`: random permutations, gates in place of input features.

    Attributes:
        units: What may be spent; the number of permutations has to be known beforehand.
        examples_per_coalition: Examples that a coalition is valued on.
        fresh: New examples for every coalition in place of one sample for all.
        coalitions: Coalitions of one estimate: estimates on samples of their own follow one another and are averaged.
            0 for a single estimate of as many as the units allow for.

    Example:
        >>> Captum(units=5000).name
        'captum'
    """

    name: ClassVar[str] = "captum"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = True
    needs_units: ClassVar[bool] = True
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    units: float = 10_000.0
    examples_per_coalition: int = 32
    fresh: bool = False
    coalitions: int = 0

    def __post_init__(self) -> None:
        _check_numbers(self)

    def start(self, problem: Problem, seed: int) -> "PeerRounds":
        """Begin work on a problem.

        Raises:
            HeadwiseError: captum is missing, does not estimate this, or the units are too few.
        """
        _import("captum")
        return PeerRounds(self, problem, seed)

    def solve(self, values: CoalitionValues, players: int, coalitions: int, seed: int) -> Array:
        """The values of all players, (players,)."""
        sampling = _import("captum.attr").ShapleyValueSampling(partial(_tensor_values, values))
        on, off = torch.ones(1, players), torch.zeros(1, players)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(_small_seed(seed))
            found = sampling.attribute(
                on, off, n_samples=(coalitions - 1) // players, perturbations_per_eval=max(2, players)
            )
        return np.asarray(found[0].double().numpy())


class PeerRounds:
    """A peer at work: a round is an estimate, which cannot be interrupted.

    Args:
        method: The method.
        problem: The problem.
        seed: Seed of its draws.
    """

    def __init__(self, method: _Peer, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        players = len(problem.players)
        self.moments = EmpiricalBernstein.start(players)
        self.asked, self.spent = 0, 0.0
        if problem.estimand.share:
            raise HeadwiseError(f"{method.name} estimates the full value only, not {problem.estimand.name}")
        if 0 < method.coalitions <= players:
            raise HeadwiseError(
                f"coalitions of {method.name} are 0, or at least {players + 1} for {players} players, "
                f"not {method.coalitions}"
            )
        if method.coalitions and problem.game.statistics > 1:
            raise HeadwiseError(
                f"the game {problem.game.name!r} is no mean over examples, so estimates on some of them are not to be "
                "averaged: leave coalitions at 0"
            )
        least = method.coalitions or players + 1
        if least * self._size > method.units:
            raise HeadwiseError(
                f"{method.units:g} units value {int(method.units // self._size)} coalitions of {self._size} examples, "
                f"but {method.name} needs {least} for {players} players"
            )

    @property
    def coalitions(self) -> int:
        """How many coalitions an estimate may take: what is asked for, or all the units, each example a whole one."""
        return self.method.coalitions or int(self.method.units // self._size)

    @property
    def _size(self) -> int:
        most = self.method.examples_per_coalition
        return most if self.method.fresh else min(most, len(self.problem.examples))

    @property
    def done(self) -> bool:
        """Whether the units do not allow for another estimate."""
        single = not self.method.coalitions
        return self.asked > 0 and (single or self.spent + self.next_units > self.method.units)

    @property
    def next_units(self) -> float:
        """Every coalition on every example."""
        return float(self.coalitions * self._size)

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Let the peer work."""
        seed = self._seed(first_draw)
        values = CoalitionValues(self.problem, self.method.examples_per_coalition, seed, self.method.fresh)
        found = self.method.solve(values, len(self.problem.players), self.coalitions, seed)
        units = np.array(values.cost.units)
        return {"values": found, "coalitions": np.array(values.asked), "units": units}, values.asked

    def _seed(self, first_draw: int) -> int:
        """A seed of each estimate's own; that of the only one is the run's."""
        return _small_seed(self.seed, first_draw) if self.method.coalitions else self.seed

    def absorb(self, arrays: Arrays) -> None:
        """Take in an estimate."""
        self.moments = self.moments.update(np.arange(len(self.problem.players)), arrays["values"])
        self.asked, self.spent = self.asked + int(arrays["coalitions"]), self.spent + float(arrays["units"])

    @property
    def status(self) -> str:
        """How much there is."""
        return f"{self.asked} coalitions" if self.asked else "nothing yet"

    def scores(self, units: float, seed: int) -> HeadScores:
        """The mean of the estimates; its standard error is known if there are several without bias."""
        n = len(self.problem.players)
        mean, stderr = mean_and_error(self.moments)
        return make_scores(
            self.problem,
            self.method,
            mean,
            stderr if self.method.unbiased else np.full(n, np.nan),
            np.full(n, self.asked),
            UNDECIDED * n,
            units,
            seed,
            confidence="none",
        )


def _singles(found: Any, players: int) -> Array:
    """The values of single players in `shapiq.InteractionValues`, (players,); those that it leaves out are 0."""
    return np.array([float(found.dict_values.get((player,), 0.0)) for player in range(players)])


def _tensor_values(values: CoalitionValues, gates: Tensor) -> Tensor:
    return torch.from_numpy(values(gates.numpy() > 0.5)).float()


def _check_numbers(method: _Peer) -> None:
    for name, least in (("examples_per_coalition", 1), ("coalitions", 0)):
        if (value := getattr(method, name)) < least:
            raise HeadwiseError(f"{name} of {method.name} is at least {least}, not {value}")


def _small_seed(seed: int, draw: int = 0) -> int:
    """A seed that any generator takes, out of any whole number."""
    return int(Draws(seed, "peers").uniform(draw, 1, 1)[0, 0] * 2**32)


def _import(module: str) -> Any:
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError:
        raise HeadwiseError(f"{package} is not installed: pip install 'headwise[peers]'") from None
