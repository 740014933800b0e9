"""Positions of players on a map: heads by layer, feed-forward blocks and layers in one row per stack."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from headwise.errors import HeadwiseError
from headwise.heads import PlayerKind

_TITLES = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross-attention"}
_HEAD = re.compile(r"(\w+)\.(\d+)\.(?:kv)?(\d+)")  # kv: a group of heads with a common key-value head
#: Maximum number of layers, and of heads per layer; more than any model has.
_MOST = 512
_BLOCK = re.compile(r"(\w+)\.(?:ffn|layer)\.(\d+)")


@dataclass(frozen=True)
class PlayerGrid:
    """One map.

    Attributes:
        title: Title of the map; empty if the model has only one.
        row_names: Labels of the rows, from the top.
        columns: Number of columns.
        places: Index of the player in each row and column; pruned heads are missing.
        row_title: Title of the rows; may be empty.
        column_title: Title of the columns.
    """

    title: str
    row_names: tuple[str, ...]
    columns: int
    places: Mapping[tuple[int, int], int]
    row_title: str
    column_title: str

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The rows and columns that are empty."""
        every = ((row, column) for row in range(len(self.row_names)) for column in range(self.columns))
        return tuple(place for place in every if place not in self.places)


def grids(players: tuple[str, ...], kind: PlayerKind) -> tuple[PlayerGrid, ...]:
    """The maps of some players, in the order of their stacks.

    Raises:
        HeadwiseError: A name is invalid, or its numbers are too large.

    Example:
        >>> [grid] = grids(("encoder.0.0", "encoder.0.2", "encoder.1.1"), "heads")
        >>> grid.row_names, grid.columns, grid.places
        (('0', '1'), 3, {(0, 0): 0, (0, 2): 1, (1, 1): 2})
        >>> [grid] = grids(("encoder.ffn.0", "encoder.ffn.1", "decoder.ffn.0"), "ffn")
        >>> grid.row_names, grid.places
        (('Encoder', 'Decoder'), {(0, 0): 0, (0, 1): 1, (1, 0): 2})
    """
    if kind == "heads":
        return _head_grids(players)
    found = [_parse(_BLOCK, name) for name in players]
    stacks = tuple(dict.fromkeys(stack for stack, _ in found))
    places = {(stacks.index(stack), int(layer)): place for place, (stack, layer) in enumerate(found)}
    columns = 1 + max((column for _, column in places), default=-1)
    return (PlayerGrid("", tuple(map(_title, stacks)), columns, places, "", "layer"),) if places else ()


def _head_grids(players: tuple[str, ...]) -> tuple[PlayerGrid, ...]:
    stacks: dict[str, dict[tuple[int, int], int]] = {}
    for place, name in enumerate(players):
        stack, layer, head = _parse(_HEAD, name)
        stacks.setdefault(stack, {})[int(layer), int(head)] = place
    return tuple(
        PlayerGrid(
            title=_title(stack) if len(stacks) > 1 else "",
            row_names=tuple(str(layer) for layer in range(1 + max(layer for layer, _ in places))),
            columns=1 + max(head for _, head in places),
            places=places,
            row_title="layer",
            column_title="key-value head" if ".kv" in players[0] else "head",
        )
        for stack, places in stacks.items()
    )


def _parse(pattern: re.Pattern[str], name: str) -> tuple[str, ...]:
    match = pattern.fullmatch(name)
    if match is None:
        raise HeadwiseError(
            f"{name!r} is not the name of a player: heads are named like encoder.5.4, blocks encoder.ffn.5"
        )
    stack, *numbers = match.groups()
    if any(len(number) > len(str(_MOST)) or int(number) >= _MOST for number in numbers):
        raise HeadwiseError(f"{name!r} is not a valid player: layers and heads are numbered from 0 to {_MOST - 1}")
    return stack, *numbers


def _title(stack: str) -> str:
    return _TITLES.get(stack, stack)
