"""Players: which gates are switched off together, and at which layer of the model they are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.architectures import Stack
from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, PlayerKind

GATE_KINDS: tuple[PlayerKind, ...] = ("heads", "ffn", "layers")


@dataclass(frozen=True)
class PlayerSet:
    """The players of a game.

    Attributes:
        names: Their names; a mask has one column per player.
        owners: For each kind of gate, the player that each gate belongs to, -1 for gates that are always on.
            Kinds without a player's gate are omitted.

    Example:
        >>> players = PlayerSet(("left", "right"), {"heads": (0, 1, 1, -1)})
        >>> players.gates(torch.tensor([[True, False]]))["heads"]
        tensor([[1., 0., 0., 1.]])
    """

    names: tuple[str, ...]
    owners: Mapping[PlayerKind, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.names)

    def gates(self, values: Tensor) -> dict[PlayerKind, Tensor]:
        """The gates of each kind, (rows, gates), from the gates of players, (rows, players)."""
        always = values.new_ones((len(values), 1))
        padded = torch.cat([values, always], dim=1).float()  # an owner of -1 is the last column
        return {kind: padded[:, list(owners)] for kind, owners in self.owners.items()}

    @property
    def single(self) -> bool:
        """Whether players and heads (or blocks, or layers) correspond one to one."""
        owners = list(self.owners.values())
        return len(owners) == 1 and owners[0] == tuple(range(len(self)))

    def members(self, heads: HeadMap) -> tuple[tuple[str, ...], ...]:
        """The names of the heads, feed-forward blocks and layers that each player consists of, (players,)."""
        found: list[list[str]] = [[] for _ in self.names]
        for kind, owners in self.owners.items():
            for name, owner in zip(heads.players(kind), owners, strict=True):
                if owner >= 0:
                    found[owner].append(name)
        return tuple(map(tuple, found))

    def collect(self, gradients: Mapping[PlayerKind, Tensor]) -> Tensor:
        """The gradients of players, (rows, players): the sum over the gates of each player."""
        rows, device = next((len(each), each.device) for each in gradients.values())
        found = torch.zeros(rows, len(self) + 1, device=device)
        for kind, owners in self.owners.items():
            place = torch.tensor(owners, device=device) % (len(self) + 1)
            found.index_add_(1, place, gradients[kind].float())
        return found[:, :-1]


def players_of(heads: HeadMap, kind: PlayerKind = "heads") -> PlayerSet:
    """One player per head, feed-forward block or layer."""
    names = heads.players(kind)
    return PlayerSet(names, {kind: tuple(range(len(names)))})


def players_of_kinds(heads: HeadMap, kinds: Collection[PlayerKind]) -> PlayerSet:
    """One player per gate of several kinds.

    Args:
        heads: The model's head map.
        kinds: The kinds.
    """
    names: list[str] = []
    owners: dict[PlayerKind, tuple[int, ...]] = {}
    for kind in GATE_KINDS:
        if kind in kinds:
            owners[kind] = tuple(range(len(names), len(names) + len(heads.players(kind))))
            names.extend(heads.players(kind))
    return PlayerSet(tuple(names), owners)


def kv_groups(heads: HeadMap) -> PlayerSet:
    """One player per key-value head: all heads that share it, named as in `decoder.3.kv1`."""
    names: list[str] = []
    owners: list[int] = []
    for site in heads.sites:
        for kv in site.kv_of:
            name = f"{site.name}.kv{kv}"
            if name not in names[-site.kv_heads :]:
                names.append(name)
            owners.append(names.index(name))
    return PlayerSet(tuple(names), {"heads": tuple(owners)})


def players_from_groups(heads: HeadMap, groups: Mapping[str, Sequence[str]]) -> PlayerSet:
    """One player per group of heads, blocks or layers; a group may have members of several kinds.

    Args:
        heads: The model's head map.
        groups: For each player's name, the names of its members. Gates in no group are always on.

    Raises:
        HeadwiseError: A member does not exist, or is in two groups.
    """
    owner: dict[str, int] = {}
    for index, (group, members) in enumerate(groups.items()):
        for member in members:
            if member in owner:
                raise HeadwiseError(f"{member} is in two groups, {list(groups)[owner[member]]!r} and {group!r}")
            owner[member] = index
    owners: dict[PlayerKind, tuple[int, ...]] = {
        kind: tuple(owner.pop(name, -1) for name in heads.players(kind)) for kind in GATE_KINDS
    }
    if owner:
        raise HeadwiseError(f"{next(iter(owner))} is not a head, feed-forward block or layer of {heads.model}")
    return PlayerSet(tuple(groups), {kind: found for kind, found in owners.items() if max(found, default=-1) >= 0})


def depths_of(heads: HeadMap, players: PlayerSet) -> NDArray[np.int64]:
    """For each player, the first layer that it affects, in the order in which layers run, (players,)."""
    place = {(layer.stack, layer.layer): index for index, layer in enumerate(heads.layers)}
    found = np.full(len(players), len(heads.layers), dtype=np.int64)
    for kind, owners in players.owners.items():
        for owner, key in zip(owners, _places(heads, kind), strict=True):
            if owner >= 0:
                found[owner] = min(found[owner], place[key])
    return found


def _places(heads: HeadMap, kind: PlayerKind) -> list[tuple[Stack, int]]:
    """Stack and number of the layer that each gate of a kind is in."""
    if kind == "heads":
        return [
            ("decoder" if site.stack == "cross" else site.stack, site.layer) for site in heads.sites for _ in site.heads
        ]
    return [(block.stack, block.layer) for block in (heads.feed_forward if kind == "ffn" else heads.layers)]
