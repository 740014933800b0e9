"""Where simulated observations come from: bounded, with a mean of exactly zero, and of many shapes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    name: str
    low: float
    high: float
    draw: Callable[[np.random.Generator, tuple[int, ...]], Array]

    def __str__(self) -> str:
        return self.name


def flips(share: float) -> Callable[[np.random.Generator, tuple[int, ...]], Array]:
    """-1 and 1 with this probability each, else 0: an answer that turns wrong or right."""
    return lambda generator, shape: generator.choice([-1.0, 0.0, 1.0], shape, p=[share, 1 - 2 * share, share])


def skewed(sign: float) -> Callable[[np.random.Generator, tuple[int, ...]], Array]:
    """Mostly a little on one side, rarely far on the other."""
    return lambda generator, shape: sign * np.where(generator.random(shape) < 0.02, -0.49, 0.01)


def small(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Heavy-tailed and symmetric, standard deviation about 0.03."""
    return np.asarray(np.clip(0.03 / np.sqrt(5 / 3) * generator.standard_t(5, shape), -1, 1))


POPULATIONS = [
    Population("rare flips", -1, 1, flips(0.01)),
    Population("coin", -1, 1, lambda generator, shape: generator.choice([-1.0, 1.0], shape)),
    Population("shifted beta", -2 / 7, 5 / 7, lambda generator, shape: generator.beta(2, 5, shape) - 2 / 7),
    Population("skewed down", -1, 1, skewed(1)),
    Population("skewed up, tight", -0.01, 0.49, skewed(-1)),
    Population("small", -1, 1, small),
]


def allowed(error_rate: float, trials: int) -> float:
    """The share of errors that a method with this error rate exceeds once in a thousand tests."""
    return float(error_rate + 3.1 * np.sqrt(error_rate * (1 - error_rate) / trials))
