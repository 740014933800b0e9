"""Training of gates with the weights of the model frozen: Adam over one parameter per player.

The engine gives the derivative of each example's value with respect to every gate. The rest of a training step is
arithmetic on vectors of one number per player: the chain rule from gates to parameters, and Adam. The whole state is
stored after every step, so a run that is replayed from its journal continues with the same bits.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.engine import Engine
from headwise.errors import HeadwiseError, require_whole

Array = NDArray[np.float64]
#: The smallest and the largest value, of all parameters or of each, (parameters,).
Limits = tuple[float | Array, float | Array]

#: Adam's decay rates of the mean and of the squares of gradients, and the number added to its denominator.
_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class AdamState:
    """Parameters, and the state of Adam (Kingma & Ba, 2015) after a number of steps.

    Attributes:
        theta: The parameters, (parameters,).
        mean: Decaying mean of the gradients, (parameters,).
        square: Decaying mean of the squared gradients, (parameters,).
        steps: Number of steps so far.

    Example:
        >>> state = AdamState.start(np.array([1.0, 1.0])).updated(np.array([2.0, -0.5]), learning_rate=0.1)
        >>> state.theta.round(3), state.steps
        (array([0.9, 1.1]), 1)
    """

    theta: Array
    mean: Array
    square: Array
    steps: int = 0

    @classmethod
    def start(cls, theta: Array) -> "AdamState":
        """The state before the first step."""
        theta = np.array(theta, dtype=np.float64)
        return cls(theta, np.zeros_like(theta), np.zeros_like(theta))

    def updated(self, gradient: Array, learning_rate: float, limits: Limits | None = None) -> "AdamState":
        """The state after a step against a gradient.

        Args:
            gradient: Gradient of the loss with respect to the parameters, (parameters,).
            learning_rate: Size of the step.
            limits: The smallest and the largest value of a parameter; None for no limits.
        """
        steps = self.steps + 1
        mean = _BETAS[0] * self.mean + (1 - _BETAS[0]) * gradient
        square = _BETAS[1] * self.square + (1 - _BETAS[1]) * gradient**2
        root = np.sqrt(square / (1 - _BETAS[1] ** steps)) + _EPSILON
        theta = self.theta - learning_rate * (mean / (1 - _BETAS[0] ** steps)) / root
        return AdamState(theta if limits is None else np.clip(theta, *limits), mean, square, steps)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state as arrays that a journal stores; `from_arrays` is the inverse."""
        return {"theta": self.theta, "mean": self.mean, "square": self.square, "steps": np.array(self.steps)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "AdamState":
        """The state that `arrays` described."""
        return cls(arrays["theta"], arrays["mean"], arrays["square"], int(arrays["steps"]))


class GateTrainer:
    """Trains one or more parameters per player on minibatches. The loss is minus the mean value of the examples.

    A training step of a method has three lines. The method computes the gates of the next minibatch from
    `trainer.theta`, and `step` returns the arrays of the next state, which `absorb` takes over:

        gates = sigmoid(trainer.theta)
        arrays = trainer.step(gates, gates * (1 - gates), penalty)
        trainer.absorb(arrays)

    Args:
        engine: Engine of a differentiable game. With `LikelihoodGame` the loss is the negative log-likelihood.
        examples: Number of examples of the engine.
        seed: Seed of the order of the examples.
        theta: The parameters at the start, (players,); with several per player, first the first one of every player.
        batch: Number of examples in a minibatch.
        learning_rate: Learning rate of Adam.
        limits: The smallest and the largest value of a parameter, for all or (parameters,); None for no limits.
        stream: Name that separates the orders of several trainings with the same seed.
    """

    def __init__(
        self,
        engine: Engine,
        examples: int,
        seed: int,
        theta: Array,
        *,
        batch: int,
        learning_rate: float,
        limits: Limits | None = None,
        stream: str = "gates",
    ) -> None:
        self.engine, self.examples, self.batch = engine, examples, batch
        self.learning_rate, self.limits = learning_rate, limits
        self.draws = Draws(seed, stream)
        self.state = AdamState.start(theta)

    @property
    def theta(self) -> Array:
        """The parameters, (parameters,)."""
        return self.state.theta

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return self.state.steps

    @property
    def epoch_steps(self) -> int:
        """Number of steps of an epoch: one pass over the examples."""
        return math.ceil(self.examples / self.batch)

    @property
    def minibatch(self) -> NDArray[np.int64]:
        """The examples of the next step, (rows,). The order of each epoch is a permutation of its own."""
        epoch, place = divmod(self.steps, self.epoch_steps)
        order = np.argsort(self.draws.uniform(epoch, 1, self.examples)[0], kind="stable")
        return order[place * self.batch : (place + 1) * self.batch]

    @property
    def next_units(self) -> float:
        """Maximum cost of the next step: a forward and a backward pass for each example of the minibatch."""
        return self.engine.most_units(len(self.minibatch), gradients=True)

    def step(self, gates: Array, slope: Array, penalty: Array | float = 0.0) -> dict[str, NDArray[Any]]:
        """Compute the next step on `minibatch`. It changes nothing: `absorb` takes over the result.

        Args:
            gates: The gates, (players,) for all examples or (rows, players).
            slope: Derivative of each gate with respect to its parameter, of the same shape; with several parameters
                per player, (parameters,) or (rows, parameters).
            penalty: Gradient of a penalty with respect to the parameters, (parameters,), which is added to that of the
                loss.

        Returns:
            The state after the step, the loss of the minibatch before it (without the penalty), and the units.
        """
        index = self.minibatch
        rows = np.broadcast_to(gates, (len(index), np.shape(gates)[-1])).copy()
        found = self.engine.gradients(rows, index)
        by_gate = -found.gradients.double().numpy()  # of each example's loss, (rows, players)
        by_gate = np.tile(by_gate, len(self.theta) // by_gate.shape[1])  # (rows, parameters)
        gradient = (by_gate * slope).mean(0) + penalty
        following = self.state.updated(gradient, self.learning_rate, self.limits)
        loss = -float(found.values.double().mean())
        return {**following.arrays(), "loss": np.array(loss), "units": np.array(found.cost.units)}

    def absorb(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over the state after a step."""
        self.state = AdamState.from_arrays(arrays)


def check_training(batch: int, learning_rate: float, epochs: int) -> None:
    """Check the options of a method that trains gates.

    Raises:
        HeadwiseError: An option is out of range.
    """
    require_whole("batch", batch, 1)
    require_whole("epochs", epochs, 1)
    if not 0 < learning_rate < math.inf:
        raise HeadwiseError(f"learning_rate must be a positive number, not {learning_rate}")


def sigmoid(x: Array) -> Array:
    """The logistic function, without overflow.

    Example:
        >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
        array([0. , 0.5, 1. ])
    """
    small = np.exp(-np.abs(x))
    found: Array = np.where(x >= 0, 1.0, small) / (1 + small)
    return found
