"""Causal head gating (Nam et al., arXiv 2505.13737): gates trained to be as open, and as closed, as the loss allows."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headwise.errors import HeadwiseError
from headwise.games import LikelihoodGame
from headwise.methods.base import Arrays, Problem
from headwise.methods.gate_training import AdamState, Array, GateTrainer, check_training, sigmoid
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores

#: The role of a player.
HeadClass = Literal["facilitating", "interfering", "irrelevant"]
#: The stages of the training, in order, and the sign of the push on the parameters in each.
_STAGES = {"fit": 0.0, "open": 1.0, "closed": -1.0}


@dataclass(frozen=True)
class CausalHeadGating:
    """Gates `G = σ(θ)` that minimise `NLL − λ·Σθ`, the weights of the model frozen.

    The gates are first fitted without a push (λ = 0) from θ = 0. From there they are trained twice, on the same
    examples in the same order: with λ = `lam` to G⁺, as open as the loss allows, and with λ = −`lam` to G⁻, as closed
    as the loss allows. A player with G⁺ near 0 is interfering: its gate closes although it is pushed open. A player
    with G⁻ near 1 is facilitating. Any other player is irrelevant. The value is `G⁺ + G⁻ − 1`, which is −1, 1 and 0 for
    these three; `head_classes` gives the class of each player.

    No error rate is stated for these classes, so all decisions of the scores are `undecided`.

    Attributes:
        lam: Strength of the push, per player.
        learning_rate: Learning rate of Adam.
        epochs: Number of passes over the examples in each of the three stages.
        batch: Number of examples in a minibatch; a round is one minibatch.
        limit: θ stays between −limit and limit. With 4, gates stay between 0.018 and 0.982.
    """

    name: ClassVar[str] = "chg"
    signed: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    version: ClassVar[int] = 1

    lam: float = 0.001
    learning_rate: float = 0.1
    epochs: int = 10
    batch: int = 32
    limit: float = 4.0

    def __post_init__(self) -> None:
        check_training(self.batch, self.learning_rate, self.epochs)
        for name in ("lam", "limit"):
            if not 0 < getattr(self, name) < np.inf:
                raise HeadwiseError(f"{name} must be a positive number, not {getattr(self, name)}")

    def start(self, problem: Problem, seed: int) -> "GatingRounds":
        """Start the method on a problem."""
        return GatingRounds(self, problem, seed)


class GatingRounds:
    """The training of the gates, stage by stage: a round is one step of Adam."""

    def __init__(self, method: CausalHeadGating, problem: Problem, seed: int) -> None:
        self.method, self.problem = method, problem
        engine = problem.engine(LikelihoodGame())
        self.trainers = {
            stage: GateTrainer(
                engine,
                len(problem.examples),
                seed,
                np.zeros(len(problem.players)),
                batch=method.batch,
                learning_rate=method.learning_rate,
                limits=(-method.limit, method.limit),
                stream="chg fit" if stage == "fit" else "chg push",
            )
            for stage in _STAGES
        }

    @property
    def stage(self) -> str | None:
        """The stage of the next step; None after the last step."""
        for stage, trainer in self.trainers.items():
            if trainer.steps < self.method.epochs * trainer.epoch_steps:
                return stage
        return None

    @property
    def done(self) -> bool:
        """Whether all stages are over."""
        return self.stage is None

    @property
    def next_units(self) -> float:
        """Maximum cost of the next minibatch."""
        return 0.0 if self.stage is None else self.trainers[self.stage].next_units

    @property
    def status(self) -> str:
        """The stage, and its number of steps."""
        return "done" if self.stage is None else f"stage {self.stage}, {self.trainers[self.stage].steps} steps"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:  # noqa: ARG002 - the trainer counts its steps
        """One training step."""
        assert self.stage is not None
        trainer = self.trainers[self.stage]
        gates = sigmoid(trainer.theta)
        push = -self.method.lam * _STAGES[self.stage]  # the gradient of −λ·Σθ
        return trainer.step(gates, gates * (1 - gates), push), len(trainer.minibatch)

    def absorb(self, arrays: Arrays) -> None:
        """Take over the state after a step; both later stages start from the gates of the first."""
        stage = self.stage
        assert stage is not None
        self.trainers[stage].absorb(arrays)
        if stage == "fit":
            for later in ("open", "closed"):
                self.trainers[later].state = AdamState.start(self.trainers["fit"].theta)

    def gates(self) -> tuple[Array, Array]:
        """The gates G⁺ and G⁻, (players,) each."""
        return sigmoid(self.trainers["open"].theta), sigmoid(self.trainers["closed"].theta)

    def scores(self, units: float, seed: int) -> HeadScores:
        """`G⁺ + G⁻ − 1`, without decisions."""
        n, steps = len(self.problem.players), sum(each.steps for each in self.trainers.values())
        wide, tight = self.gates()
        return make_scores(
            self.problem, self.method, wide + tight - 1, np.full(n, np.nan), np.full(n, steps), UNDECIDED * n, units,
            seed, confidence="none: trained gates", estimand="causal head gating",
        )  # fmt: skip


def head_classes(scores: HeadScores, threshold: float = 0.5) -> dict[str, HeadClass]:
    """The class of each player: `facilitating`, `interfering` or `irrelevant`.

    Args:
        scores: Scores of the method `chg`.
        threshold: A player is facilitating if its value is above this, interfering if its value is below minus this.

    Raises:
        HeadwiseError: The scores are those of another method.

    Example:
        >>> from headwise.scores import Provenance
        >>> scores = HeadScores(("encoder.0.0", "encoder.0.1", "encoder.0.2"), (0.9, -0.8, 0.1), (0.0,) * 3, (9,) * 3,
        ...                     ("undecided",) * 3, Provenance("chg", "causal head gating"))
        >>> head_classes(scores)
        {'encoder.0.0': 'facilitating', 'encoder.0.1': 'interfering', 'encoder.0.2': 'irrelevant'}
    """
    if scores.provenance.method != "chg":
        raise HeadwiseError(f"head_classes needs scores of the method 'chg', not of {scores.provenance.method!r}")

    def of(value: float) -> HeadClass:
        if value > threshold:
            return "facilitating"
        return "interfering" if value < -threshold else "irrelevant"

    return {name: of(value) for name, value in zip(scores.players, scores.value, strict=True)}
