"""The engine on one machine."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headwise.activations import device_of, evaluating, frozen
from headwise.engine.absent_heads import WORTH_A_COPY, absent_heads, narrow, saved_operations
from headwise.engine.base import EngineSettings, Flips, Gates, Gradients, Index, Values, check_rows, value_flips
from headwise.engine.batching import Pack, fewest_rows, pack_rows, take_rows
from headwise.engine.choices import ChoiceEngine
from headwise.engine.cost import EngineCost, ModelWork
from headwise.engine.examples import ExampleSet
from headwise.engine.generation import generate_rows
from headwise.engine.jobs import PackAnswer, PackJob, jobs_of, require_finite
from headwise.engine.label_outputs import only_labels, output_layer
from headwise.engine.memory import attention_bytes, default_budget, gradient_bytes, is_out_of_memory, value_bytes
from headwise.engine.players import PlayerSet, depths_of, players_of
from headwise.engine.prefix import Level, find_levels, run_as_tree
from headwise.engine.shared_tokens import (
    SequencesGame,
    SharedPrompts,
    choice_trees,
    measure_trees,
    most_tree_tokens,
    takes_trees,
)
from headwise.errors import HeadwiseError
from headwise.games.base import Answers, Game
from headwise.games.generation import GenerationGame
from headwise.games.means import SequenceLikelihoodGame
from headwise.heads import HeadMap, PlayerKind, find_heads
from headwise.means import MeanOutputs, require_means
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.encoding import Batch, check_vocabulary
from headwise.tasks.token_trees import TokenTree

#: A row is short if it has fewer tokens than this.
_SHORT = 256


class LocalEngine:
    """The engine in this process, on the device of the model.

    Args:
        model: A transformers model, or a PEFT model around one.
        heads: Its head map; found by `find_heads` if None.
        game: The game that defines the value of a row.
        examples: The examples.
        players: The players; by default each head is a player.
        settings: The settings.
        baseline: The mean outputs that replace what is off (mean ablation); by default it becomes 0.

    Raises:
        HeadwiseError: The baseline belongs to another model, a player is a layer, which has no mean output, there
            are no examples, or the model has no embedding for a token.
    """

    def __init__(
        self,
        model: nn.Module,
        heads: HeadMap | None,
        game: Game | GenerationGame,
        examples: ExampleSet,
        players: PlayerSet | None = None,
        settings: EngineSettings | None = None,
        baseline: MeanOutputs | None = None,
    ) -> None:
        self.model: Any = model
        self.heads = heads or find_heads(model)
        self.game = game
        self.examples = examples
        self.players = players_of(self.heads) if players is None else players
        self.settings = settings or EngineSettings()
        self.baseline = baseline
        if not len(examples):
            raise HeadwiseError("there are no examples: give at least one")
        check_vocabulary(model, examples.encoded)
        if baseline is not None:
            baseline.check(self.heads)
            for kind in self.players.owners:
                require_means(kind)
        self._narrower: tuple[tuple[str, ...], LocalEngine] | None = None

    def values(self, gates: Gates, index: Index) -> Values:
        """The values of rows; see `Engine.values`."""
        on, index = self._checked(gates, index)
        if isinstance(self.game, GenerationGame):
            return self._generated(self.game, on, index)
        if (choices := self._choice_engine(value_bytes(self.model, self.heads))) is not None:
            return choices.values(on, index)
        if self._prompts is not None and (merged := self._prompts.merge(on, index)) is not None:
            trees = self._of(SequencesGame(self.game, merged.most), merged.examples(self.examples))
            return merged.split(trees.values(on[merged.first], merged.tree), self.examples, index, self.game.statistics)
        absent = absent_heads(self.heads, self.players, on)
        tokens = int(self.examples.lengths[index].sum())
        if not (absent and saved_operations(self.model, self.heads, absent, tokens) > WORTH_A_COPY):
            absent = ()
        found, cost = torch.zeros(len(index), self.game.statistics), EngineCost()
        packs = list(self.packs(on, index))
        for pack, answer in zip(packs, self._answers(jobs_of(packs, on, absent)), strict=True):
            found[pack.rows], cost = answer.values, cost + answer.cost
        return Values(found[:, 0] if self.game.statistics == 1 else found, cost)

    def gradients(self, gates: Gates, index: Index) -> Gradients:
        """The values of rows and their gradients; see `Engine.gradients`."""
        if isinstance(self.game, GenerationGame) or not self.game.differentiable:
            raise HeadwiseError(f"the game {self.game.name!r} has no gradient: use 'probability' or 'log-likelihood'")
        on, index = self._checked(gates, index)
        if (choices := self._choice_engine(gradient_bytes(self.model, self.heads))) is not None:
            return choices.gradients(on, index)
        values, gradients, cost = torch.zeros(len(index)), torch.zeros(len(index), len(self.players)), EngineCost()
        packs = list(self.packs(on, index, gradient_bytes(self.model, self.heads)))
        for pack, answer in zip(packs, self._answers(jobs_of(packs, on, gradients=True)), strict=True):
            assert answer.gradients is not None
            values[pack.rows], gradients[pack.rows] = answer.values[:, 0], answer.gradients
            cost += answer.cost
        return Gradients(values, gradients, cost)

    def compute(self, job: PackJob) -> PackAnswer:
        """Compute one batch. A call of `values` or `gradients` is a series of such batches.

        Raises:
            NotFiniteError: A value or a gradient is not a finite number.
        """
        assert not isinstance(self.game, GenerationGame)
        if job.absent:
            return self._without(job.absent).compute(replace(job, absent=()))
        pack, leaves = Pack(np.arange(len(job.examples)), job.examples), self.players.gates(torch.from_numpy(job.gates))
        if not job.gradients:
            with torch.inference_mode(), evaluating(self.model):
                measured, cost = self._measure(self.game, pack, job.gates, leaves, self.settings.reuse_prefixes)
            return PackAnswer(require_finite(measured.cpu(), job.examples, self.settings.bfloat16), None, cost)
        with evaluating(self.model), frozen(self.model):
            for each in leaves.values():
                each.requires_grad_()
            with self._attending(pack):
                measured, cost = self._measure(self.game, pack, job.gates, leaves, share=False)
            found = torch.autograd.grad(measured[:, 0].sum(), list(leaves.values()))
            gradients = self.players.collect(dict(zip(leaves, found, strict=True))).cpu()
        values = require_finite(measured.detach().cpu(), job.examples, self.settings.bfloat16)
        return PackAnswer(values, require_finite(gradients, job.examples, self.settings.bfloat16), cost)

    def _answers(self, jobs: Iterable[PackJob]) -> Iterator[PackAnswer]:
        """The answers to batches, in their order."""
        return map(self._split_if_needed, jobs)

    def _split_if_needed(self, job: PackJob) -> PackAnswer:
        """Compute one batch; if it does not fit into memory, its halves, so the last bits of its values may differ.

        Raises:
            HeadwiseError: A single row does not fit.
        """
        try:
            return self.compute(job)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if len(job.examples) == 1:
                raise HeadwiseError(
                    f"example {job.examples[0]}, numbered from 0, does not fit into memory: leave it out, or use "
                    "a machine with more memory"
                ) from None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        half = len(job.examples) // 2
        parts = (slice(half), slice(half, None))
        one, other = (
            self._split_if_needed(replace(job, gates=job.gates[part], examples=job.examples[part])) for part in parts
        )
        gradients = [each.gradients for each in (one, other) if each.gradients is not None]
        joined = torch.cat(gradients) if gradients else None
        return PackAnswer(torch.cat([one.values, other.values]), joined, one.cost + other.cost)

    def flips(self, bases: Gates, index: Index, players: Index) -> Flips:
        """The values of bases and of their flips: a flip runs only the layers from its player upwards."""
        return value_flips(self, bases, index, players)

    def run(self, index: Index, within: Callable[[Batch], AbstractContextManager[object]]) -> EngineCost:
        """Run the model once on each example with all players on, and discard its output.

        Examples are packed into batches by length. A batch is small enough for the attention weights of one site.

        Args:
            index: Numbers of the examples, (examples,).
            within: Returns the context in which a batch runs, for example `capture_attention(...)`. The rows of the
                batch are the examples `batch.index`.
        """
        on, numbers = self._checked(np.ones((len(index), len(self.players)), dtype=bool), index)
        token_bytes = attention_bytes(self.model, self.heads, int(self._lengths[numbers].max(initial=1)))
        cost, task, layers = EngineCost(), self.examples.task, len(self.heads.layers)
        with torch.inference_mode(), evaluating(self.model):
            for pack in self.packs(on, numbers, token_bytes):
                start = time.perf_counter()
                batch = task.make_batch(self.model, self.examples.encoded, pack.examples.tolist(), self.examples.pad_id)
                autocast = torch.autocast(self._device.type, torch.bfloat16, enabled=self.settings.bfloat16)
                with within(batch), autocast:
                    output = self.model(**batch.inputs(self._device), **self._call)[0]  # also without a task head
                levels = find_levels(on[pack.rows], self._depths, layers, pack.examples, share=False)
                outputs = len(output) if output.dim() == 2 else None
                cost += self._cost(pack, levels, pack.root, outputs, time.perf_counter() - start, backward=False)
        return cost

    @property
    def flip_units(self) -> NDArray[np.float64]:
        """Cost of the flip of each player in addition to its base: the layers from the player upwards, (players,)."""
        found: NDArray[np.float64] = 1 - self._depths / len(self.heads.layers)
        return found

    def most_units(self, rows: int, shared: float | None = None, gradients: bool = False) -> float:
        """An upper bound on the units that one call may cost; see `Engine.most_units`."""
        token_bytes = (gradient_bytes if gradients else value_bytes)(self.model, self.heads)
        if (choices := self._choice_engine(token_bytes)) is not None:
            return choices.most_units(rows, shared, gradients)
        if gradients:
            return 2.0 * rows
        if shared is None or isinstance(self.game, GenerationGame) or not self.settings.reuse_prefixes:
            return float(rows)
        # Rows of one example are adjacent and sorted by their prefixes. A batch that starts between rows of one example
        # therefore computes at most one whole row again.
        batches = math.ceil(rows / fewest_rows(self._token_budget(), int(self._lengths.max())))
        return min(float(rows), shared + batches - 1)

    def _attending(self, pack: Pack) -> AbstractContextManager[object]:
        """Selects the implementation of attention for gradients.

        In bfloat16 on a CPU, the backward pass of PyTorch's fused attention is up to ten times slower for short rows
        than plain matrix products.
        """
        short = self.examples.lengths[pack.examples].max() < _SHORT
        plain = self.settings.bfloat16 and self._device.type == "cpu" and short
        return sdpa_kernel(SDPBackend.MATH) if plain else nullcontext()

    def _checked(self, gates: Gates, index: Index) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return check_rows(gates, index, len(self.players), len(self.examples))

    def packs(self, on: NDArray[Any], index: NDArray[np.int64], token_bytes: int | None = None) -> Iterator[Pack]:
        """The batches of rows."""
        return pack_rows(on, self._depths, index, self._lengths, self._token_budget(token_bytes))

    def _token_budget(self, token_bytes: int | None = None) -> int:
        """Maximum number of padded tokens of a batch, within the memory limit."""
        within = int(self.settings.memory_limit // (token_bytes or value_bytes(self.model, self.heads)))
        return min(self.settings.token_budget or default_budget(self._device), within)

    def _measure(
        self, game: Game, pack: Pack, on: NDArray[Any], gates: dict[PlayerKind, Tensor], share: bool
    ) -> tuple[Tensor, EngineCost]:
        """The statistics of a batch's rows, (rows, statistics), and their cost."""
        start = time.perf_counter()
        device, root = self._device, pack.root
        once = pack.examples[root.first.numpy()]
        task = self.examples.task
        batch = take_rows(task.make_batch(self.model, self.examples.encoded, once, self.examples.pad_id), root.node)
        levels = find_levels(on[pack.rows], self._depths, len(self.heads.layers), pack.examples, share)
        gates = {kind: each.to(device) for kind, each in gates.items()}
        layer = output_layer(self.model, task)
        with (
            only_labels(layer, batch) if layer is not None else nullcontext() as outputs,
            run_as_tree(self.model, self.heads, gates, levels, root, self._means) if levels else nullcontext(),
            torch.autocast(device.type, torch.bfloat16, enabled=self.settings.bfloat16),
        ):
            logits = self.model(**batch.inputs(device), **self._call).logits
        if outputs is None and logits.dim() == 2:
            outputs = len(logits)
        answers = self._answers_of(batch, task.select(logits, batch) if layer is None else logits, pack.examples)
        trees = [each for each in map(self.examples.encoded.__getitem__, pack.examples) if isinstance(each, TokenTree)]
        measured = measure_trees(game, answers, trees) if trees else game.measure(answers)
        # argmax, as in accuracy, hides NaN and infinity. Minus infinity may be a token that is not allowed. The maximum
        # of a row with NaN is NaN.
        if (unknown := ~(answers.logits.amax(-1) < torch.inf)).any():
            measured = measured.index_fill(0, answers.rows[unknown], torch.nan)
        return measured, self._cost(pack, levels, root, outputs, time.perf_counter() - start, measured.requires_grad)

    def _answers_of(self, batch: Batch, logits: Tensor, index: NDArray[np.int64]) -> Answers:
        """The answers of a batch from the logits of its labels; `index` are the examples of its rows."""
        rows, device = torch.from_numpy(index), self._device
        return Answers(
            logits,
            batch.rows.to(device),
            batch.places.to(device),
            self.examples.counts[rows].to(device),
            self.examples.gold_of(rows).to(device),
            None if self.examples.sizes is None else self.examples.sizes[rows].to(device),
        )

    def _cost(
        self, pack: Pack, levels: list[Level], root: Level, outputs: int | None, seconds: float, backward: bool
    ) -> EngineCost:
        """The cost of a batch; `outputs` is how often the output layer ran, by default once per token."""
        source, target = self.examples.lengths[pack.examples], self.examples.target_lengths[pack.examples]
        found = self._work.batch_cost(levels, source, target, outputs, backward)
        return replace(found, examples=root.nodes if levels else found.rows, seconds=seconds)

    def _generated(self, game: GenerationGame, on: NDArray[Any], index: NDArray[np.int64]) -> Values:
        """The statistics of generated texts; a text counts as one unit."""
        start = time.perf_counter()
        with evaluating(self.model):
            found, written = generate_rows(
                self.model, self.heads, game, self.examples, self.players, on, index, self.baseline
            )
        cost = EngineCost(len(index), written, written, seconds=time.perf_counter() - start)
        return Values(require_finite(found, index, self.settings.bfloat16), cost)

    def _without(self, absent: tuple[str, ...]) -> "LocalEngine":
        """An engine on a copy of the model without some heads."""
        if self._narrower is None or self._narrower[0] != absent:
            model, players = narrow(self.model, self.heads, self.players, absent, self.baseline)
            heads = find_heads(model)
            means = None if self.baseline is None else self.baseline.restricted_to(heads)
            engine = LocalEngine(model, heads, self.game, self.examples, players, self.settings, means)
            self._narrower = absent, engine
        return self._narrower[1]

    def _choice_engine(self, token_bytes: int) -> "LocalEngine | ChoiceEngine | None":
        """The engine that values multiple choice; None for examples that are single sequences.

        Args:
            token_bytes: Bytes of a token's activations. Choices do not share their prompt if a tree does not fit the
                memory limit.
        """
        if not self.examples.choices or isinstance(self.game, GenerationGame):
            return None
        trees = self._tree_engine
        if trees is not None and trees.examples.lengths.max() * token_bytes <= self.settings.memory_limit:
            return trees
        return self._sequence_engine

    @cached_property
    def _tree_engine(self) -> "LocalEngine | None":
        """Values multiple choice with one row for all choices of an example; None if the model does not take trees."""
        assert not isinstance(self.game, GenerationGame)
        if not (self.settings.reuse_prefixes and takes_trees(self.model, self.heads)):
            return None
        found, most = choice_trees(self.examples), most_tree_tokens(self.model)
        return None if most is not None and found.lengths.max() > most else self._of(self.game, found)

    @cached_property
    def _prompts(self) -> SharedPrompts | None:
        """Examples that begin with the same tokens; None if there are none, or the model does not take trees."""
        trees = any(isinstance(each, TokenTree) for each in self.examples.encoded)
        if trees or not self.settings.reuse_prefixes or not takes_trees(self.model, self.heads):
            return None
        if output_layer(self.model, self.examples.task) is None:  # a classifier reads the end of a row
            return None
        budget = self._token_budget()
        return SharedPrompts.find(self.examples, min(budget, most_tree_tokens(self.model) or budget))

    @cached_property
    def _sequence_engine(self) -> ChoiceEngine:
        """Values multiple choice with one row for each choice."""
        assert not isinstance(self.game, GenerationGame)
        return ChoiceEngine(self._of(SequenceLikelihoodGame(), self.examples.sequences), self.game, self.examples)

    def _of(self, game: Game, examples: ExampleSet) -> "LocalEngine":
        """The same engine for another game and other examples."""
        return LocalEngine(self.model, self.heads, game, examples, self.players, self.settings, self.baseline)

    @property
    def _device(self) -> torch.device:
        return device_of(self.model)

    @cached_property
    def _means(self) -> Mapping[str, Tensor] | None:
        """The mean outputs on the device of the model."""
        if self.baseline is None:
            return None
        return {name: mean.to(self._device) for name, mean in self.baseline.values.items()}

    @cached_property
    def _call(self) -> dict[str, bool]:
        """Arguments of the model besides its batch: no cache, which is needed only for generation."""
        decoding = any(site.stack != "encoder" for site in self.heads.sites)
        return {"use_cache": False} if decoding or isinstance(self.examples.task, MultipleChoice) else {}

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        """Number of tokens that each example needs in a batch, (examples,)."""
        return np.maximum(self.examples.lengths, self.examples.target_lengths)

    @cached_property
    def _depths(self) -> NDArray[np.int64]:
        return depths_of(self.heads, self.players)

    @cached_property
    def _work(self) -> ModelWork:
        return ModelWork.of(self.model, self.heads)
