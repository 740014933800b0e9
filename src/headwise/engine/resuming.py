"""One mask after the other on the same examples: a mask computes only the layers from its first change upwards.

The output of a layer depends only on the gates up to this layer. The outputs of all layers are kept in memory, under
the batch, the layer and these gates. Another mask starts at the first layer whose output is not known: after the change
of one head, this is the layer of the head; for a mask that was measured before, no layer runs.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.engine.base import Values
from headwise.engine.cost import EngineCost
from headwise.engine.jobs import PackJob
from headwise.engine.local import LocalEngine
from headwise.engine.players import depths_of
from headwise.errors import HeadwiseError
from headwise.games.generation import GenerationGame
from headwise.heads import base_model

#: Default number of bytes of the outputs of layers that are kept.
MEMORY = 2**30
#: A layer, counted from 0 in the order in which layers run, and the gates up to this layer.
_Key = tuple[int, bytes]


class StoppedError(Exception):
    """A computation was stopped because its result is no longer needed."""


class ResumingEngine:
    """Values of all examples under one mask at a time, with the outputs of layers of earlier masks.

    The batches and the values are those of the engine. If the memory is not enough, the outputs of low layers are kept
    rather than those of high layers, and the others are computed again.

    Args:
        engine: The engine; its examples are single sequences, and its game needs no generated texts.
        memory: Maximum number of bytes of the outputs of layers that are kept.

    Raises:
        HeadwiseError: The examples or the game do not fit.

    Example:
        >>> from transformers import BertConfig, BertForTokenClassification
        >>> from headwise.engine import ExampleSet
        >>> from headwise.games import ProbabilityGame
        >>> from headwise.tasks import find_task
        >>> from headwise.tasks.encoding import Encoded
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> examples = ExampleSet(find_task("slots", ("O", "B-X")), (Encoded((5, 6), (0, 1), (0, 1)),), 0)
        >>> engine = LocalEngine(BertForTokenClassification(config), None, ProbabilityGame(), examples)
        >>> resuming, gates = ResumingEngine(engine), np.ones(8, dtype=bool)
        >>> resuming.values(gates).cost.units
        1.0
        >>> gates[6] = False  # a head of the last of four layers
        >>> resuming.values(gates).cost.units
        0.25
    """

    def __init__(self, engine: LocalEngine, memory: int = MEMORY) -> None:
        if engine.examples.choices or isinstance(engine.game, GenerationGame):
            raise HeadwiseError("only tasks whose examples are single sequences with labels can be resumed at a layer")
        self.engine, self._statistics = engine, engine.game.statistics
        self._depths = depths_of(engine.heads, engine.players)
        base = base_model(engine.model)
        self._layers = [base.get_submodule(layer.path) for layer in engine.heads.layers]
        rows = len(engine.examples)
        packs = list(engine.packs(np.ones((rows, len(engine.players)), dtype=bool), np.arange(rows)))
        self._batches = [(pack, _LayerOutputs(memory // len(packs))) for pack in packs]

    def values(self, gates: NDArray[np.bool_], stopped: Callable[[], bool] | None = None) -> Values:
        """The values of all examples under one mask.

        Args:
            gates: The gates of the players, (players,).
            stopped: Called before each batch; if it returns True, the computation ends with an error.

        Raises:
            StoppedError: The computation was stopped. The outputs of the batches so far are kept.
        """
        start, passes, rows = time.perf_counter(), 0, len(self.engine.examples)
        found = torch.zeros(rows, self._statistics)
        keys = [(depth, gates[self._depths <= depth].tobytes()) for depth in range(len(self._layers))]
        for pack, outputs in self._batches:
            if stopped is not None and stopped():
                raise StoppedError("the computation was stopped")
            with _resumed(self._layers, outputs.known(keys)) as all_outputs:
                answer = self.engine.compute(PackJob(np.tile(gates, (len(pack.rows), 1)), pack.examples))
            passes += len(pack.rows) * (len(self._layers) - len(outputs.known(keys)))
            outputs.keep(keys, all_outputs)
            found[pack.rows] = answer.values
        units, seconds = passes / len(self._layers), time.perf_counter() - start
        cost = EngineCost(rows=rows, units=units, examples=rows, layer_passes=passes, seconds=seconds)
        return Values(found[:, 0] if self._statistics == 1 else found, cost)


class _LayerOutputs:
    """The outputs of layers of one batch; those that were used last are kept.

    Args:
        limit: Maximum number of bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.bytes = limit, 0
        self.kept: OrderedDict[_Key, Any] = OrderedDict()

    def known(self, keys: Sequence[_Key]) -> list[Any]:
        """The outputs of the first layers, up to the first layer whose output is not kept."""
        found = []
        for key in keys:
            if key not in self.kept:
                break
            found.append(self.kept[key])
        return found

    def keep(self, keys: Sequence[_Key], outputs: Sequence[Any]) -> None:
        """Keep the outputs of all layers. The lowest layers are removed last, since others need them."""
        for key, output in reversed(list(zip(keys, outputs, strict=True))):
            if key not in self.kept:
                self.bytes += _size(output)
            self.kept[key] = output
            self.kept.move_to_end(key)
        while self.bytes > self.limit:
            self.bytes -= _size(self.kept.popitem(last=False)[1])


@contextmanager
def _resumed(layers: Sequence[nn.Module], known: Sequence[Any]) -> Iterator[list[Any]]:
    """The first layers return known outputs instead of running; yields the list of the outputs of all layers."""
    outputs: list[Any] = list(known)
    with ExitStack() as stack:
        for depth, layer in enumerate(layers):
            run = _return(known[depth]) if depth < len(known) else _record(layer.forward, outputs)
            stack.enter_context(_replaced_forward(layer, run))
        yield outputs


def _return(output: Any) -> Callable[..., Any]:
    return lambda *_args, **_kwargs: output


def _record(forward: Callable[..., Any], outputs: list[Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        outputs.append(forward(*args, **kwargs))
        return outputs[-1]

    return run


@contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace the `forward` of one module; hooks of the module run as before."""
    own = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


def _size(output: Any) -> int:
    """Number of bytes of the tensors in the output of a layer."""
    if isinstance(output, Tensor):
        return output.nbytes
    return sum(map(_size, output)) if isinstance(output, Iterable) else 0
