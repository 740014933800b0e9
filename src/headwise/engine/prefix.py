"""Shared prefixes: layers run once for rows of one example whose masks are equal up to that layer.

The rows of a batch form a tree. Its nodes at a layer are the distinct pairs of an example and the masks of the layers
so far. A layer runs once per node, and a node's output is copied for its child nodes at the next layer. So nothing is
computed twice, and only the current states are stored. Any set of rows benefits: flips of a base, chains of a
permutation, one mask for many examples.

Outside the layers (embeddings, attention masks, pooling, classifier) the model processes every row, so that any task
head works. This is implemented by hooks on the layers, which are removed when the context ends.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headwise.gates import Rows, attach_gates
from headwise.heads import HeadMap, PlayerKind, base_model

#: Inputs of layers without an axis of rows.
_NO_ROWS = frozenset({"rel_embeddings", "relative_pos"})


@dataclass(frozen=True)
class Level:
    """The nodes at one layer.

    Attributes:
        first: The first row of each node, (nodes,).
        parent: The parent of each node at the layer before, (nodes,).
        node: The node of each row, (rows,).
    """

    first: Tensor
    parent: Tensor
    node: Tensor

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.first)


def find_levels(
    gates: NDArray[Any], depths: NDArray[np.int64], layers: int, examples: NDArray[np.int64], share: bool = True
) -> list[Level]:
    """The tree of a batch, layer by layer.

    Args:
        gates: The gates, boolean or real, (rows, players), sorted by example, then by players from the lowest layer.
        depths: The first layer that each player affects, (players,).
        layers: Number of layers of the model.
        examples: The example of each row, (rows,).
        share: Share nodes between rows. If False, every row is a separate node at every layer.
    """
    rows = len(examples)
    if not share:
        every = torch.arange(rows)
        return [Level(every, every, every)] * layers
    new = np.ones(rows, dtype=bool)  # whether a row differs from the one before it
    new[1:] = examples[1:] != examples[:-1]
    changes = gates[1:] != gates[:-1]  # (rows - 1, players)
    levels, before = [], np.cumsum(new) - 1
    for depth in range(layers):
        new[1:] |= changes[:, depths == depth].any(1)
        node, first = np.cumsum(new) - 1, np.flatnonzero(new)
        levels.append(Level(*(torch.from_numpy(each) for each in (first, before[first], node))))
        before = node
    return levels


@contextmanager
def run_as_tree(
    model: nn.Module,
    heads: HeadMap,
    gates: Mapping[PlayerKind, Tensor],
    levels: Sequence[Level],
    examples: Level,
    means: Mapping[str, Tensor] | None = None,
) -> Iterator[None]:
    """Make a model run a batch as a tree, with every row under its own gates.

    Args:
        model: The model; its inputs contain all rows.
        heads: Its head map.
        gates: The gates of each kind, (rows, gates).
        levels: The tree, from `find_levels`.
        examples: The root of the tree, at which all rows of one example are one node.
        means: The mean outputs of sites and blocks, which replace what is off; by default it becomes 0.
    """
    base = base_model(model)
    tree = _Tree(levels, len(levels[0].node))
    with ExitStack() as stack:
        for kind, each in gates.items():
            stack.enter_context(attach_gates(base, heads, kind, _NodeRows(each, tree, means)))
        for module in _embeddings(base):
            stack.enter_context(_embed_once(module, examples))
        last = {layer.stack: depth for depth, layer in enumerate(heads.layers)}
        start = {layer.stack: depth for depth, layer in reversed(list(enumerate(heads.layers)))}
        for depth, layer in enumerate(heads.layers):
            module = base.get_submodule(layer.path)
            enter = _Enter(tree, depth, depth == start[layer.stack])
            stack.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
            if depth == last[layer.stack]:
                stack.callback(module.register_forward_hook(_Leave(tree, depth)).remove)
        yield


class _Tree:
    """The levels, and the depth of the layer that is running."""

    def __init__(self, levels: Sequence[Level], rows: int) -> None:
        self.levels, self.rows, self.depth = levels, rows, 0

    def take(self, tensor: Tensor, index: Tensor) -> Tensor:
        """Rows of a tensor; the tensor itself if nothing changes."""
        if len(index) == len(tensor) == self.rows:
            return tensor
        return tensor.index_select(0, index.to(tensor.device))


class _NodeRows(Rows):
    """The gates of the nodes at the layer that is running."""

    def __init__(self, gates: Tensor, tree: _Tree, means: Mapping[str, Tensor] | None) -> None:
        super().__init__(gates, means)
        self.tree = tree

    def select(self, columns: slice, batch: Tensor) -> Tensor:
        """The gates (nodes, heads) in the columns."""
        gates = self.gates[:, columns]
        first = self.tree.levels[self.tree.depth].first
        return super().select(columns, batch) if len(first) == len(gates) else gates[first.to(gates.device)]


class _Enter:
    """Converts the inputs of a layer, which have all rows or the nodes of the layer before, to its nodes."""

    def __init__(self, tree: _Tree, depth: int, first_of_stack: bool) -> None:
        self.tree, self.depth, self.first_of_stack = tree, depth, first_of_stack

    def __call__(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        tree, level = self.tree, self.tree.levels[self.depth]
        tree.depth = self.depth
        before = tree.rows if self.first_of_stack else tree.levels[self.depth - 1].nodes
        if level.nodes == tree.rows == before:
            return args, kwargs

        def narrow(value: Any, name: str = "") -> Any:
            if isinstance(value, tuple):
                return tuple(narrow(each, name) for each in value)
            if not isinstance(value, Tensor) or value.dim() < 2 or name in _NO_ROWS:
                return value
            if name == "alibi":  # (rows·heads, 1, tokens)
                return narrow(value.unflatten(0, (tree.rows, -1))).flatten(0, 1)
            if len(value) == tree.rows:
                return tree.take(value, level.first)
            return tree.take(value, level.parent) if len(value) == before else value

        return narrow(args), {name: narrow(value, name) for name, value in kwargs.items()}


class _Leave:
    """Copies the output of each node to its rows."""

    def __init__(self, tree: _Tree, depth: int) -> None:
        self.tree, self.depth = tree, depth

    def __call__(self, _module: nn.Module, _args: Any, output: Any) -> Any:
        node = self.tree.levels[self.depth].node
        if isinstance(output, tuple):
            return self.tree.take(output[0], node), *output[1:]
        return self.tree.take(output, node)


def _embeddings(base: Any) -> list[nn.Module]:
    """The modules that embed tokens: the `embeddings` module if there is one, else the embedding layers."""
    size = base.get_input_embeddings().weight.shape[0]
    found: dict[str, nn.Module] = {}
    for name, module in base.named_modules():
        if isinstance(module, nn.Embedding) and len(module.weight) == size:
            parent = name.rpartition(".")[0]
            path = parent if parent.rpartition(".")[2] == "embeddings" else name
            found[path] = base.get_submodule(path)
    return list({id(module): module for module in found.values()}.values())


@contextmanager
def _embed_once(module: nn.Module, examples: Level) -> Iterator[None]:
    """Run a module on one row per example, and copy its output to all rows."""
    rows = len(examples.node)

    def narrow(value: Any) -> Any:
        whole = isinstance(value, Tensor) and value.dim() >= 2 and len(value) == rows
        return value.index_select(0, examples.first.to(value.device)) if whole else value

    def enter(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return tuple(map(narrow, args)), {name: narrow(value) for name, value in kwargs.items()}

    def leave(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
        return output.index_select(0, examples.node.to(output.device)) if len(output) == examples.nodes else output

    if examples.nodes == rows:
        yield
        return
    handles = [module.register_forward_pre_hook(enter, with_kwargs=True), module.register_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
