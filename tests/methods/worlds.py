"""Games whose values are known: simulated ones of any size, and tiny models with few enough players to enumerate."""

import functools
import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.architectures import FAMILIES
from headwise.engine import (
    Engine,
    EngineCost,
    ExampleSet,
    Flips,
    Gradients,
    LocalEngine,
    PlayerSet,
    Values,
    players_from_groups,
    players_of,
)
from headwise.engine.base import Gates, Index, check_rows, value_flips
from headwise.engine.prefix import find_levels
from headwise.games import AccuracyGame, Answers, Game, GenerationGame, LikelihoodGame, ProbabilityGame
from headwise.games.base import MeanGame
from headwise.games.pair import PairGame
from headwise.heads import HeadMap, find_heads
from headwise.masks import HeadMask
from headwise.methods.base import Estimand, Problem
from headwise.pruning import fold
from headwise.soft_masks import SoftMask
from headwise.tasks.encoding import Encoded
from headwise.tasks.task import find_task
from tests.engine.worlds import make_examples, plain_values, task_of
from tests.families import BY_NAME

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SimulatedGame(MeanGame):
    """A mean game without a model behind it."""

    name: str = "simulated"
    bounds: tuple[float, float] | None = (0.0, 1.0)
    differentiable: bool = True

    def measure(self, answers: Answers) -> Tensor:
        raise AssertionError("a simulated game has no answers to measure")


@dataclass(frozen=True)
class World:
    """The value of example x under gates z: `start + Σ own[x, i]·z_i + Σ_{i<j} pairs[i, j]·z_i·z_j`, within [0, 1].

    What `curve` adds, `Σ curve[x, i]·z_i·(1 - z_i)`, is nothing at gates of 0 and 1: it changes gradients and no value.

    Attributes:
        start: The empty coalition's value.
        own: What a player adds by itself to each example, (examples, players).
        pairs: What two players add together, symmetric with a diagonal of zeros, (players, players).
        curve: How far gradients are off, (examples, players).
        bar: The value above which an example counts as right, (examples,): the hard value, a step of the soft one.
        unseen: What of `own` gradients know nothing about, (examples, players); nothing unless given.
    """

    start: float
    own: Array
    pairs: Array
    curve: Array
    bar: Array
    unseen: Array | float = 0.0

    def values(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """The values of rows, (rows,)."""
        gates = masks.astype(np.float64)
        together = ((gates @ self.pairs) * gates).sum(1) / 2
        return np.asarray(self.start + (self.own[index] * gates).sum(1) + together)

    def marginals(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """What each player adds to the coalition of each row without it, (rows, players)."""
        return np.asarray(self.own[index] + masks.astype(np.float64) @ self.pairs)

    def gradients(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """The derivatives by every gate, (rows, players)."""
        unseen = np.broadcast_to(self.unseen, self.own.shape)[index]
        return np.asarray(self.marginals(masks, index) - unseen + self.curve[index] * np.where(masks, -1.0, 1.0))

    def hard_values(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """The hard values of rows, (rows,)."""
        return (self.values(masks, index) > self.bar[index]).astype(np.float64)

    def exact(self, smallest: int = 0) -> Array:
        """The mean marginal over coalitions of smallest..n-1 players, every size the same, (players,)."""
        n = len(self.pairs)
        # Another player is in a coalition of k of the n - 1 others with a chance of k / (n - 1).
        present = (smallest + n - 1) / 2 / max(1, n - 1)
        return np.asarray(self.own.mean(0) + present * self.pairs.sum(1))


class SimulatedEngine:
    """Answers as an engine does, and counts as one does: rows share layers, a gradient is two units.

    `AccuracyGame` gets the hard value, `PairGame` those of both its games, any other game the soft value.
    """

    def __init__(
        self, world: "World | Table", layers: int, game: Game, examples: ExampleSet, players: PlayerSet
    ) -> None:
        self.world, self.layers, self.game = world, layers, game
        self.examples, self.players = examples, players

    def values(self, gates: Gates, index: Index) -> Values:
        on, index = check_rows(gates, index, len(self.players), len(self.examples))
        order = np.lexsort((*on.T[::-1], index))
        levels = find_levels(on[order], self._depths, self.layers, index[order])
        cost = self._cost(sum(level.nodes for level in levels), len(index))
        return Values(torch.from_numpy(self._worth(self.game, on, index)).float(), cost)

    def gradients(self, gates: Gates, index: Index) -> Gradients:
        on, index = check_rows(gates, index, len(self.players), len(self.examples))
        values, gradients = self.world.values(on, index), self.world.gradients(on, index)
        cost = self._cost(2 * self.layers * len(index), len(index))
        return Gradients(torch.from_numpy(values).float(), torch.from_numpy(gradients).float(), cost)

    def flips(self, bases: Gates, index: Index, players: Index) -> Flips:
        return value_flips(self, bases, index, players)

    def most_units(self, rows: int, shared: float | None = None, gradients: bool = False) -> float:
        return 2.0 * rows if gradients else float(rows) if shared is None else shared  # all rows are one batch

    def _worth(self, game: Game | GenerationGame, on: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        if isinstance(game, PairGame):
            return np.stack([self._worth(each, on, index) for each in (game.first, game.second)], axis=1)
        return (self.world.hard_values if isinstance(game, AccuracyGame) else self.world.values)(on, index)

    def _cost(self, passes: int, rows: int) -> EngineCost:
        return EngineCost(rows=rows, units=passes / self.layers, layer_passes=passes)

    @property
    def flip_units(self) -> Array:
        return np.asarray(1 - self._depths / self.layers)

    @cached_property
    def _depths(self) -> NDArray[np.int64]:
        return np.arange(len(self.players)) * self.layers // len(self.players)


@dataclass(frozen=True)
class SimulatedProblem(Problem):
    """A problem of a simulated game; players lie in layers from the first to the last."""

    world: World = field(kw_only=True)
    layers: int = field(kw_only=True, default=4)

    def engine(self, game: Game | None = None) -> Engine:
        return SimulatedEngine(self.world, self.layers, game or self.game, self.examples, self.players)

    @property
    def exact(self) -> Array:
        """The true values of the players, (players,)."""
        return self.world.exact(self.smallest)

    def at(self, share: float) -> "SimulatedProblem":
        """The same game with another estimand."""
        return replace(self, estimand=Estimand(share))


def simulate(
    players: int = 8,
    examples: int = 64,
    share: float = 0.0,
    pairs: float = 0.3,
    noise: float = 0.3,
    curve: float = 0.0,
    dummies: int = 0,
    seed: int = 0,
    layers: int = 4,
    bounded: bool = True,
) -> SimulatedProblem:
    """A random game.

    Args:
        players: How many players; about a third of them are harmful.
        examples: How many examples.
        share: Share of the estimand, 0 for the full value.
        pairs: How much of a value pairs of players make.
        noise: How much examples differ in what a player adds to them, which the mean over examples cancels exactly.
        curve: How far gradients are off the marginals, as a share of what players add.
        dummies: So many of the last players add nothing to anything.
        seed: Seed of the game, not of draws.
        layers: Layers that the players lie in.
        bounded: Off, the game does not tell the bounds of its values.
    """
    draw = np.random.default_rng(seed)
    own = draw.normal(0.4, 1.0, players)
    common = draw.normal(0.0, 1.0, (players, players)) * pairs / np.sqrt(players)
    common = np.triu(common, 1) + np.triu(common, 1).T
    spread = noise * draw.uniform(-1.0, 1.0, (examples, players))
    spread -= spread.mean(0)
    gone = np.arange(players) >= players - dummies
    own[gone], spread[:, gone], common[gone], common[:, gone] = 0, 0, 0, 0
    each = own + spread  # (examples, players)
    # The least and the greatest value that any gates could reach, had every pair its own gates.
    below = np.minimum(each, 0).sum(1).min() + np.minimum(common, 0).sum() / 2
    above = np.maximum(each, 0).sum(1).max() + np.maximum(common, 0).sum() / 2
    scale = 1 / (above - below)
    bend = curve * scale * draw.normal(0.0, 1.0, players) * np.ones((examples, 1))
    bar = draw.permutation((np.arange(examples) + 0.5) / examples)
    world = World(-below * scale, each * scale, common * scale, bend, bar)
    return SimulatedProblem(
        model=nn.Identity(),
        heads=HeadMap("simulated", FAMILIES[0], (), (), (), None),
        examples=ExampleSet(find_task("classification", ("no", "yes")), (Encoded((1,), (), (0,)),) * examples, 0),
        players=PlayerSet(tuple(f"p{i}" for i in range(players)), {"heads": tuple(range(players))}),
        game=SimulatedGame() if bounded else SimulatedGame(bounds=None),
        estimand=Estimand(share),
        language="simulated",
        world=world,
        layers=layers,
    )


def planted(helpful: int, harmful: int, idle: int, examples: int = 32, effect: float = 0.5) -> SimulatedProblem:
    """A game whose first players add `effect` to the value, the next ones take it away, and the last do nothing."""
    problem = simulate(helpful + harmful + idle, examples, noise=0.0)
    own = effect * np.repeat([1.0, -1.0, 0.0], [helpful, harmful, idle])
    draw = np.random.default_rng(0)
    each = own * draw.uniform(0.5, 1.5, (examples, len(own)))
    world = replace(problem.world, start=0.0, own=each, pairs=np.zeros((len(own), len(own))))
    return replace(problem, game=SimulatedGame(bounds=None), world=world)


def tiny_problem(
    case: str, game: Game | None = None, players: int = 6, examples: int = 5, share: float = 0.0
) -> Problem:
    """A game on a tiny model, its heads dealt out to a few players so that each has some in several layers."""
    model: Any = BY_NAME[case].build()
    heads = find_heads(model)
    names = heads.players()
    groups = {f"g{player}": names[player::players] for player in range(players)}
    encoded = make_examples(BY_NAME[case], model, examples)
    return Problem(
        model, heads, encoded, players_from_groups(heads, groups), game or ProbabilityGame(), Estimand(share)
    )


@dataclass(frozen=True)
class Table:
    """All values and gradients of a game with few players: the world of a real model, to run many estimates on.

    Attributes:
        soft: Value of every coalition on every example, (coalitions, examples); bit i of a row number is player i.
        hard: The hard values, of the same shape.
        slopes: Gradients of the soft value by every gate, (coalitions, examples, players).
    """

    soft: Array
    hard: Array
    slopes: Array

    def values(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """The values of rows, (rows,)."""
        return np.asarray(self.soft[_numbers(masks), index])

    def hard_values(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """The hard values of rows, (rows,)."""
        return np.asarray(self.hard[_numbers(masks), index])

    def gradients(self, masks: NDArray[np.bool_], index: NDArray[np.int64]) -> Array:
        """The derivatives by every gate, (rows, players)."""
        return np.asarray(self.slopes[_numbers(masks), index])

    def moments(self, smallest: int = 0) -> tuple[Array, Array]:
        """Mean and variance of a player's marginals over examples and coalitions, every size alike, (players,) each."""
        n = self.slopes.shape[2]
        codes, found = np.arange(2**n), []
        sizes = np.array([code.bit_count() for code in range(2**n)])
        for player in range(n):
            without = codes[codes >> player & 1 == 0]
            marginals = self.soft[without | 1 << player] - self.soft[without]  # (coalitions, examples)
            by_size = [marginals[sizes[without] == size] for size in range(smallest, n)]
            mean, square = (np.mean([(each**power).mean() for each in by_size]) for power in (1, 2))
            found.append((mean, square - mean**2))
        mean, variance = np.array(found).T
        return mean, variance


class TableEngine(SimulatedEngine):
    """Answers from a table, and counts as the engine on the model would."""

    def __init__(self, depths: NDArray[np.int64], *args: Any) -> None:
        super().__init__(*args)
        self.depths = depths

    @property
    def _depths(self) -> NDArray[np.int64]:
        return self.depths


@dataclass(frozen=True)
class TableProblem(Problem):
    """A problem of a game whose values and gradients are all known."""

    table: Table = field(kw_only=True)
    layers: int = field(kw_only=True)
    depths: NDArray[np.int64] = field(kw_only=True)

    def engine(self, game: Game | None = None) -> Engine:
        return TableEngine(self.depths, self.table, self.layers, game or self.game, self.examples, self.players)


def tabulate(problem: Problem) -> TableProblem:
    """The same problem, with the values and gradients of all coalitions computed beforehand."""
    n, count = len(problem.players), len(problem.examples)
    masks = np.repeat(np.arange(2**n)[:, None] >> np.arange(n) & 1, count, axis=0).astype(bool)
    index = np.tile(np.arange(count), 2**n)
    soft = problem.game if problem.game.differentiable else ProbabilityGame()
    values, hard = (
        problem.engine(game).values(masks, index).values.double().numpy().reshape(-1, count)
        for game in (problem.game, AccuracyGame())
    )
    slopes = problem.engine(soft).gradients(masks, index).gradients.double().numpy().reshape(-1, count, n)
    layers = len(problem.heads.layers)
    depths = np.rint((1 - problem.engine().flip_units) * layers).astype(np.int64)
    parts = {each.name: getattr(problem, each.name) for each in fields(Problem)}
    return TableProblem(**parts, table=Table(values, hard, slopes), layers=layers, depths=depths)


def _numbers(masks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of each coalition, (rows,)."""
    return np.asarray(masks.astype(np.int64) @ (1 << np.arange(masks.shape[1])))


def naive_average(worth: Callable[[frozenset[int]], float], players: int, smallest: int) -> Array:
    """What each player adds to coalitions of smallest..players - 1 others, in plain loops, (players,)."""
    found = []
    for player in range(players):
        others = [each for each in range(players) if each != player]
        sizes = [
            statistics.mean(
                worth(frozenset(chosen) | {player}) - worth(frozenset(chosen))
                for chosen in itertools.combinations(others, size)
            )
            for size in range(smallest, players)
        ]
        found.append(statistics.mean(sizes))
    return np.array(found)


def plain_worth(problem: Problem) -> Callable[[frozenset[int]], float]:
    """The worth of a coalition on all examples, each by a forward pass of its own."""
    engine, examples = problem.engine(), np.arange(len(problem.examples))
    assert isinstance(engine, LocalEngine)

    @functools.cache
    def worth(coalition: frozenset[int]) -> float:
        mask = np.isin(np.arange(len(problem.players)), list(coalition))
        rows = plain_values(engine, np.tile(mask, (len(examples), 1)), examples)
        return problem.game.corpus(rows.double().numpy())

    return worth


class KilledError(Exception):
    """What stands in for a killed process."""


@dataclass(frozen=True)
class FailingProblem(SimulatedProblem):
    """A problem whose engine gives up after a number of calls."""

    calls: int = field(kw_only=True, default=3)

    def engine(self, game: Game | None = None) -> Engine:
        return _FailingEngine(self.calls, self.world, self.layers, game or self.game, self.examples, self.players)


class _FailingEngine(SimulatedEngine):
    def __init__(self, calls: int, *args: Any) -> None:
        super().__init__(*args)
        self.calls = calls

    def values(self, gates: Gates, index: Index) -> Values:
        self.calls -= 1
        if self.calls < 0:
            raise KilledError
        return super().values(gates, index)


def failing(problem: SimulatedProblem, calls: int) -> FailingProblem:
    """The same problem, whose engine gives up after a number of calls."""
    return FailingProblem(**{each.name: getattr(problem, each.name) for each in fields(problem)}, calls=calls)


def scaled_world(scales: list[float], examples: int = 300, absent: tuple[int, ...] = ()) -> Problem:
    """A model whose first heads are scaled, with labels drawn from the model before it was scaled.

    Labels are drawn without the heads in `absent`, so that these do harm.
    """
    case = BY_NAME["xlm-roberta"]
    model = case.build()
    heads = find_heads(model)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for site in heads.sites:  # heads that attend to few tokens and matter much
            model.get_submodule(site.projections[0].path).weight.mul_(6)
            model.get_submodule(site.output).weight.mul_(4)
        texts = torch.randint(4, 50, (examples, 12), generator=draw)
        model.classifier.weight.mul_(10)
        model.classifier.bias.sub_(model(texts).logits.mean((0, 1)))  # no label is rare
        names = heads.players()
        labelling = fold(model, HeadMask.without(heads, [names[place] for place in absent]))
        chances = labelling(texts).logits.softmax(-1)  # (examples, 12, labels)
        labels = torch.multinomial(chances.flatten(0, 1), 1, generator=draw).view(examples, 12)
    encoded = tuple(
        Encoded(tuple(text), tuple(range(12)), tuple(gold))
        for text, gold in zip(texts.tolist(), labels.tolist(), strict=True)
    )
    heads = find_heads(model)
    changed = fold(model, SoftMask.of(heads, scales + [1.0] * (len(heads.players()) - len(scales))))
    examples_of_task = ExampleSet(task_of(case), encoded, 1)
    return Problem(changed, find_heads(changed), examples_of_task, players_of(heads), LikelihoodGame())
