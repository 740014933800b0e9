"""Layer-wise relevance propagation (Voita et al., 2019, appendix A): relevance of heads to the largest logit."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.games import TopLogitGame
from headwise.methods.base import Arrays, Problem, require_local
from headwise.methods.example_pass import ExamplePass
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.methods.moments import SampleSums
from headwise.propagation import RuleName, check_propagation, propagating
from headwise.scores import HeadScores

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Relevance:
    """The mean over examples of a head's share of the relevance of its site.

    The relevance of a head is the sum over its neurons and tokens, for the mean of the largest logits of an example. It
    is divided by the sum of the absolute relevance of all heads of the site, so a share is between -1 and 1. A negative
    share means that a head lowers the logits of the predictions, which may be wrong: it is no sign of harm.

    Attributes:
        rule: The rule of propagation, see `headwise.propagation.RULES`.
        epsilon: Added to denominators, with the sign of the denominator.
        examples: Number of examples in a round.
    """

    name: ClassVar[str] = "relevance"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    rule: RuleName = "cp"
    epsilon: float = 1e-6
    examples: int = 64

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise HeadwiseError(f"a round needs at least one example, not {self.examples}")
        if not self.epsilon > 0:
            raise HeadwiseError(f"epsilon of relevance must be above 0, not {self.epsilon}")

    def start(self, problem: Problem, seed: int) -> "RelevanceRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem.

        Raises:
            HeadwiseError: The rules do not cover the model, or the players are layers.
        """
        require_local(problem, self.name)  # the rules are hooks in the model
        check_propagation(problem.model, problem.heads)
        if "layers" in problem.players.owners:
            raise HeadwiseError(
                "relevance has no values for layers, because every layer passes on the same sum: choose the players "
                "heads, kv or ffn"
            )
        return RelevanceRounds(self, problem)


class RelevanceRounds(ExamplePass):
    """One pass over the examples."""

    def __init__(self, method: Relevance, problem: Problem) -> None:
        # Nothing is removed, so the baseline of removed heads does not matter.
        engine = replace(problem, baseline=None).engine(TopLogitGame())
        super().__init__(problem, engine, method.examples)
        self.method = method

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The shares of the next examples: one backward pass per batch for all players."""
        index = self.index(first_draw)
        try:
            with propagating(self.problem.model, self.method.rule, self.method.epsilon):
                found = self.engine.gradients(self.all_on(index), index)
        except HeadwiseError as error:
            remedy = "; if they are right, relevance is too large: use a larger epsilon or the rule 'cp'"
            raise HeadwiseError(f"{error}{remedy if self.method.rule == 'voita' else ''}") from error
        shares = self._shares(found.gradients.numpy().astype(np.float64))
        return {**SampleSums.arrays(shares), "units": np.array(found.cost.units)}, len(index)

    def scores(self, units: float, seed: int) -> HeadScores:
        """Mean shares, without decisions."""
        n = len(self.problem.players)
        return make_scores(
            self.problem, self.method, self.sums.mean, self.sums.stderr, self.counts, UNDECIDED * n,
            units, seed, confidence="none: unsigned", estimand=f"relevance ({self.method.rule})",
        )  # fmt: skip

    def _shares(self, relevance: Array) -> Array:
        """Relevance divided by the sum of absolute relevance in the site, (examples, players); 0 if all are 0."""
        # The site of `encoder.5.4` and of `decoder.3.kv1` is the part before the last dot; blocks `encoder.ffn.5` of a
        # stack are compared with each other.
        _, site = np.unique([name.rpartition(".")[0] for name in self.problem.players.names], return_inverse=True)
        member = site[:, None] == np.arange(site.max() + 1)  # (players, sites)
        total = (np.abs(relevance) @ member)[:, site]
        found: Array = np.divide(relevance, total, out=np.zeros_like(relevance), where=total > 0)
        return found
