"""Attention statistics as rankings: the confidence and the entropy of each head, by one forward pass per example."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.activations import device_of
from headwise.attention import capture_attention
from headwise.engine import EngineCost, ExampleSet, LocalEngine
from headwise.errors import HeadwiseError
from headwise.heads import Site
from headwise.methods.base import Arrays, Problem, require_local
from headwise.methods.head_scores import UNDECIDED, make_scores
from headwise.scores import HeadScores
from headwise.tasks.encoding import Batch

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SiteTokens:
    """The tokens that the queries and the keys of a site are.

    Attributes:
        queries: Whether a query is a token, not padding, (rows, queries).
        keys: Whether a key is a token, not padding, (rows, keys).
        text_queries: Whether a query is a token of the text, not a special one, (rows, queries).
        text_keys: Whether a key is a token of the text, not a special one, (rows, keys).
        query_ids: The token id of each query, (rows, queries).
        key_ids: The token id of each key, (rows, keys).
    """

    queries: Tensor
    keys: Tensor
    text_queries: Tensor
    text_keys: Tensor
    query_ids: Tensor
    key_ids: Tensor


#: From weights (rows, heads, queries, keys) to sums over queries, (rows, heads), and the number of queries, (rows,).
Statistic = Callable[[Tensor, SiteTokens], tuple[Tensor, Tensor]]


def confidences(weights: Tensor, tokens: SiteTokens) -> tuple[Tensor, Tensor]:
    """The largest weight on a token of the text, summed over queries that are tokens of the text."""
    largest = (weights * tokens.text_keys[:, None, None]).amax(-1)  # (rows, heads, queries)
    return (largest * tokens.text_queries[:, None]).sum(-1), tokens.text_queries.sum(-1)


def entropies(weights: Tensor, tokens: SiteTokens) -> tuple[Tensor, Tensor]:
    """The entropy of the weights of a query in nats, summed over queries that are not padding."""
    entropy = torch.special.entr(weights).sum(-1)  # (rows, heads, queries)
    return (entropy * tokens.queries[:, None]).sum(-1), tokens.queries.sum(-1)


@dataclass(frozen=True)
class _AttentionMethod:
    """A statistic of attention weights, as a mean over tokens of all examples.

    Attributes:
        examples: Number of examples in a round.
    """

    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    name: ClassVar[str]
    sign: ClassVar[int]

    examples: int = 64

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise HeadwiseError(f"a round needs at least one example, not {self.examples}")

    @property
    def statistic(self) -> Statistic:
        """The statistic."""
        raise NotImplementedError

    def start(self, problem: Problem, seed: int) -> "StatisticRounds":  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem.

        Raises:
            HeadwiseError: The players are not heads or groups of heads.
        """
        return StatisticRounds(self, problem)


@dataclass(frozen=True)
class Confidence(_AttentionMethod):
    """The mean over tokens of a head's largest attention weight (Voita et al., 2019, section 4).

    Special tokens (start, end of sentence, separators, language codes) and padding are left out, as queries and as
    keys: a head that attends to the end of the sentence only is not confident. The more confident a head, the more
    important it is supposed to be.
    """

    name: ClassVar[str] = "confidence"
    sign: ClassVar[int] = 1

    @property
    def statistic(self) -> Statistic:
        """The statistic."""
        return confidences


@dataclass(frozen=True)
class Entropy(_AttentionMethod):
    """The mean over tokens of the entropy of a head's attention weights in nats, times −1.

    Padding is left out. The value is negative, so that the lowest values, which are removed first, are those of
    the heads with the most diffuse attention.
    """

    name: ClassVar[str] = "entropy"
    sign: ClassVar[int] = -1

    @property
    def statistic(self) -> Statistic:
        """The statistic."""
        return entropies


class StatisticRounds:
    """One pass over the examples."""

    def __init__(self, method: _AttentionMethod, problem: Problem) -> None:
        self.method, self.problem = method, problem
        self.passes = AttentionPasses(method.name, problem)
        self.sums = RatioSums.start(len(problem.players))

    @property
    def done(self) -> bool:
        """Whether every example was processed."""
        return self.sums.count >= len(self.problem.examples)

    @property
    def next_units(self) -> float:
        """The cost of the next round: a forward pass for each example."""
        return float(min(self.method.examples, len(self.problem.examples) - self.sums.count))

    @property
    def status(self) -> str:
        """Number of examples so far."""
        return f"{self.sums.count} examples"

    def draw(self, first_draw: int) -> tuple[Arrays, int]:
        """The statistic of the next examples."""
        index = np.arange(first_draw, min(first_draw + self.method.examples, len(self.problem.examples)))
        sums, counts, cost = self.passes.run(index, self.method.statistic)
        return {**RatioSums.arrays(sums, counts), "units": np.array(cost.units)}, len(index)

    def absorb(self, arrays: Arrays) -> None:
        """Add a round's sums."""
        self.sums = self.sums.add(arrays)

    def scores(self, units: float, seed: int) -> HeadScores:
        """The means, without decisions."""
        n = len(self.problem.players)
        return make_scores(
            self.problem, self.method, self.method.sign * self.sums.mean, self.sums.stderr,
            np.full(n, self.sums.count), UNDECIDED * n, units, seed,
            confidence="none: unsigned", estimand=self.method.name,
        )  # fmt: skip


class AttentionPasses:
    """Forward passes over examples that sum a statistic of attention weights, one site at a time.

    Args:
        method: Name of the method, for error messages.
        problem: The problem.

    Raises:
        HeadwiseError: The players are not heads or groups of heads.
    """

    def __init__(self, method: str, problem: Problem) -> None:
        if set(problem.players.owners) != {"heads"}:
            kinds = " and ".join(problem.players.owners)
            raise HeadwiseError(
                f"the method {method!r} needs heads, which have attention weights, not {kinds}: use the players "
                "'heads' or 'kv'"
            )
        require_local(problem, method)
        self.problem = problem
        self.engine = LocalEngine(
            problem.model, problem.heads, problem.game, problem.examples, problem.players, problem.settings
        )
        self.columns = {site.name: columns for site, columns in problem.heads.spans()}
        owners = np.array(problem.players.owners["heads"])
        self.owned = (owners[:, None] == np.arange(len(problem.players))).astype(np.float64)  # (heads, players)

    def run(self, index: NDArray[np.int64], statistic: Statistic) -> tuple[Array, Array, EngineCost]:
        """Sums and numbers of queries of each example and player, (examples, players) each, and the cost.

        Sums and numbers of a player are those of all its heads together.
        """
        sums, counts = np.zeros((2, len(index), len(self.owned)))  # (examples, heads) each

        def capture(batch: Batch) -> Any:
            rows = np.searchsorted(index, batch.index.numpy())
            tokens = site_tokens(batch, self.problem.examples, device_of(self.problem.model))

            def add(site: Site, weights: Tensor) -> None:
                total, number = statistic(weights, tokens[site.stack])
                place = np.ix_(rows, np.arange(len(self.owned))[self.columns[site.name]])
                sums[place] = total.double().cpu().numpy()
                counts[place] = number.double().cpu().numpy()[:, None]

            return capture_attention(self.problem.model, add, self.problem.heads)

        cost = self.engine.run(index, capture)
        return sums @ self.owned, counts @ self.owned, cost


def site_tokens(batch: Batch, examples: ExampleSet, device: torch.device) -> dict[str, SiteTokens]:
    """The tokens of the queries and keys of a batch, by stack.

    Args:
        batch: A batch of the examples.
        examples: The examples, which know the special tokens and the lengths of translations.
        device: The device of the tensors.
    """
    inputs = batch.inputs(device)
    special = torch.tensor(examples.special_ids, dtype=torch.long, device=device)
    ids, real = inputs["input_ids"], inputs["attention_mask"].bool()
    text = real & ~torch.isin(ids, special)
    found = {"encoder": SiteTokens(real, real, text, text, ids, ids)}
    if "decoder_input_ids" not in inputs:
        return {**found, "decoder": found["encoder"]}
    target = inputs["decoder_input_ids"]
    lengths = torch.from_numpy(examples.target_lengths[batch.index.numpy()]).to(device)
    written = torch.arange(target.shape[1], device=device) < lengths[:, None]
    told = written & ~torch.isin(target, special)
    return {
        **found,
        "decoder": SiteTokens(written, written, told, told, target, target),
        "cross": SiteTokens(written, real, told, text, target, ids),
    }


@dataclass(frozen=True, eq=False)
class RatioSums:
    """Sums for the mean of a statistic over all tokens of the examples, and for its standard error.

    Examples are the samples, not tokens: the tokens of an example depend on each other. The mean is a ratio of two
    sums over examples, and its standard error is that of a ratio (linearised).

    Attributes:
        count: Number of examples.
        sums: Sums over examples by name, of the shape of the statistic, such as (players,): the statistic `s`, the
            number of tokens `n`, and the products `ss`, `sn` and `nn`.

    Example:
        >>> sums = RatioSums.start(1).add(RatioSums.arrays(np.array([[1.0], [4.0]]), np.array([[2.0], [3.0]])))
        >>> sums.mean, sums.stderr.round(3)
        (array([1.]), array([0.4]))
    """

    count: int
    sums: Mapping[str, Array]

    @classmethod
    def start(cls, shape: int | tuple[int, ...]) -> "RatioSums":
        """The sums before any example, of a statistic of a shape such as (players,)."""
        return cls(0, {name: np.zeros(shape) for name in ("s", "n", "ss", "sn", "nn")})

    @staticmethod
    def arrays(statistic: Array, tokens: Array) -> dict[str, NDArray[Any]]:
        """The sums of a round, as the argument of `add`, from sums of examples, (examples, …) each."""
        s, n = statistic, tokens
        products = {"s": s, "n": n, "ss": s * s, "sn": s * n, "nn": n * n}
        return {"count": np.array(len(s)), **{name: each.sum(0) for name, each in products.items()}}

    def add(self, arrays: Arrays) -> "RatioSums":
        """The sums after another round."""
        return RatioSums(
            self.count + int(arrays["count"]), {name: total + arrays[name] for name, total in self.sums.items()}
        )

    @property
    def mean(self) -> Array:
        """The mean over tokens; NaN without tokens."""
        tokens = self.sums["n"]
        return np.divide(self.sums["s"], tokens, out=np.full_like(tokens, np.nan), where=tokens > 0)

    @property
    def stderr(self) -> Array:
        """The standard error of each mean; NaN with fewer than two examples or without tokens."""
        mean, tokens = self.mean, self.sums["n"]
        if self.count < 2:
            return np.full_like(tokens, np.nan)
        spread = (self.sums["ss"] - 2 * mean * self.sums["sn"] + mean**2 * self.sums["nn"]).clip(0)
        root = np.sqrt(spread * self.count / (self.count - 1))
        return np.divide(root, tokens, out=np.full_like(tokens, np.nan), where=tokens > 0)
