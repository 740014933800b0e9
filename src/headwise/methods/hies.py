"""HIES: sensitivity to gates combined with the entropy of attention weights."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.methods.attention_statistics import AttentionPasses, SiteTokens, entropies
from headwise.methods.base import Arrays, Problem
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.michel import Michel, MichelRounds
from headwise.scores import HeadScores

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Hies:
    """The Head Importance-Entropy Score, `α·Î + (1 − α)·(1 − Ê)`, with both parts scaled to [0, 1] over all players.

    Choi, Son, Kim & Kim, "Entropy Meets Importance" (arXiv 2510.13832), equations 1, 2 and 5. `I` is the sensitivity of
    `michel`. `E` is the entropy of attention weights divided by the logarithm of the number of keys, as a mean over the
    tokens of an example and then over examples. A hat means (x − min) / (max − min) over all players. The paper
    chooses α for each task on held-out data and gives no value; the default of 0.5 is ours.

    Attributes:
        alpha: α, the weight of the sensitivity, from 0 to 1.
        examples: Number of examples in a round.

    Example:
        >>> Hies(alpha=0.8).name
        'hies'
    """

    name: ClassVar[str] = "hies"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    alpha: float = 0.5
    examples: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise HeadwiseError(f"alpha must be between 0 and 1, not {self.alpha}")
        if self.examples < 1:
            raise HeadwiseError(f"a round needs at least one example, not {self.examples}")

    def start(self, problem: Problem, seed: int) -> "HiesRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem.

        Raises:
            HeadwiseError: The players are not heads or groups of heads.
        """
        return HiesRounds(self, problem)


class HiesRounds:
    """One pass over the examples: gradients for the sensitivity, and a forward pass for the entropy."""

    def __init__(self, method: Hies, problem: Problem) -> None:
        self.method, self.problem = method, problem
        self.passes = AttentionPasses(method.name, problem)
        self.importance = MichelRounds(Michel(examples=method.examples), problem)
        self.entropy, self.weight = np.zeros((2, len(problem.players)))

    @property
    def done(self) -> bool:
        """Whether every example was processed."""
        return self.importance.done

    @property
    def next_units(self) -> float:
        """Maximum cost: two forward passes and a backward pass for each example."""
        remaining = len(self.problem.examples) - self.importance.sums.count
        return self.importance.next_units + min(self.method.examples, remaining)

    @property
    def status(self) -> str:
        """Number of examples so far."""
        return self.importance.status

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """Gradients and entropies of the next examples."""
        arrays, count = self.importance.draw(first_draw)
        sums, weights, cost = self.passes.run(np.arange(first_draw, first_draw + count), normalised_entropies)
        units = np.array(float(arrays["units"]) + cost.units)
        return {**arrays, "entropy": sums.sum(0), "weight": weights.sum(0), "units": units}, count

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        self.importance.absorb(arrays)
        self.entropy, self.weight = self.entropy + arrays["entropy"], self.weight + arrays["weight"]

    def scores(self, units: float, seed: int) -> HeadScores:
        """The scores, without standard errors and decisions."""
        n, alpha = len(self.problem.players), self.method.alpha
        entropy = np.divide(self.entropy, self.weight, out=np.full(n, np.nan), where=self.weight > 0)
        value = alpha * scaled(self.importance.sums.mean) + (1 - alpha) * (1 - scaled(entropy))
        return make_scores(
            self.problem, self.method, value, np.full(n, np.nan), np.full(n, self.importance.sums.count), UNDECIDED * n,
            units, seed, confidence="none: unsigned", estimand=f"hies({alpha:g})",
        )  # fmt: skip


def normalised_entropies(weights: Tensor, tokens: SiteTokens) -> tuple[Tensor, Tensor]:
    """The mean over an example's queries of entropy / ln(number of keys), (rows, heads), with a weight of 1, (rows,).

    With a single key, the entropy is 0, and so is the result.
    """
    sums, counts = entropies(weights, tokens)
    largest = tokens.keys.sum(-1).log()
    scale = torch.where(largest > 0, counts * largest, torch.inf)
    return sums / scale[:, None], torch.ones_like(counts)


def scaled(values: Array) -> Array:
    """Values scaled to [0, 1] by their minimum and maximum; 0 if all are equal.

    Example:
        >>> scaled(np.array([2.0, 4.0, 3.0])), scaled(np.array([2.0, 2.0]))
        (array([0. , 1. , 0.5]), array([0., 0.]))
    """
    shifted = values - values.min()
    return np.asarray(shifted / (shifted.max() or 1.0))
