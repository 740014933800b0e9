"""Hard Concrete gates with an L0 penalty (Voita et al., 2019, section 6), the weights of the model frozen."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.games import LikelihoodGame
from headwise.hard_concrete import decided_gates, penalty_slope, sampled_with_slopes
from headwise.masks import HeadMask
from headwise.methods.base import Arrays, Problem
from headwise.methods.gate_training import Array, GateTrainer, check_training
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores

#: The attention that gates are put on: everything, or one kind of site.
Sites = Literal["all", "encoder", "decoder", "cross"]


@dataclass(frozen=True)
class L0:
    """Minimises the negative log-likelihood plus `lam · Σ P(gate is not 0)` over the parameters of Hard Concrete gates.

    The value of a player is `ln α` of its gate: the gate is 1 after training if it is above 0, and 0 otherwise;
    `l0_mask` makes the mask. Players outside the chosen sites have no value (NaN), and their gates stay 1. Values have
    no sign in the sense of harmful and helpful: with a large `lam`, also helpful players are removed.

    Gates are sampled for each example of a minibatch. The paper samples once per batch; with the engine's gates per
    row, a sample per example costs the same and its gradients have less noise.

    Attributes:
        lam: Weight of the penalty.
        sites: The gates that are trained: `all`, or those of one kind of site, `encoder`, `decoder` or `cross`.
        learning_rate: Learning rate of Adam.
        epochs: Number of passes over the examples.
        batch: Number of examples in a minibatch; a round is one minibatch.
        log_alpha: `ln α` of all gates at the start.
    """

    name: ClassVar[str] = "l0"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    version: ClassVar[int] = 1

    lam: float = 0.01
    sites: Sites = "all"
    learning_rate: float = 0.1
    epochs: int = 10
    batch: int = 32
    log_alpha: float = 2.0

    def __post_init__(self) -> None:
        check_training(self.batch, self.learning_rate, self.epochs)
        if not 0 <= self.lam < np.inf:
            raise HeadwiseError(f"lam must be a number of at least 0, not {self.lam}")

    def start(self, problem: Problem, seed: int) -> "L0Rounds":
        """Start the method on a problem."""
        return L0Rounds(self, problem, seed, np.full(len(problem.players), self.log_alpha))


class L0Rounds:
    """The training of the gates: a round is one step of Adam.

    Args:
        method: The options.
        problem: The problem.
        seed: Seed of the order of the examples and of the samples.
        log_alpha: The parameters at the start, (players,).
    """

    def __init__(self, method: L0, problem: Problem, seed: int, log_alpha: Array) -> None:
        self.method, self.problem = method, problem
        self.chosen = chosen_players(problem, method.sites)  # (players,)
        self.trainer = GateTrainer(
            problem.engine(LikelihoodGame()),
            len(problem.examples),
            seed,
            log_alpha,
            batch=method.batch,
            learning_rate=method.learning_rate,
            stream="l0",
        )
        self.noise = Draws(seed, "l0 gates")
        self.loss = np.nan

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        return self.trainer.steps >= self.method.epochs * self.trainer.epoch_steps

    @property
    def next_units(self) -> float:
        """Maximum cost of the next minibatch."""
        return self.trainer.next_units

    @property
    def status(self) -> str:
        """Number of steps so far, and number of gates that would be 1."""
        kept = int((self.trainer.theta > 0)[self.chosen].sum())
        return f"{self.trainer.steps} steps, {kept} of {self.chosen.sum()} kept"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """One training step."""
        rows, n = len(self.trainer.minibatch), len(self.trainer.theta)
        log_alpha = torch.from_numpy(self.trainer.theta)
        uniform = torch.from_numpy(self.noise.uniform(first_draw, rows, n))
        gates, slopes = sampled_with_slopes(log_alpha, uniform)
        push, chosen = self.method.lam * penalty_slope(log_alpha).numpy(), self.chosen
        sampled = np.where(chosen, gates.numpy(), 1.0)
        return self.trainer.step(sampled, slopes.numpy() * chosen, push * chosen), rows

    def absorb(self, arrays: Arrays) -> None:
        """Take over the state after a step."""
        self.trainer.absorb(arrays)
        self.loss = float(arrays["loss"])

    def scores(self, units: float, seed: int) -> HeadScores:
        """`ln α` of each gate, without decisions."""
        n = len(self.problem.players)
        value = np.where(self.chosen, self.trainer.theta, np.nan)
        return make_scores(
            self.problem, self.method, value, np.full(n, np.nan), np.full(n, self.trainer.steps), UNDECIDED * n, units,
            seed, confidence="none: trained gates", estimand=f"l0 gates (lam {self.method.lam:g})",
        )  # fmt: skip


def l0_mask(scores: HeadScores) -> HeadMask:
    """The mask of trained gates: a player is off if its gate is more probably 0 than 1.

    Args:
        scores: Scores of the method `l0`.

    Raises:
        HeadwiseError: The scores are those of another method.

    Example:
        >>> from headwise.scores import Provenance
        >>> scores = HeadScores(("encoder.0.0", "encoder.0.1"), (1.5, -2.0), (0.0, 0.0), (9, 9),
        ...                     ("undecided", "undecided"), Provenance("l0", "l0 gates (lam 0.01)"))
        >>> l0_mask(scores).off
        ('encoder.0.1',)
    """
    if scores.provenance.method != "l0":
        raise HeadwiseError(f"l0_mask needs scores of the method 'l0', not of {scores.provenance.method!r}")
    values = scores.values()
    on = decided_gates(torch.from_numpy(values)).numpy() | np.isnan(values)
    return scores.without([name for name, each in zip(scores.players, on, strict=True) if not each])


def chosen_players(problem: Problem, sites: Sites) -> NDArray[np.bool_]:
    """The players whose gates are trained, (players,): those whose members are all of the chosen kind of site.

    Raises:
        HeadwiseError: There is no such player.
    """
    if sites == "all":
        return np.ones(len(problem.players), dtype=bool)
    members = problem.players.members(problem.heads)
    found: NDArray[Any] = np.array([all(name.partition(".")[0] == sites for name in each) for each in members])
    if not found.any():
        raise HeadwiseError(f"sites: {problem.heads.model} has no player in {sites!r}: choose 'all' or another kind")
    return found
