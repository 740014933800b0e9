"""Estimators of other libraries: shapiq and captum, for comparison and for their additional estimators.

Both take a game as a function of coalitions. The value of a coalition is therefore the mean over several examples, or
estimates on one example after the other are averaged. Both estimate only the full Shapley value, and make no decisions.
"""

import importlib
import threading
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
#: captum draws from the global generator of torch, which only one problem at a time may use.
_GLOBAL_DRAWS = threading.Lock()
Approximator = Literal["PermutationSamplingSV", "KernelSHAP", "UnbiasedKernelSHAP", "SVARM"]


class CoalitionValues:
    """Values of coalitions on several examples, as a function that also counts its cost.

    Args:
        problem: The problem.
        examples: Number of examples per coalition; without `fresh`, at most all examples.
        seed: Seed of the sample, or of the fresh draws.
        fresh: Draw new examples with replacement for every coalition, instead of one sample for all coalitions.
    """

    def __init__(self, problem: Problem, examples: int, seed: int, fresh: bool = False) -> None:
        self.game, self.total = problem.game, len(problem.examples)
        self.engine = problem.engine()
        self.sample = None if fresh else draw_sample(seed, examples, self.total)
        self.size = examples if self.sample is None else len(self.sample)
        self.draws = Draws(seed, "peers")
        self.asked, self.cost = 0, EngineCost()

    def __call__(self, masks: NDArray[np.bool_]) -> Array:
        """The values of coalitions (coalitions, players), or of a single one (players,), as (coalitions,)."""
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
    """The interface of a peer's method that its rounds need."""

    @property
    def units(self) -> float: ...
    @property
    def examples_per_coalition(self) -> int: ...
    @property
    def fresh(self) -> bool: ...
    @property
    def coalitions(self) -> int: ...
    def solve(self, values: CoalitionValues, players: int, coalitions: int, seed: int) -> Array:
        """The values of all players, (players,), from at most `coalitions` coalitions."""


@dataclass(frozen=True)
class Shapiq:
    """An estimator of shapiq, which uses only the values of coalitions.

    Attributes:
        units: Budget, needed in advance to set the number of coalitions.
        approximator: `PermutationSamplingSV`, `KernelSHAP`, `UnbiasedKernelSHAP` or `SVARM`.
        examples_per_coalition: Number of examples per coalition.
        fresh: Draw new examples for every coalition, instead of one sample for all coalitions.
        coalitions: Number of coalitions of one estimate. Estimates on separate samples are repeated and averaged.
            0 for a single estimate with as many coalitions as the units allow.

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
        return self.approximator == "PermutationSamplingSV"  # the others never repeat a coalition

    def start(self, problem: Problem, seed: int) -> "PeerRounds":
        """Start the method on a problem.

        Raises:
            HeadwiseError: shapiq is not installed, the estimator is unknown, the estimand is not supported, or the
                units are too few.
        """
        _import("shapiq")
        if self.approximator not in get_args(Approximator):
            known = ", ".join(get_args(Approximator))
            raise HeadwiseError(f"approximator: must be one of {known}, not {self.approximator!r}")
        return PeerRounds(self, problem, seed)

    def solve(self, values: CoalitionValues, players: int, coalitions: int, seed: int) -> Array:
        """The values of all players, (players,)."""
        approximator = getattr(_import("shapiq"), self.approximator)(n=players, random_state=_small_seed(seed))
        if self.approximator != "PermutationSamplingSV":
            coalitions = min(coalitions, 2**players)  # the others never repeat a coalition
        # The approximators subtract the value of the empty coalition themselves.
        found = approximator.approximate(coalitions, values)
        return _singles(found, players)


@dataclass(frozen=True)
class Captum:
    """captum's `ShapleyValueSampling`: random permutations, with gates instead of input features.

    Attributes:
        units: Budget, needed in advance to set the number of permutations.
        examples_per_coalition: Number of examples per coalition.
        fresh: Draw new examples for every coalition, instead of one sample for all coalitions.
        coalitions: Number of coalitions of one estimate. Estimates on separate samples are repeated and averaged.
            0 for a single estimate with as many coalitions as the units allow.

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
        """Start the method on a problem.

        Raises:
            HeadwiseError: captum is not installed, the estimand is not supported, or the units are too few.
        """
        _import("captum")
        return PeerRounds(self, problem, seed)

    def solve(self, values: CoalitionValues, players: int, coalitions: int, seed: int) -> Array:
        """The values of all players, (players,)."""
        sampling = _import("captum.attr").ShapleyValueSampling(partial(_tensor_values, values))
        on, off = torch.ones(1, players), torch.zeros(1, players)
        with _GLOBAL_DRAWS, torch.random.fork_rng(devices=[]):
            torch.manual_seed(_small_seed(seed))
            found = sampling.attribute(
                on, off, n_samples=(coalitions - 1) // players, perturbations_per_eval=max(2, players)
            )
        return np.asarray(found[0].double().numpy())


class PeerRounds:
    """The state of a peer's method: a round is one estimate, which cannot be interrupted.

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
            raise HeadwiseError(f"{method.name} estimates only the full value, not {problem.estimand.name}")
        if 0 < method.coalitions <= players:
            raise HeadwiseError(
                f"coalitions of {method.name} must be 0, or at least {players + 1} for {players} players, "
                f"not {method.coalitions}"
            )
        if method.coalitions and problem.game.statistics > 1:
            raise HeadwiseError(
                f"the game {problem.game.name!r} is not a mean over examples, so estimates on samples cannot be "
                "averaged: set coalitions to 0"
            )
        least = method.coalitions or players + 1
        if least * self._size > method.units:
            raise HeadwiseError(
                f"{method.units:g} units allow {int(method.units // self._size)} coalitions of {self._size} examples, "
                f"but {method.name} needs {least} for {players} players"
            )

    @property
    def coalitions(self) -> int:
        """Maximum number of coalitions of an estimate: the option, or as many as the units allow."""
        return self.method.coalitions or int(self.method.units // self._size)

    @property
    def _size(self) -> int:
        most = self.method.examples_per_coalition
        return most if self.method.fresh else min(most, len(self.problem.examples))

    @property
    def done(self) -> bool:
        """Whether the units do not allow another estimate."""
        single = not self.method.coalitions
        return self.asked > 0 and (single or self.spent + self.next_units > self.method.units)

    @property
    def next_units(self) -> float:
        """Maximum cost: every coalition on every example."""
        return float(self.coalitions * self._size)

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Compute one estimate."""
        seed = self._seed(first_draw)
        values = CoalitionValues(self.problem, self.method.examples_per_coalition, seed, self.method.fresh)
        found = self.method.solve(values, len(self.problem.players), self.coalitions, seed)
        units = np.array(values.cost.units)
        return {"values": found, "coalitions": np.array(values.asked), "units": units}, values.asked

    def _seed(self, first_draw: int) -> int:
        """A separate seed per estimate; a single estimate uses the seed of the run."""
        return _small_seed(self.seed, first_draw) if self.method.coalitions else self.seed

    def absorb(self, arrays: Arrays) -> None:
        """Add an estimate."""
        self.moments = self.moments.update(np.arange(len(self.problem.players)), arrays["values"])
        self.asked, self.spent = self.asked + int(arrays["coalitions"]), self.spent + float(arrays["units"])

    @property
    def status(self) -> str:
        """Number of coalitions so far."""
        return f"{self.asked} coalitions" if self.asked else "nothing yet"

    def scores(self, units: float, seed: int) -> HeadScores:
        """The mean of the estimates; its standard error is known if there are several unbiased estimates."""
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
    """The values of single players in `shapiq.InteractionValues`, (players,); 0 for missing players."""
    return np.array([float(found.dict_values.get((player,), 0.0)) for player in range(players)])


def _tensor_values(values: CoalitionValues, gates: Tensor) -> Tensor:
    return torch.from_numpy(values(gates.numpy() > 0.5)).float()


def _check_numbers(method: _Peer) -> None:
    for name, least in (("examples_per_coalition", 1), ("coalitions", 0)):
        if (value := getattr(method, name)) < least:
            raise HeadwiseError(f"{name} of {method.name} must be at least {least}, not {value}")


def _small_seed(seed: int, draw: int = 0) -> int:
    """A 32-bit seed, which all generators accept, from any integer."""
    return int(Draws(seed, "peers").uniform(draw, 1, 1)[0, 0] * 2**32)


def _import(module: str) -> Any:
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError:
        raise HeadwiseError(f"{package} is not installed: pip install 'headwise[peers]'") from None
