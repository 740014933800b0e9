"""The metric of languages under conditions, with resamples of the examples and of the draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from headwise.stats import PairedTest, bootstrap_values
from headwise.stats.bootstrap import difference_test
from headwise.tasks.metrics import Metric

Array = NDArray[np.float64]
#: What was measured, (examples, statistics), by language, condition and draw.
Measured = Mapping[tuple[str, str, int], Array]


@dataclass(frozen=True, eq=False)
class Resampled:
    """The metric of every language under every condition.

    A condition is a way to remove heads and to tune; a draw is one tuned model of a condition.

    Attributes:
        languages: The languages.
        conditions: The conditions; the first one is the base of relative drops.
        values: The metric of every draw, in percent, (languages, conditions, draws).
        drawn: The mean over draws in every resample, (resamples, languages, conditions). A resample draws examples with
            replacement, the same ones for all languages with the same examples, and draws of every condition.
    """

    languages: tuple[str, ...]
    conditions: tuple[str, ...]
    values: Array
    drawn: Array

    @property
    def mean(self) -> Array:
        """The mean over draws, (languages, conditions)."""
        return np.asarray(self.values.mean(-1))

    @property
    def test(self) -> str:
        """The name of the test that `interval` makes."""
        return "paired bootstrap over examples" + (" and draws" if self.values.shape[-1] > 1 else "")

    def interval(self, contrast: Callable[[Array], Array]) -> tuple[float, float, float]:
        """A function of the metrics, (..., languages, conditions) to (...): its value, and its 95% interval."""
        low, high = np.quantile(contrast(self.drawn), [0.025, 0.975])
        return float(contrast(self.mean)), float(low), float(high)

    def compare(self, contrast: Callable[[Array], Array]) -> PairedTest:
        """The test whether a function of the metrics, (..., languages, conditions) to (...), differs from 0."""
        return difference_test(float(contrast(self.mean)), contrast(self.drawn))

    def language_places(self, languages: Sequence[str]) -> list[int]:
        """Places of languages."""
        return [place for place, language in enumerate(self.languages) if language in languages]

    def place(self, condition: str) -> int:
        """Place of a condition."""
        return self.conditions.index(condition)


def relative_drops(values: Array) -> Array:
    """The loss of every condition relative to the first one, in percent of it; (..., conditions).

    Example:
        >>> relative_drops(np.array([[80.0, 76.0, 84.0]]))
        array([[ 0.,  5., -5.]])
    """
    base = values[..., :1]
    return np.asarray(100 * np.divide(base - values, base, out=np.full(values.shape, np.nan), where=base != 0))


def resample(
    measured: Measured, ids: Mapping[str, Sequence[str]], metric: Metric, resamples: int, seed: int = 0
) -> Resampled:
    """Compute the metric of everything measured, and resample it.

    Args:
        measured: Statistics by language, condition and draw; every condition has the same draws.
        ids: The ids of the examples of each language. Languages with the same ids are resampled together.
        metric: The metric.
        resamples: Number of resamples.
        seed: Seed of the resamples; the same seed and ids give the same resamples.
    """
    languages = tuple(dict.fromkeys(language for language, _, _ in measured))
    conditions = tuple(dict.fromkeys(condition for _, condition, _ in measured))
    draws = tuple(dict.fromkeys(draw for _, _, draw in measured))
    shape, value = (len(conditions), len(draws)), cast(Callable[[Array], Array], metric.value)
    values = np.zeros((len(languages), *shape))
    drawn = np.zeros((resamples, len(languages), *shape))
    for number, together in enumerate(_aligned({language: ids[language] for language in languages})):
        systems = [measured[language, name, draw] for language in together for name in conditions for draw in draws]
        places = [languages.index(language) for language in together]
        values[places] = [[[float(value(measured[language, name, draw].sum(0))) for draw in draws]
                           for name in conditions] for language in together]  # fmt: skip
        found = bootstrap_values(systems, value, resamples, seed + number)  # (resamples, systems)
        drawn[:, places] = found.reshape(resamples, len(together), *shape)
    chosen = np.random.default_rng([seed, 1]).integers(len(draws), size=(resamples, 1, *shape))
    return Resampled(languages, conditions, values, np.take_along_axis(drawn, chosen, axis=-1).mean(-1))


def _aligned(ids: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Languages with the same examples."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for language, each in ids.items():
        groups.setdefault(tuple(each), []).append(language)
    return list(groups.values())
