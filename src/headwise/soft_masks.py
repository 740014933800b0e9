"""Soft masks: a real gate for every player, with the model they belong to, saved as a small JSON file."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.files import read_json
from headwise.heads import HeadMap, PlayerKind
from headwise.masks import HeadMask, PlayerMask, group_players
from headwise.support.display import diverging_colour, html_grid

#: Whole numbers in a file must be smaller, because larger ones are not exact as floating-point numbers.
_LARGEST = 2**53


@dataclass(frozen=True, repr=False)
class SoftMask(PlayerMask):
    """A real gate for every head (or feed-forward block, or layer): 0 is off, 1 leaves it unchanged.

    `soft * hard` turns the players off that are off in a hard mask and keeps the gates of the others;
    `soft * soft` multiplies the gates.

    Attributes:
        players: Every player of the model, in the model's order.
        gates: The gate of each player, any finite number.
        kind: What the players are.
        model: Display name of the model.
        fingerprint: Fingerprint of the weights that the mask belongs to; None fits any weights of this shape.
        language: The language that the mask was made for, if any.

    Example:
        >>> soft = SoftMask(("encoder.0.0", "encoder.0.1", "encoder.0.2"), (1.25, 0.0, 0.5))
        >>> soft
        SoftMask(3 heads, gates from 0 to 1.25, 1 off)
        >>> soft.hard(0.6).off
        ('encoder.0.1', 'encoder.0.2')
        >>> (soft * soft.hard(0.6)).gates
        (1.25, 0.0, 0.0)
    """

    form: ClassVar[str] = "headwise-soft-mask"

    players: tuple[str, ...]
    gates: tuple[float, ...]
    kind: PlayerKind = "heads"
    model: str = ""
    fingerprint: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if len(self.players) != len(self.gates):
            raise HeadwiseError(
                f"a soft mask needs one gate per player: {len(self.players)} players, {len(self.gates)} gates"
            )
        object.__setattr__(self, "gates", tuple(map(float, self.gates)))
        if wrong := [gate for gate in self.gates if not math.isfinite(gate)]:
            raise HeadwiseError(f"the gates of a soft mask must be finite numbers, not {wrong[0]}")

    @classmethod
    def of(
        cls, heads: HeadMap, gates: Sequence[float] | Tensor, kind: PlayerKind = "heads", language: str | None = None
    ) -> "SoftMask":
        """The soft mask of a model with these gates, one per player, in the model's order."""
        values = gates.detach().tolist() if isinstance(gates, Tensor) else gates
        return cls(heads.players(kind), tuple(values), kind, heads.model, heads.fingerprint, language)

    def __repr__(self) -> str:
        about = ", ".join(each for each in (self.model, self.language) if each)
        gates = f", gates from {min(self.gates):g} to {max(self.gates):g}" if self.gates else ""
        off = f", {len(self.off)} off" if self.off else ""
        return f"SoftMask({len(self.players)} {self.kind}{f' ({about})' if about else ''}{gates}{off})"

    def _repr_html_(self) -> str:
        """One square per player for notebooks: white at 1, blue above, orange below, dark if it is off."""
        largest = max((abs(gate - 1) for gate in self.gates), default=0.0)
        colours = ["#222" if gate == 0 else diverging_colour(gate - 1, largest) for gate in self.gates]
        tips = [f"{name}: {gate:.3g}" for name, gate in zip(self.players, self.gates, strict=True)]
        return html_grid(repr(self), self.players, colours, tips)

    @property
    def on(self) -> tuple[bool, ...]:
        """For each player, whether its gate is not 0."""
        return tuple(gate != 0 for gate in self.gates)

    @property
    def off(self) -> tuple[str, ...]:
        """The names of the players whose gate is exactly 0."""
        return tuple(name for name, gate in zip(self.players, self.gates, strict=True) if gate == 0)

    def tensor(self) -> Tensor:
        """The gates as real numbers, (players,)."""
        return torch.tensor(self.gates, dtype=torch.float32)

    def hard(self, threshold: float = 0.5) -> HeadMask:
        """The hard mask of the players whose gate is above a threshold; all others are off."""
        on = tuple(gate > threshold for gate in self.gates)
        return HeadMask(self.players, on, self.kind, self.model, self.fingerprint, self.language)

    def sparse(self, threshold: float) -> "SoftMask":
        """The same mask with every gate whose absolute value is below a threshold set to 0: `shrink` removes its head.

        Example:
            >>> SoftMask(("encoder.0.0", "encoder.0.1", "encoder.0.2"), (1.25, -0.5, 0.1)).sparse(0.2).gates
            (1.25, -0.5, 0.0)
        """
        return dataclasses.replace(self, gates=tuple(gate if abs(gate) >= threshold else 0.0 for gate in self.gates))

    def __mul__(self, other: "AnyMask") -> "SoftMask":
        factors = other.gates if isinstance(other, SoftMask) else other.on
        return self._merged(other, gates=tuple(a * b for a, b in zip(self.gates, factors, strict=False)))

    __rmul__ = __mul__

    def to_dict(self) -> dict[str, Any]:
        """The mask as plain data: `gates` has the gates of each site, in the order of `shape`."""
        groups = group_players(self.players)
        gates = iter(self.gates)
        return {**super().to_dict(), "gates": {site: [next(gates) for _ in each] for site, each in groups.items()}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "mask") -> "SoftMask":
        """Create a soft mask from the data of `to_dict`."""
        common = cls._read_common(data, source)
        gates, groups = data.get("gates"), group_players(common["players"])
        if not isinstance(gates, dict) or list(gates) != list(groups):
            raise HeadwiseError(f"{source}: 'gates' must be an object with the same sites as 'shape', in its order")
        for site, values in gates.items():
            if not isinstance(values, list) or len(values) != len(groups[site]) or not all(map(_is_number, values)):
                raise HeadwiseError(f"{source}: 'gates', {site!r}: expected a list of {len(groups[site])} numbers")
        return cls(gates=tuple(value for values in gates.values() for value in values), **common)


#: A mask of either kind.
AnyMask = HeadMask | SoftMask


def load_mask(path: str | os.PathLike[str]) -> AnyMask:
    """Read a mask file of either kind: a `HeadMask` or a `SoftMask`.

    Raises:
        HeadwiseError: The file is missing or not a mask. The message names the file and the field.
    """
    kinds: dict[str, type[HeadMask] | type[SoftMask]] = {HeadMask.form: HeadMask, SoftMask.form: SoftMask}
    data = read_json(path, kinds, PlayerMask.version)
    return kinds[data["format"]].from_dict(data, source=str(path))


def _is_number(value: object) -> bool:
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < _LARGEST)
