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
from headwise.methods.example_pass import ExamplePass
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import Norm, SampleSums, layer_norms
from headwise.scores import HeadScores

Array = NDArray[np.float64]
Of = Literal["parameters", "gate"]


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


class GradientRounds(ExamplePass):
    """One pass over the examples."""

    def __init__(self, method: Gradient, problem: Problem) -> None:
        super().__init__(problem, problem.engine(LikelihoodGame()), method.examples)
        self.method = method

    @property
    def next_units(self) -> float:
        """Maximum cost: a forward and a backward pass for each example, and the gradients of weights."""
        return WEIGHT_UNITS * self.next_examples if self.method.of == "parameters" else super().next_units

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The gradients of the next examples."""
        index = self.index(first_draw)
        found = self._gradients(index)
        size = np.abs(found.gradients.numpy().astype(np.float64))  # (examples, players)
        return {**SampleSums.arrays(size), "units": np.array(found.cost.units)}, len(index)

    def scores(self, units: float, seed: int) -> HeadScores:
        """Normalised and scaled gradients, without decisions.

        Standard errors treat the norms of layers and the ends of the scale as known.
        """
        n, norms = len(self.problem.players), layer_norms(self.problem.players.names, self.sums.mean, self.method.norm)
        shares = self.sums.mean / norms
        low, width = shares.min(), np.ptp(shares) or 1.0
        return make_scores(
            self.problem, self.method, (shares - low) / width, self.sums.stderr / norms / width,
            self.counts, UNDECIDED * n, units, seed, confidence="none: unsigned",
            estimand="sensitivity",
        )  # fmt: skip

    def _gradients(self, index: NDArray[np.int64]) -> Gradients:
        if self.method.of == "gate":
            return self.engine.gradients(self.all_on(index), index)
        if type(self.engine) is not LocalEngine:
            raise HeadwiseError(
                "gradient with of='parameters' runs on the local engine only: use of='gate', or omit --workers"
            )
        return head_weight_gradients(self.engine, index)
