"""The engine on one machine: the values of many (mask, example) rows."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headwise.engine.batching import Pack, pack_rows, take_rows
from headwise.engine.cost import Cost, head_weights, work_of
from headwise.engine.examples import ExampleSet
from headwise.engine.memory import gradient_bytes, value_bytes
from headwise.engine.narrow import WORTH_A_COPY, absent_heads, narrow, saved_operations
from headwise.engine.players import PlayerSet, depths_of, players_of
from headwise.engine.prefix import Level, find_levels, run_as_tree
from headwise.engine.writing import write_rows
from headwise.errors import HeadwiseError
from headwise.games.base import Answers, Game
from headwise.games.writing import WritingGame
from headwise.heads import HeadMap, Players, find_heads

Masks = Tensor | NDArray[np.bool_]
Index = Tensor | NDArray[np.int64]

#: Tokens below which a row is short.
_SHORT = 256


@dataclass(frozen=True)
class EngineSettings:
    """How an engine works; none of it changes its values.

    Attributes:
        token_budget: Most padded tokens in one batch; chosen for the device unless told.
        memory_limit: Most bytes that the activations of a batch may take.
        reuse_prefixes: Rows that share an example and the masks of the lower layers share those layers' work.
        bfloat16: Compute in bfloat16 where that is safe (autocast): faster on most devices, and less exact.
    """

    token_budget: int | None = None
    memory_limit: int = 2 * 2**30
    reuse_prefixes: bool = True
    bfloat16: bool = False


@dataclass(frozen=True)
class Flips:
    """The values of base coalitions and of their single flips.

    Attributes:
        base: Value of each base, (bases,) or (bases, statistics).
        flipped: Value of each flip, (bases, flips) or (bases, flips, statistics); NaN where there was none.
    """

    base: Tensor
    flipped: Tensor


class Engine:
    """Answers one question: what is this example worth under this mask?

    Args:
        model: A transformers model, or a PEFT model around one.
        heads: Its head map; None to find it.
        game: What a row is worth.
        examples: The examples.
        players: What masks turn off; every head by itself unless told.
        settings: How to work.
    """

    def __init__(
        self,
        model: nn.Module,
        heads: HeadMap | None,
        game: Game | WritingGame,
        examples: ExampleSet,
        players: PlayerSet | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self.model: Any = model
        self.heads = heads or find_heads(model)
        self.game = game
        self.examples = examples
        self.players = players or players_of(self.heads)
        self.settings = settings or EngineSettings()
        self.cost = Cost()
        self._narrower: tuple[tuple[str, ...], Engine] | None = None

    def values(self, masks: Masks, example_index: Index) -> Tensor:
        """The values of rows.

        Args:
            masks: Which players are on, (rows, players).
            example_index: The example of each row, (rows,).

        Returns:
            The value of each row, in order, (rows,); for games of several statistics (rows, statistics).

        Raises:
            HeadwiseError: A value is no number.
        """
        on, index = self._checked(masks, example_index)
        if isinstance(self.game, WritingGame):
            return self._numbers(self._written(self.game, on, index), index)
        absent = absent_heads(self.heads, self.players, on)
        tokens = int(self.examples.lengths[index].sum())
        if saved_operations(self.model, self.heads, absent, tokens) > WORTH_A_COPY:
            return self._narrowed_values(absent, on, index)
        found = torch.zeros(len(index), self.game.statistics)
        with torch.inference_mode(), self._evaluating():
            for pack in self.packs(on, index):
                gates = self.players.gates(torch.from_numpy(on[pack.rows]))
                found[pack.rows] = self._measure(self.game, pack, on, gates, self.settings.reuse_prefixes).cpu()
        found = self._numbers(found, index)
        return found[:, 0] if self.game.statistics == 1 else found

    def gradients(self, masks: Masks, example_index: Index) -> tuple[Tensor, Tensor]:
        """The values of rows, and their gradients with respect to every player's gate.

        Returns:
            Values (rows,), gradients (rows, players).

        Raises:
            HeadwiseError: The game has no gradient, or a value or gradient is no number.
        """
        if isinstance(self.game, WritingGame) or not self.game.differentiable:
            raise HeadwiseError(f"the game {self.game.name!r} has no gradient: take 'probability' or 'log-likelihood'")
        on, index = self._checked(masks, example_index)
        values, gradients = torch.zeros(len(index)), torch.zeros(len(index), len(self.players))
        with self._evaluating(), _frozen(self.model):
            for pack in self.packs(on, index, gradient_bytes(self.model, self.heads)):
                gates = self.players.gates(torch.from_numpy(on[pack.rows]))
                leaves = {kind: each.requires_grad_() for kind, each in gates.items()}
                with self._attending(pack):
                    measured = self._measure(self.game, pack, on, leaves, share=False)[:, 0]
                found = torch.autograd.grad(measured.sum(), list(leaves.values()))
                values[pack.rows] = measured.detach().cpu()
                gradients[pack.rows] = self.players.collect(dict(zip(leaves, found, strict=True))).cpu()
        return self._numbers(values, index), self._numbers(gradients, index)

    def _numbers(self, found: Tensor, index: NDArray[np.int64]) -> Tensor:
        """What was found, (rows, …), seen to be finite: one NaN would make every score that it touches one."""
        finite = torch.isfinite(found if found.dim() > 1 else found[:, None]).all(1)
        if not finite.all():
            way_out = "go without --bfloat16, or " if self.settings.bfloat16 else ""
            raise HeadwiseError(
                f"the model gives no number (NaN or infinity) on example {index[int(finite.int().argmin())]}, counted "
                f"from 0: {way_out}look at its weights, some of which may be NaN or far too large"
            )
        return found

    def _attending(self, pack: Pack) -> AbstractContextManager[object]:
        """How attention is computed where gradients are wanted.

        In bfloat16 on a CPU, PyTorch's fused attention goes backward through short rows up to ten times slower than
        plain matrix products do.
        """
        short = self.examples.lengths[pack.examples].max() < _SHORT
        plain = self.settings.bfloat16 and self._device.type == "cpu" and short
        return sdpa_kernel(SDPBackend.MATH) if plain else nullcontext()

    def flips(self, base_masks: Masks, example_index: Index, players: Index) -> Flips:
        """The values of base coalitions and of the same with one player flipped.

        A flip runs only the layers from its player's upward: what is below is the base's.

        Args:
            base_masks: The bases, (bases, players).
            example_index: The example of each, (bases,).
            players: Which players to flip, one at a time, (bases, flips); -1 for none.
        """
        on, index = self._checked(base_masks, example_index)
        flips = torch.as_tensor(players).numpy()  # (bases, flips)
        base, place = np.nonzero(flips >= 0)
        flipped = on[base]
        flipped[np.arange(len(base)), flips[base, place]] ^= True
        rows = self.values(np.concatenate([on, flipped]), np.concatenate([index, index[base]]))
        found = torch.full((*flips.shape, *rows.shape[1:]), torch.nan)
        found[base, place] = rows[len(on) :]
        return Flips(rows[: len(on)], found)

    def _checked(self, masks: Masks, example_index: Index) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        on = torch.as_tensor(masks).cpu().numpy().astype(bool)
        index = torch.as_tensor(example_index).cpu().numpy().astype(np.int64)
        if on.shape != (len(index), len(self.players)):
            raise HeadwiseError(
                f"masks of shape {on.shape} do not fit {len(index)} rows of {len(self.players)} players"
            )
        if len(index) and not (index.min() >= 0 and index.max() < len(self.examples)):
            raise HeadwiseError(f"the examples are numbered 0 to {len(self.examples) - 1}, not {index.max()}")
        return on, index

    @property
    def flip_units(self) -> NDArray[np.float64]:
        """What the flip of each player costs beside its base: the layers from its own up, (players,)."""
        found: NDArray[np.float64] = 1 - self._depths / len(self.heads.layers)
        return found

    def packs(self, on: NDArray[np.bool_], index: NDArray[np.int64], token_bytes: int | None = None) -> Iterator[Pack]:
        """The batches that rows are valued in."""
        token_bytes = token_bytes or value_bytes(self.model, self.heads)
        lengths = np.maximum(self.examples.lengths, self.examples.target_lengths)
        within = int(self.settings.memory_limit // token_bytes)
        budget = min(self.settings.token_budget or _default_budget(self._device), within)
        return pack_rows(on, self._depths, index, lengths, budget)

    def _measure(
        self, game: Game, pack: Pack, on: NDArray[np.bool_], gates: dict[Players, Tensor], share: bool
    ) -> Tensor:
        """The statistics of a batch's rows, (rows, statistics)."""
        start = time.perf_counter()
        device, root = self._device, pack.root
        once = pack.examples[root.first.numpy()]
        task = self.examples.task
        batch = take_rows(task.make_batch(self.model, self.examples.encoded, once, self.examples.pad_id), root.node)
        levels = find_levels(on[pack.rows], self._depths, len(self.heads.layers), pack.examples, share)
        gates = {kind: each.to(device) for kind, each in gates.items()}
        with (
            run_as_tree(self.model, self.heads, gates, levels, root),
            torch.autocast(device.type, torch.bfloat16, enabled=self.settings.bfloat16),
        ):
            logits = self.model(**batch.inputs(device), **self._call).logits
        rows = torch.from_numpy(pack.examples)
        answers = Answers(
            task.select(logits, batch),
            batch.rows.to(device),
            batch.places.to(device),
            self.examples.counts[rows].to(device),
            self.examples.gold_of(rows).to(device),
        )
        measured = game.measure(answers)
        if (unknown := answers.logits.isnan().any(-1)).any():  # to accuracy, NaN is an answer like any other
            measured = measured.index_fill(0, answers.rows[unknown], torch.nan)
        self.cost += self._count(pack, levels, root, logits, time.perf_counter() - start, measured.requires_grad)
        return measured

    def _count(
        self, pack: Pack, levels: list[Level], root: Level, logits: Tensor, seconds: float, backward: bool
    ) -> Cost:
        """What a batch cost."""
        source, target = self.examples.lengths[pack.examples], self.examples.target_lengths[pack.examples]
        passes, tokens, padded, flops = 0, 0, 0, 0.0
        for level, work in zip(levels, self._work, strict=True):
            first = level.first.numpy()
            own = (target if work.decoder else source)[first]
            passes, tokens = passes + len(first), tokens + int(own.sum())
            padded += len(first) * int(own.max())
            flops += work.flops(own, source[first])
        answers = logits.shape[0] if logits.dim() == 2 else int((target if target.any() else source).sum())
        flops += 2.0 * self._head_weights * answers
        times, layers = 2 if backward else 1, len(levels)
        return Cost(
            rows=len(pack.rows),
            units=times * passes / layers,
            examples=root.nodes,
            layer_passes=times * passes,
            tokens=times * tokens / layers,
            padding=times * (padded - tokens) / layers,
            flops=times * flops,
            seconds=seconds,
        )

    def _written(self, game: WritingGame, on: NDArray[np.bool_], index: NDArray[np.int64]) -> Tensor:
        """The statistics of what the model writes; a text counts as one unit."""
        start = time.perf_counter()
        with self._evaluating():
            found, written = write_rows(self.model, self.heads, game, self.examples, self.players, on, index)
        self.cost += Cost(len(index), written, written, seconds=time.perf_counter() - start)
        return found

    def _narrowed_values(self, absent: tuple[str, ...], on: NDArray[np.bool_], index: NDArray[np.int64]) -> Tensor:
        """The values of rows that all lack some heads, by a model without them."""
        if self._narrower is None or self._narrower[0] != absent:
            model, players = narrow(self.model, self.heads, self.players, absent)
            self._narrower = absent, Engine(model, None, self.game, self.examples, players, self.settings)
        engine = self._narrower[1]
        engine.cost = Cost()
        found = engine.values(on, index)
        self.cost += engine.cost
        return found

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """The model in evaluation mode, and back in its own afterwards."""
        training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            yield
        finally:
            for module in training:
                module.training = True

    @property
    def _device(self) -> torch.device:
        found: torch.device = next(self.model.parameters()).device
        return found

    @cached_property
    def _call(self) -> dict[str, bool]:
        """What the model is called with besides its batch: caches for generation are of no use here."""
        return {"use_cache": False} if any(site.stack != "encoder" for site in self.heads.sites) else {}

    @cached_property
    def _depths(self) -> NDArray[np.int64]:
        return depths_of(self.heads, self.players)

    @cached_property
    def _work(self) -> Any:
        return work_of(self.model, self.heads)

    @cached_property
    def _head_weights(self) -> int:
        return head_weights(self.model, self.heads)


def _default_budget(device: torch.device) -> int:
    """Padded tokens of a batch: on a CPU few enough for its caches, elsewhere enough to fill the device."""
    return 2048 if device.type == "cpu" else 16384


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """No gradients for weights: half the cost of a backward pass."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
