"""Soft masks: a real gate for every player, trained with the weights frozen and chosen on held-out examples."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.engine import Engine
from headwise.errors import HeadwiseError, require_whole
from headwise.games import LikelihoodGame
from headwise.hard_concrete import decided_gates, penalty_slope, sampled_with_slopes
from headwise.methods.base import Arrays, Problem
from headwise.methods.gate_training import Array, GateTrainer, Limits, check_training
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores
from headwise.soft_masks import SoftMask

#: Smallest weight of the last step in the average of the gates: an average over about the last 20 steps.
_AVERAGED = 0.05
#: `ln α` of Hard Concrete gates at the start: nine in ten samples are 1.
_LOG_ALPHA = 4.0


@dataclass(frozen=True)
class Soft:
    """Minimises the negative log-likelihood plus `l1 · Σ |gate − 1| + l0 · Σ P(gate is not 0)` over real gates.

    Gates start at 1. With `l0` above 0, each gate is multiplied by a Hard Concrete gate (see the method `l0`), which is
    trained together with it: gates that are not worth the penalty become exactly 0, and their heads can be removed.

    The examples are split at random. Gates are trained on the larger part. After every epoch, the log-likelihood of the
    other part is computed under the gates of the last step and under the average of the last steps. The gates with the
    highest log-likelihood minus `l0` for every gate that is not 0 are kept. If that is not higher than for the model
    without gates, all gates stay 1.

    The value of a player is its gate: 0 is off, 1 leaves it unchanged. `soft_mask` makes the mask. Values are unsigned:
    a gate below 1 means that less of the player is better, not that the player is better removed.

    Attributes:
        l1: Weights of the penalty, tried in this order; each starts from the gates at which the one before it ended.
        l0: Weight of the L0 penalty.
        learning_rate: Learning rate of Adam.
        epochs: Maximum number of passes over the examples, for each weight of the penalty.
        patience: Number of epochs without a new highest log-likelihood after which the training for a weight ends.
        batch: Number of examples in a minibatch.
        held_out: Share of the examples that the gates are chosen on.
        smallest: The smallest gate; None for no limit. Gates below 0 invert the output of a head.
        largest: The largest gate; None for no limit.
    """

    name: ClassVar[str] = "soft"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    version: ClassVar[int] = 1

    l1: tuple[float, ...] = (0.0,)
    l0: float = 0.0
    learning_rate: float = 0.1
    epochs: int = 30
    patience: int = 5
    batch: int = 16
    held_out: float = 0.2
    smallest: float | None = None
    largest: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "l1", tuple(self.l1))  # a list if it comes from a YAML file
        check_training(self.batch, self.learning_rate, self.epochs)
        require_whole("patience", self.patience, 1)
        if not self.l1 or not all(0 <= each < math.inf for each in self.l1):
            raise HeadwiseError(f"l1 must be a list of numbers of at least 0, not {list(self.l1)}")
        if not 0 <= self.l0 < math.inf:
            raise HeadwiseError(f"l0 must be a number of at least 0, not {self.l0}")
        if not 0 < self.held_out < 1:
            raise HeadwiseError(f"held_out must be between 0 and 1, not {self.held_out}")
        low, high = self.limits
        if not low <= 1 <= high:
            raise HeadwiseError(f"gates start at 1, which must be between smallest ({low}) and largest ({high})")

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest gate."""
        low, high = self.smallest, self.largest
        return -math.inf if low is None else low, math.inf if high is None else high

    def start(self, problem: Problem, seed: int) -> "SoftRounds":
        """Start the method on a problem.

        Raises:
            HeadwiseError: There are fewer than two examples.
        """
        if len(problem.examples) < 2:
            raise HeadwiseError("soft masks need at least 2 examples, one to train on and one to choose by")
        return SoftRounds(self, problem, seed)


class SoftRounds:
    """The training of the gates. A round is one step of Adam, or one pass over the held-out examples.

    Args:
        method: The options.
        problem: The problem.
        seed: Seed of the split and of the order of the examples.
    """

    def __init__(self, method: Soft, problem: Problem, seed: int) -> None:
        self.method, self.problem, self.seed = method, problem, seed
        self.fitting, self.choosing = split_examples(len(problem.examples), method.held_out, seed)
        self.engine = problem.engine(LikelihoodGame())
        self.place = -1  # of the weight of the penalty; -1 until the model without gates is measured
        n = len(problem.players)
        self.best_gates = np.ones(n)
        self.best, self.plain, self.epochs = -math.inf, math.nan, 0
        self._restart(np.concatenate([np.ones(n), np.full(n, _LOG_ALPHA)]) if method.l0 else np.ones(n))

    def _restart(self, theta: Array) -> None:
        """Start the training for the next weight of the penalty."""
        self.trainer = _PartTrainer(self.engine, self.fitting, self.seed, theta, self.method, max(self.place, 0))
        self.average, self.epoch, self.waited = np.array(theta), 0, 0

    @property
    def done(self) -> bool:
        """Whether the training is over for every weight of the penalty."""
        return self.place >= len(self.method.l1)

    @property
    def judging(self) -> bool:
        """Whether the next round is a pass over the held-out examples: at the start, and after each epoch."""
        return self.place < 0 or self.trainer.steps == (self.epoch + 1) * self.trainer.epoch_steps

    @property
    def candidates(self) -> tuple[Array, ...]:
        """The gates to choose from: those of the last step, and the average of the last steps, (players,) each."""
        thetas = (self.average,) if self.place < 0 else (self.trainer.theta, self.average)
        return tuple(self._decided(theta) for theta in thetas)

    def _decided(self, theta: Array) -> Array:
        """The gates of some parameters; with an L0 penalty, a Hard Concrete gate that is more probably 0 is 0."""
        if not self.method.l0:
            return theta
        gates, log_alpha = np.split(theta, 2)
        return np.where(decided_gates(torch.from_numpy(log_alpha)).numpy(), gates, 0.0)

    @property
    def next_units(self) -> float:
        """Maximum cost of the next round."""
        if not self.judging:
            return self.trainer.next_units
        return self.engine.most_units(len(self.choosing) * len(self.candidates))

    @property
    def status(self) -> str:
        """The epoch, and the log-likelihoods of the best gates and of the model without gates."""
        if self.place < 0:
            return "starting"
        weight = f", l1 {self.method.l1[min(self.place, len(self.method.l1) - 1)]:g}" if len(self.method.l1) > 1 else ""
        value = "log-likelihood" if not self.method.l0 else "log-likelihood minus the L0 penalty"
        held_out = f"{value} {self.best:.4f} on held-out examples, {self.plain:.4f} without gates"
        return f"{self.epochs} epochs{weight}, {held_out}"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:  # noqa: ARG002 - the state has the number of the step
        """One training step, or the log-likelihood of the held-out examples under the candidates."""
        if not self.judging:
            return self._step(), len(self.trainer.minibatch)
        gates = np.stack(self.candidates).astype(np.float32)  # (candidates, players)
        rows, index = np.repeat(gates, len(self.choosing), axis=0), np.tile(self.choosing, len(gates))
        found = self.engine.values(rows, index)
        values = found.values.double().numpy().reshape(len(gates), -1).mean(1)
        return {"values": values, "units": np.array(found.cost.units)}, 0

    def _step(self) -> Arrays:
        """One training step."""
        trainer, l1 = self.trainer, self.method.l1[self.place]
        if not self.method.l0:
            return trainer.step(trainer.theta, np.ones_like(trainer.theta), l1 * np.sign(trainer.theta - 1))
        gates, log_alpha = np.split(trainer.theta, 2)
        first = trainer.steps * self.method.batch
        noise = Draws(self.seed, f"soft gates {self.place}").uniform(first, len(trainer.minibatch), len(gates))
        opened, slopes = sampled_with_slopes(torch.from_numpy(log_alpha), torch.from_numpy(noise))  # (rows, players)
        slope = np.concatenate([opened.numpy(), gates * slopes.numpy()], axis=1)  # of the product
        push = self.method.l0 * penalty_slope(torch.from_numpy(log_alpha)).numpy()
        return trainer.step(gates * opened.numpy(), slope, np.concatenate([l1 * np.sign(gates - 1), push]))

    def absorb(self, arrays: Arrays) -> None:
        """Take over a step, or choose by a log-likelihood."""
        if "values" in arrays:
            self._choose(arrays["values"])
            return
        self.trainer.absorb(arrays)
        weight = max(_AVERAGED, 1 / (self.trainer.steps + 1))
        self.average = self.average + weight * (self.trainer.theta - self.average)

    def _choose(self, values: Array) -> None:
        """Keep the best candidate if it is the best so far; end the training after too many epochs without one."""
        values = values - self.method.l0 * np.count_nonzero(self.candidates, axis=1)
        value, gates = float(values.max()), self.candidates[int(values.argmax())]
        if self.place < 0:
            self.best, self.plain, self.place = value, value, 0
            return
        self.epoch, self.epochs, self.waited = self.epoch + 1, self.epochs + 1, self.waited + 1
        if value > self.best:
            self.best, self.best_gates, self.waited = value, gates, 0
        if self.epoch == self.method.epochs or self.waited == self.method.patience:
            self.place += 1
            self._restart(self.average)

    def scores(self, units: float, seed: int) -> HeadScores:
        """The chosen gates, without decisions."""
        n = len(self.problem.players)
        gates = self.best_gates.astype(np.float32)  # in which they were valued
        return make_scores(
            self.problem, self.method, gates, np.full(n, np.nan), np.full(n, len(self.fitting)), UNDECIDED * n, units,
            seed, confidence="none: trained gates", estimand="soft gates",
        )  # fmt: skip


class _PartTrainer(GateTrainer):
    """Trains gates on a part of the engine's examples."""

    def __init__(
        self, engine: Engine, part: NDArray[np.int64], seed: int, theta: Array, method: Soft, place: int
    ) -> None:
        self.part = part
        unlimited = np.full(len(theta) // 2, np.inf)  # the parameters of Hard Concrete gates
        limits: Limits = method.limits
        if method.l0:
            low, high = (np.full_like(unlimited, each) for each in method.limits)
            limits = np.concatenate([low, -unlimited]), np.concatenate([high, unlimited])
        super().__init__(
            engine,
            len(part),
            seed,
            theta,
            batch=method.batch,
            learning_rate=method.learning_rate,
            limits=limits,
            stream=f"soft {place}",
        )

    @property
    def minibatch(self) -> NDArray[np.int64]:
        """The examples of the next step, by their numbers in the engine, (rows,)."""
        return self.part[super().minibatch]


def split_examples(count: int, held_out: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers of the examples to train on and of those to choose by; at least one of each.

    Args:
        count: Number of examples, at least 2.
        held_out: Share of the examples to choose by.
        seed: Seed of the split.

    Example:
        >>> split_examples(10, 0.2, seed=0)
        (array([0, 1, 3, 4, 5, 6, 7, 8]), array([2, 9]))
    """
    order = np.argsort(Draws(seed, "soft split").uniform(0, 1, count)[0], kind="stable")
    size = min(max(1, round(held_out * count)), count - 1)
    return np.sort(order[size:]), np.sort(order[:size])


def soft_mask(scores: HeadScores) -> SoftMask:
    """The soft mask of trained gates. A player that is a group of heads gives its gate to all of them.

    Args:
        scores: Scores of the method `soft`.

    Raises:
        HeadwiseError: The scores are those of another method.

    Example:
        >>> from headwise.scores import Provenance
        >>> scores = HeadScores(("encoder.0.0", "encoder.0.1"), (1.25, 0.5), (0.0, 0.0), (9, 9),
        ...                     ("undecided", "undecided"), Provenance("soft", "soft gates", language="zh"))
        >>> soft_mask(scores).gates
        (1.25, 0.5)
    """
    origin = scores.provenance
    if origin.method != Soft.name:
        raise HeadwiseError(f"the scores of {origin.method} are not gates: score with the method 'soft'")
    full = scores.without(())  # has the heads of every player, in the model's order
    members = scores.members or tuple((name,) for name in scores.players)
    gates = {name: value for value, names in zip(scores.value, members, strict=True) for name in names}
    return SoftMask(
        full.players,
        tuple(gates[name] for name in full.players),
        full.kind,
        origin.model,
        origin.fingerprint,
        origin.language,
    )
