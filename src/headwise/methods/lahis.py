"""Language attention head importance scores (LAHIS, Liu et al., arXiv 2511.07498): unsigned."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headwise.errors import HeadwiseError, require_whole
from headwise.games import LikelihoodGame
from headwise.methods.base import Arrays, Problem
from headwise.methods.gate_training import AdamState, Array
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores

#: Learning rate of the published form. There is no weight decay: it would also close gates that should stay open.
_LEARNING_RATE = 1e-2


@dataclass(frozen=True)
class Lahis:
    """The mean over examples of `|∂L/∂M|·M`, times the share of examples in which raising the gate lowers the loss.

    `M` are the gates and `L` is the negative log-likelihood of an example. Values are never negative, so they do not
    show which players are harmful.

    Attributes:
        form: `order-free`: all gates stay 1, and the order of the examples does not matter. `published`: after every
            example the gates make one step of Adam (learning rate 0.01, no weight decay), so values depend on the order
            of the examples.
        examples: Number of examples in a round.
    """

    name: ClassVar[str] = "lahis"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    form: Literal["order-free", "published"] = "order-free"
    examples: int = 64

    def __post_init__(self) -> None:
        require_whole("examples", self.examples, 1)

    def start(self, problem: Problem, seed: int) -> "LahisRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem."""
        return LahisRounds(self, problem)


class LahisRounds:
    """One pass over the examples."""

    def __init__(self, method: Lahis, problem: Problem) -> None:
        self.method, self.problem = method, problem
        self.engine = problem.engine(LikelihoodGame())
        n = len(problem.players)
        self.state = AdamState.start(np.ones(n))  # the gates
        self.magnitude, self.lowering, self.count = np.zeros(n), np.zeros(n), 0

    @property
    def done(self) -> bool:
        """Whether every example was processed."""
        return self.count >= len(self.problem.examples)

    @property
    def next_units(self) -> float:
        """Maximum cost: a forward and a backward pass for each example."""
        remaining = len(self.problem.examples) - self.count
        return self.engine.most_units(min(self.method.examples, remaining), gradients=True)

    @property
    def status(self) -> str:
        """Number of examples so far."""
        return f"{self.count} examples"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The sums over the next examples, and the gates after them."""
        index = np.arange(first_draw, min(first_draw + self.method.examples, len(self.problem.examples)))
        published = self.method.form == "published"
        state, n, units = self.state, len(self.problem.players), 0.0
        magnitude, lowering = np.zeros(n), np.zeros(n)
        for chunk in index[:, None] if published else [index]:  # the published form takes one example after another
            found = self.engine.gradients(np.tile(state.theta, (len(chunk), 1)), chunk)
            effect = -found.gradients.double().numpy() * state.theta  # ∂L/∂M · M, (examples, players)
            # |∂L/∂M|·M has the sign of M, which the published form may move below 0.
            magnitude += np.abs(effect).sum(0) * np.sign(state.theta)
            lowering += (effect < 0).sum(0)
            units += found.cost.units
            if published:
                state = state.updated(-found.gradients.double().numpy()[0], _LEARNING_RATE)
        sums = {"magnitude": magnitude, "lowering": lowering, "count": np.array(len(index))}
        return {**state.arrays(), **sums, "units": np.array(units)}, len(index)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums, and take over its gates."""
        self.state = AdamState.from_arrays(arrays)
        self.magnitude = self.magnitude + arrays["magnitude"]
        self.lowering = self.lowering + arrays["lowering"]
        self.count += int(arrays["count"])

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean magnitude times share, without decisions."""
        n, count = len(self.problem.players), max(1, self.count)
        value: Array = self.magnitude / count * (self.lowering / count)
        return make_scores(
            self.problem, self.method, value, np.full(n, np.nan), np.full(n, self.count), UNDECIDED * n, units, seed,
            confidence="none: unsigned", estimand=f"lahis ({self.method.form})",
        )  # fmt: skip


@dataclass(frozen=True)
class LanguageHeads:
    """The heads that are important for languages.

    Attributes:
        heads: For each language, its heads with the highest values, in the model's order.
        general: The heads that are among those of several languages.
    """

    heads: Mapping[str, tuple[str, ...]]
    general: tuple[str, ...]

    @property
    def specific(self) -> dict[str, tuple[str, ...]]:
        """For each language, its heads that are not general."""
        return {code: tuple(name for name in each if name not in self.general) for code, each in self.heads.items()}


def language_heads(scores: Mapping[str, HeadScores], quantile: float = 0.96, languages: int = 4) -> LanguageHeads:
    """The heads of each language: those whose value is above a quantile of the language's values.

    Args:
        scores: Scores of the same players for each language.
        quantile: The quantile; 0.96 in the paper.
        languages: A head is general if it is a head of at least this number of languages; 4 in the paper.

    Raises:
        HeadwiseError: The quantile is not between 0 and 1, or the players differ between languages.

    Example:
        >>> from headwise.scores import Provenance
        >>> def of(*values):
        ...     return HeadScores(("encoder.0.0", "encoder.0.1", "encoder.0.2"), values, (0.0,) * 3, (9,) * 3,
        ...                       ("undecided",) * 3, Provenance("lahis", "lahis (order-free)"))
        >>> found = language_heads({"de": of(3.0, 1.0, 5.0), "zh": of(4.0, 2.0, 1.0)}, quantile=0.4, languages=2)
        >>> found.general, found.specific
        (('encoder.0.0',), {'de': ('encoder.0.2',), 'zh': ('encoder.0.1',)})
    """
    if not 0 < quantile < 1:
        raise HeadwiseError(f"quantile must be between 0 and 1, not {quantile}")
    if len({each.players for each in scores.values()}) > 1:
        raise HeadwiseError("scores: the languages have different players: score all of them with the same model")
    heads = {}
    for code, each in scores.items():
        values = each.values()
        above = values > np.nanquantile(values, quantile)
        heads[code] = tuple(name for name, high in zip(each.players, above, strict=True) if high)
    counts = Counter(name for each in heads.values() for name in each)
    players = next((each.players for each in scores.values()), ())
    return LanguageHeads(heads, tuple(name for name in players if counts[name] >= languages))
