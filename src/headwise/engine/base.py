"""The engine's protocol: the values of rows, where a row is gates and an example. Every result includes its cost."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.engine.cost import EngineCost
from headwise.engine.examples import ExampleSet
from headwise.engine.players import PlayerSet
from headwise.errors import HeadwiseError
from headwise.games.base import Game
from headwise.games.generation import GenerationGame
from headwise.heads import HeadMap
from headwise.means import MeanOutputs

#: Gates of rows, (rows, players): booleans (on or off), or real numbers that multiply a player's output.
Gates = Tensor | NDArray[np.bool_] | NDArray[np.floating]
#: Numbers of examples or players.
Index = Tensor | NDArray[np.int64]


@dataclass(frozen=True)
class EngineSettings:
    """Settings of an engine. Except for the precision of `bfloat16`, they do not change its values.

    Attributes:
        token_budget: Maximum number of padded tokens in a batch; None for a default that depends on the device.
        memory_limit: Maximum number of bytes of the activations of a batch.
        reuse_prefixes: Compute layers only once for rows with the same example and the same gates up to that layer, and
            tokens only once for choices with the same beginning.
        bfloat16: Compute in bfloat16 with autocast: faster on most devices, but less exact.
    """

    token_budget: int | None = None
    memory_limit: int = 2 * 2**30
    reuse_prefixes: bool = True
    bfloat16: bool = False


@dataclass(frozen=True)
class Values:
    """The values of rows.

    Attributes:
        values: Value of each row, (rows,), or (rows, statistics) for games of several statistics.
        cost: Their cost.
    """

    values: Tensor
    cost: EngineCost


@dataclass(frozen=True)
class Gradients:
    """The values of rows and their gradients.

    Attributes:
        values: Value of each row, (rows,).
        gradients: Derivative of each value with respect to every player's gate, (rows, players).
        cost: Their cost.
    """

    values: Tensor
    gradients: Tensor
    cost: EngineCost


@dataclass(frozen=True)
class Flips:
    """The values of base coalitions and of their single flips.

    Attributes:
        base: Value of each base, (bases,) or (bases, statistics).
        flipped: Value of each flip, (bases, flips) or (bases, flips, statistics); NaN for an index of -1.
        cost: Their cost.
    """

    base: Tensor
    flipped: Tensor
    cost: EngineCost


class Engine(Protocol):
    """Computes the value of examples under gates."""

    def values(self, gates: Gates, index: Index) -> Values:
        """The values of rows.

        Args:
            gates: Gates of each row, boolean or real, (rows, players).
            index: The example of each row, (rows,).

        Raises:
            HeadwiseError: The rows do not fit the players or the examples, or a value is not a finite number.
        """

    def gradients(self, gates: Gates, index: Index) -> Gradients:
        """The values of rows, and their gradients with respect to every player's gate.

        Raises:
            HeadwiseError: The game has no gradient, or a value or a gradient is not a finite number.
        """

    def flips(self, bases: Gates, index: Index, players: Index) -> Flips:
        """The values of base coalitions, and of the same coalitions with one player flipped.

        Args:
            bases: The bases, boolean, (bases, players).
            index: The example of each base, (bases,).
            players: The players to flip, one at a time, (bases, flips); -1 for no flip.
        """

    @property
    def flip_units(self) -> NDArray[np.float64]:
        """Cost of the flip of each player in addition to its base, in one batch, in units, (players,)."""

    def most_units(self, rows: int, shared: float | None = None, gradients: bool = False) -> float:
        """An upper bound on the units that one call may cost.

        Args:
            rows: Number of rows.
            shared: The cost of the rows if all of them are in one batch, if known: for instance, the number of bases
                plus the `flip_units` of all flips. None if it is not known.
            gradients: Whether the call is to `gradients` instead of `values` or `flips`.
        """


class EngineFactory(Protocol):
    """Creates an engine for a game; `LocalEngine` is a factory."""

    def __call__(
        self,
        model: nn.Module,
        heads: HeadMap | None,
        game: Game | GenerationGame,
        examples: ExampleSet,
        players: PlayerSet | None = None,
        settings: EngineSettings | None = None,
        baseline: MeanOutputs | None = None,
    ) -> Engine:
        """Create an engine."""


def calls_at_once(make_engine: EngineFactory) -> int:
    """Number of engines of a factory that may be called at the same time, each in a thread of its own.

    It is 1 for engines in this process, which share the model, and larger for those of a cluster.
    """
    return int(getattr(make_engine, "calls_at_once", 1))


def check_rows(gates: Gates, index: Index, players: int, examples: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Gates and example numbers of rows as arrays: real gates as float32, other gates as booleans.

    Raises:
        HeadwiseError: They do not fit each other, the players or the examples.
    """
    given = torch.as_tensor(gates).detach().cpu()
    found = given.float().numpy() if given.is_floating_point() else given.numpy().astype(bool)
    numbers = torch.as_tensor(index).cpu().numpy().astype(np.int64)
    if found.shape != (len(numbers), players):
        raise HeadwiseError(f"masks of shape {found.shape} do not fit {len(numbers)} rows of {players} players")
    if not np.isfinite(found).all():
        raise HeadwiseError("a gate is NaN or infinite: gates must be booleans or finite real numbers")
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < examples):
        raise HeadwiseError(f"the examples are numbered 0 to {examples - 1}, not {numbers.max()}")
    return found, numbers


def value_flips(engine: Engine, bases: Gates, index: Index, players: Index) -> Flips:
    """`Engine.flips` by a single call to `Engine.values`, which computes shared layers once.

    Raises:
        HeadwiseError: The bases are not boolean.
    """
    on = torch.as_tensor(bases).cpu().numpy()
    if on.dtype.kind == "f":
        raise HeadwiseError("only boolean gates can be flipped: pass bases of type bool")
    on, index = on.astype(bool), torch.as_tensor(index).cpu().numpy()
    chosen = torch.as_tensor(players).numpy()  # (bases, flips)
    base, place = np.nonzero(chosen >= 0)
    flipped = on[base]
    flipped[np.arange(len(base)), chosen[base, place]] ^= True
    rows = engine.values(np.concatenate([on, flipped]), np.concatenate([index, index[base]]))
    found = torch.full((*chosen.shape, *rows.values.shape[1:]), torch.nan)
    found[base, place] = rows.values[len(on) :]
    return Flips(rows.values[: len(on)], found, rows.cost)
