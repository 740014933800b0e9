"""One pass over the examples: the shared state of methods that average one number per player and example."""

import numpy as np
from numpy.typing import NDArray

from headwise.engine import Engine
from headwise.methods.base import Arrays, Problem
from headwise.methods.moments import SampleSums


class ExamplePass:
    """The sums of a pass over the examples, a fixed number of them in each round.

    Args:
        problem: The problem.
        engine: The engine that the numbers come from.
        examples: Number of examples in a round.
    """

    def __init__(self, problem: Problem, engine: Engine, examples: int) -> None:
        self.problem, self.engine, self.examples = problem, engine, examples
        self.sums = SampleSums.start(len(problem.players))

    @property
    def done(self) -> bool:
        """Whether every example was processed."""
        return self.sums.count >= len(self.problem.examples)

    @property
    def next_examples(self) -> int:
        """Number of examples in the next round."""
        return min(self.examples, len(self.problem.examples) - self.sums.count)

    @property
    def next_units(self) -> float:
        """Maximum cost: a forward and a backward pass for each example."""
        return self.engine.most_units(self.next_examples, gradients=True)

    @property
    def status(self) -> str:
        """Number of examples so far."""
        return f"{self.sums.count} examples"

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of examples of each player, (players,)."""
        return np.full(len(self.problem.players), self.sums.count)

    def index(self, first_draw: int) -> NDArray[np.int64]:
        """Numbers of the examples of a round, in the order of the data."""
        return np.arange(first_draw, min(first_draw + self.examples, len(self.problem.examples)))

    def all_on(self, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The gates of the whole model, (examples, players)."""
        return np.ones((len(index), len(self.problem.players)), dtype=bool)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        self.sums = self.sums.add(arrays)
