"""Gradients of each head's parameters (Ma et al., 2021): unsigned, so it cannot distinguish harmful from helpful.

The paper sums "the absolute gradients on each head" while it goes over the dev set, normalises the sums within each
layer and scales them to [0, 1]. It states neither the batch size nor the norm, nor whether the gradients are those of a
head's parameters or of its output. Here the absolute value is taken of the gradient of each parameter on each single
example, so the order and the size of batches do not matter.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.engine import Gradients, LocalEngine
from headwise.engine.weight_gradients import WEIGHT_UNITS, head_weight_gradients
from headwise.errors import HeadwiseError
from headwise.games import LikelihoodGame
from headwise.methods.base import Arrays, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import SampleSums
from headwise.scores import HeadScores

Array = NDArray[np.float64]
Of = Literal["parameters", "gate"]
Norm = Literal["l1", "l2", "none"]


@dataclass(frozen=True)
class Gradient:
    """Sums of absolute gradients of the loss over dev examples, normalised in each layer and scaled to [0, 1].

    Attributes:
        of: `parameters`: the gradients of a head's rows of the query, key and value projections, with their biases, and
            of its columns of the output projection. `gate`: the gradient of its gate.
        norm: Divide by the norm of each layer's players: `l1`, `l2` or `none`. A layer is an attention site.
        examples: Number of examples in a round.

    Example:
        >>> Gradient(of="gate", norm="l2").signed
        False
    """

    name: ClassVar[str] = "gradient"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    of: Of = "parameters"
    norm: Norm = "l1"
    examples: int = 64

    def __post_init__(self) -> None:
        for option, known in (("of", Of), ("norm", Norm)):
            if getattr(self, option) not in get_args(known):
                wanted = ", ".join(get_args(known))
                raise HeadwiseError(f"{option} of gradient must be one of {wanted}, not {getattr(self, option)!r}")
        if self.examples < 1:
            raise HeadwiseError(f"a round needs at least one example, not {self.examples}")

    def start(self, problem: Problem, seed: int) -> "GradientRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem.

        Raises:
            HeadwiseError: Gradients of parameters are not available for the problem's players or engine.
        """
        other = [kind for kind in problem.players.owners if kind != "heads"]
        if self.of == "parameters" and other:
            raise HeadwiseError(
                f"gradient with of='parameters' scores heads and kv groups, not {other[0]}: use of='gate'"
            )
        return GradientRounds(self, problem)


class GradientRounds:
    """One pass over the examples."""

    def __init__(self, method: Gradient, problem: Problem) -> None:
        self.method, self.problem = method, problem
        self.engine = problem.engine(LikelihoodGame())
        self.sums = SampleSums.start(len(problem.players))

    @property
    def done(self) -> bool:
        """Whether every example was processed."""
        return self.sums.count >= len(self.problem.examples)

    @property
    def next_units(self) -> float:
        """Maximum cost: a forward and a backward pass for each example, and the gradients of weights."""
        rows = min(self.method.examples, len(self.problem.examples) - self.sums.count)
        return WEIGHT_UNITS * rows if self.method.of == "parameters" else self.engine.most_units(rows, gradients=True)

    @property
    def status(self) -> str:
        """Number of examples so far."""
        return f"{self.sums.count} examples"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The gradients of the next examples."""
        index = np.arange(first_draw, min(first_draw + self.method.examples, len(self.problem.examples)))
        found = self._gradients(index)
        size = np.abs(found.gradients.numpy().astype(np.float64))  # (examples, players)
        return {**SampleSums.arrays(size), "units": np.array(found.cost.units)}, len(index)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        self.sums = self.sums.add(arrays)

    def scores(self, units: float, seed: int) -> HeadScores:
        """Normalised and scaled gradients, without decisions.

        Standard errors treat the norms of layers and the ends of the scale as known.
        """
        n, norms = len(self.problem.players), layer_norms(self.problem.players.names, self.sums.mean, self.method.norm)
        shares = self.sums.mean / norms
        low, width = shares.min(), np.ptp(shares) or 1.0
        return make_scores(
            self.problem, self.method, (shares - low) / width, self.sums.stderr / norms / width,
            np.full(n, self.sums.count), UNDECIDED * n, units, seed, confidence="none: unsigned",
            estimand="sensitivity",
        )  # fmt: skip

    def _gradients(self, index: NDArray[np.int64]) -> Gradients:
        if self.method.of == "gate":
            return self.engine.gradients(np.ones((len(index), len(self.problem.players)), dtype=bool), index)
        if not isinstance(self.engine, LocalEngine):
            raise HeadwiseError("gradient with of='parameters' runs on the local engine only: use of='gate'")
        return head_weight_gradients(self.engine, index)


def layer_norms(names: tuple[str, ...], values: Array, norm: Norm) -> Array:
    """The norm of the values in each player's layer, (players,); 1 for a layer in which all values are 0.

    Example:
        >>> layer_norms(("encoder.0.0", "encoder.0.1", "encoder.1.0"), np.array([3.0, 4.0, 0.0]), "l2").tolist()
        [5.0, 5.0, 1.0]
    """
    if norm == "none":
        return np.ones(len(values))
    layers, place = np.unique([name.rpartition(".")[0] for name in names], return_inverse=True)
    power = 1 if norm == "l1" else 2
    totals = np.bincount(place, np.abs(values) ** power, len(layers)) ** (1 / power)  # (layers,)
    return np.asarray(np.where(totals > 0, totals, 1.0)[place])
