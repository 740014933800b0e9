"""Layer patterns as rankings: whole layers are removed one after the other, in a fixed order."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.engine.players import depths_of
from headwise.errors import HeadwiseError
from headwise.heads import HeadMap
from headwise.methods.base import Problem
from headwise.methods.fixed_ranking import FixedRanking

Pattern = Literal["top", "middle", "bottom", "odd", "even", "consecutive"]


@dataclass(frozen=True)
class Layers:
    """The place of each player's layer in the order of a pattern: the layer with value 0 is removed first.

    All players of a layer have the same value, so removing the lowest k layers' worth of players empties exactly the
    first k layers of the pattern. No pass through the model is needed.

    Attributes:
        pattern: The order of the layers, see `layer_order`.

    Example:
        >>> Layers(pattern="middle").name
        'layers'
    """

    name: ClassVar[str] = "layers"
    signed: ClassVar[bool] = False
    unbiased: ClassVar[bool] = False
    needs_units: ClassVar[bool] = False
    trains: ClassVar[bool] = False
    version: ClassVar[int] = 1

    pattern: Pattern = "top"

    def __post_init__(self) -> None:
        if self.pattern not in get_args(Pattern):
            raise HeadwiseError(f"pattern must be one of {', '.join(get_args(Pattern))}, not {self.pattern!r}")

    def start(self, problem: Problem, seed: int) -> FixedRanking:  # noqa: ARG002 - nothing is drawn
        """Start the method on a problem."""
        values = layer_ranks(problem.heads, self.pattern)[depths_of(problem.heads, problem.players)]
        return FixedRanking(self, problem, values, ("none: a pattern", f"layers({self.pattern})"))


def layer_ranks(heads: HeadMap, pattern: Pattern) -> NDArray[np.float64]:
    """The place of every layer in the order of a pattern, (layers,)."""
    places: dict[tuple[str, int], float] = {}
    for stack in {block.stack: None for block in heads.layers}:
        numbers = sorted(block.layer for block in heads.layers if block.stack == stack)
        order = layer_order(pattern, len(numbers))
        places |= {(stack, numbers[layer]): place / len(order) for place, layer in enumerate(order)}
    # Layers of an encoder and a decoder take turns; at the same place, the encoder's layer is first.
    blocks = heads.layers
    order_of_all = sorted(range(len(blocks)), key=lambda each: places[blocks[each].stack, blocks[each].layer])
    return np.argsort(order_of_all).astype(np.float64)


def layer_order(pattern: Pattern, layers: int) -> list[int]:
    """The layers of one stack in the order in which a pattern removes them, numbered from 0.

    Layers are counted from 1 in "odd" and "even", as in the papers, so "odd" removes the first layer and "even"
    keeps it. Both continue with the other layers, from the lowest upwards.

    Args:
        pattern: `top` starts at the output, `bottom` at the input. `middle` starts at the centre and grows to
            both sides, so that its first k layers are the middle k. `odd` and `even` start with every other layer.
            `consecutive` is the control for these: a run of neighbouring layers, the first k, as `bottom`.
        layers: Number of layers.

    Example:
        >>> layer_order("top", 6), layer_order("middle", 6)
        ([5, 4, 3, 2, 1, 0], [3, 2, 4, 1, 5, 0])
        >>> layer_order("odd", 6), layer_order("even", 6)
        ([0, 2, 4, 1, 3, 5], [1, 3, 5, 0, 2, 4])
    """
    every = list(range(layers))
    match pattern:
        case "top":
            return every[::-1]
        case "middle":
            centre = (layers - 1) / 2
            return sorted(every, key=lambda layer: (abs(layer - centre), -layer))
        case "odd":
            return every[::2] + every[1::2]
        case "even":
            return every[1::2] + every[::2]
        case "bottom" | "consecutive":
            return every
    raise HeadwiseError(f"pattern must be one of {', '.join(get_args(Pattern))}, not {pattern!r}")
