"""Masks: the set of players that are on, with the model it belongs to, saved as a small JSON file."""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast, get_args

import torch
from torch import Tensor

from headwise.errors import HeadwiseError, MaskMismatchError
from headwise.files import read_json, write_json
from headwise.heads import HeadMap, PlayerKind
from headwise.support.display import html_grid, shorten

#: Largest number of heads of a site, or blocks of a stack, that a file may give as a count.
_MOST = 10_000


class PlayerMask:
    """What hard masks (`HeadMask`) and soft masks (`SoftMask`) share: the model that they belong to, and their files.

    Subclasses are frozen dataclasses with these fields and their own values.
    """

    form: ClassVar[str]
    version: ClassVar[int] = 1

    players: tuple[str, ...]
    kind: PlayerKind
    model: str
    fingerprint: str | None
    language: str | None

    def check(self, heads: HeadMap) -> None:
        """Check that the mask belongs to a model.

        Raises:
            MaskMismatchError: The model has other players or other weights.
        """
        self._require(heads.players(self.kind), self.kind, heads.fingerprint, heads.model)

    def moved_to(self, heads: HeadMap) -> Self:
        """The same values for another model with the same players.

        Use this to apply a mask found on one checkpoint to another: the pre-trained model that a tuned model
        started from, or a model tuned further.
        """
        free = self._replace(fingerprint=None)
        free.check(heads)
        return free._replace(model=heads.model, fingerprint=heads.fingerprint)

    def _replace(self, **changes: Any) -> Self:
        return cast(Self, dataclasses.replace(cast(Any, self), **changes))

    def _require(self, players: tuple[str, ...], kind: PlayerKind, fingerprint: str | None, model: str) -> None:
        if self.kind != kind or self.players != players:
            raise MaskMismatchError(
                f"the mask is for {self.model or 'a model'} with {describe_shape(self.players)} ({self.kind}), "
                f"but {model or 'the other'} has {describe_shape(players)} ({kind})"
            )
        if None not in (self.fingerprint, fingerprint) and self.fingerprint != fingerprint:
            raise MaskMismatchError(
                f"the mask is for the weights {self.fingerprint} ({self.model}), but {model} has the weights "
                f"{fingerprint}: use mask.moved_to(find_heads(model)), or --other-weights, if that is what you want"
            )

    def _merged(self, other: "PlayerMask", **values: Any) -> Self:
        """This mask with new values that also depend on another mask of the same model."""
        self._require(other.players, other.kind, other.fingerprint, other.model)
        language = self.language if self.language == other.language else None
        return self._replace(language=language, fingerprint=self.fingerprint or other.fingerprint, **values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the mask as JSON, atomically."""
        write_json(path, {"format": self.form, "version": self.version, **self.to_dict()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a mask that `save` wrote, or one written by hand.

        Raises:
            HeadwiseError: The file is missing or not a mask of this kind. The message names the file and the field.
        """
        return cls.from_dict(read_json(path, cls.form, cls.version), source=str(path))

    def to_dict(self) -> dict[str, Any]:
        """The mask as plain data: `shape` has each site's heads (or their number)."""
        return {
            "players": self.kind,
            "model": self.model,
            "fingerprint": self.fingerprint,
            "language": self.language,
            "shape": {site: _compact(indices) for site, indices in group_players(self.players).items()},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "mask") -> Self:
        """Create a mask from the data of `to_dict`."""
        raise NotImplementedError

    @staticmethod
    def _read_common(data: Mapping[str, Any], source: str) -> dict[str, Any]:
        """The fields that all masks have, from the data of `to_dict`."""
        kind = data.get("players")
        if kind not in get_args(PlayerKind):
            raise HeadwiseError(f"{source}: 'players' must be one of {', '.join(get_args(PlayerKind))}, not {kind!r}")
        for field in ("fingerprint", "language"):
            if not isinstance(data.get(field), str | None):
                raise HeadwiseError(f"{source}: {field!r} must be text or null, not {data[field]!r}")
        return {
            "players": ungroup_players(data.get("shape"), f"{source}: 'shape'"),
            "kind": kind,
            "model": str(data.get("model") or ""),
            "fingerprint": data.get("fingerprint"),
            "language": data.get("language"),
        }


@dataclass(frozen=True, repr=False)
class HeadMask(PlayerMask):
    """A set of heads (or feed-forward blocks, or layers) that are on.

    Operators treat masks as sets of the players that are on: `a & b` is the intersection, `a | b` the union,
    `a - b` the difference and `~a` the complement.

    Attributes:
        players: Every player of the model, in the model's order.
        on: For each player, whether it is on.
        kind: What the players are.
        model: Display name of the model.
        fingerprint: Fingerprint of the weights that the mask belongs to; None fits any weights of this shape.
        language: The language that the mask was made for, if any.

    Example:
        >>> mask = HeadMask(("encoder.0.0", "encoder.0.1"), (True, False))
        >>> mask
        HeadMask(1 of 2 heads off: encoder.0.1)
        >>> mask.off, mask.count
        (('encoder.0.1',), 1)
    """

    form: ClassVar[str] = "headwise-mask"

    players: tuple[str, ...]
    on: tuple[bool, ...]
    kind: PlayerKind = "heads"
    model: str = ""
    fingerprint: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if len(self.players) != len(self.on):
            raise HeadwiseError(
                f"a mask needs one value per player: {len(self.players)} players, {len(self.on)} values"
            )

    @classmethod
    def full(cls, heads: HeadMap, kind: PlayerKind = "heads", language: str | None = None) -> "HeadMask":
        """The mask of a model with everything on."""
        players = heads.players(kind)
        return cls(players, (True,) * len(players), kind, heads.model, heads.fingerprint, language)

    @classmethod
    def without(
        cls, heads: HeadMap, off: Iterable[str], kind: PlayerKind = "heads", language: str | None = None
    ) -> "HeadMask":
        """The mask of a model with the named players off and all others on.

        Raises:
            HeadwiseError: A name is not one of the model's players.
        """
        removed = {off} if isinstance(off, str) else set(off)
        full = cls.full(heads, kind, language)
        if unknown := sorted(removed - set(full.players)):
            raise HeadwiseError(f"{heads.model} has no player {unknown[0]!r}: it has {describe_shape(full.players)}")
        return dataclasses.replace(full, on=tuple(name not in removed for name in full.players))

    def __repr__(self) -> str:
        about = ", ".join(each for each in (self.model, self.language) if each)
        names = f": {shorten(self.off)}" if self.off else ""
        return (
            f"HeadMask({len(self.off)} of {len(self.players)} {self.kind} off{f' ({about})' if about else ''}{names})"
        )

    def _repr_html_(self) -> str:
        """One square per player, dark if it is off, for notebooks."""
        colours = ["#56b4e9" if on else "#222" for on in self.on]
        tips = [f"{name}: {'on' if on else 'off'}" for name, on in zip(self.players, self.on, strict=True)]
        return html_grid(repr(self), self.players, colours, tips)

    @property
    def off(self) -> tuple[str, ...]:
        """The names of the players that are off."""
        return tuple(name for name, on in zip(self.players, self.on, strict=True) if not on)

    @property
    def count(self) -> int:
        """Number of players that are on."""
        return sum(self.on)

    def tensor(self) -> Tensor:
        """The mask as booleans, (players,)."""
        return torch.tensor(self.on, dtype=torch.bool)

    def __and__(self, other: "HeadMask") -> "HeadMask":
        return self._combine(other, [a and b for a, b in zip(self.on, other.on, strict=False)])

    def __or__(self, other: "HeadMask") -> "HeadMask":
        return self._combine(other, [a or b for a, b in zip(self.on, other.on, strict=False)])

    def __sub__(self, other: "HeadMask") -> "HeadMask":
        return self._combine(other, [a and not b for a, b in zip(self.on, other.on, strict=False)])

    def __invert__(self) -> "HeadMask":
        return dataclasses.replace(self, on=tuple(not on for on in self.on))

    def _combine(self, other: "HeadMask", on: list[bool]) -> "HeadMask":
        return self._merged(other, on=tuple(on))

    def to_dict(self) -> dict[str, Any]:
        """The mask as plain data: `shape` has each site's heads (or their number), `off` those that are off."""
        return {**super().to_dict(), "off": group_players(self.off)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], source: str = "mask") -> "HeadMask":
        """Create a mask from the data of `to_dict`."""
        common = cls._read_common(data, source)
        off = set(ungroup_players(data.get("off"), f"{source}: 'off'", counts=False))
        if unknown := sorted(off - set(common["players"])):
            raise HeadwiseError(f"{source}: 'off' names {unknown[0]}, which 'shape' does not have")
        return cls(on=tuple(name not in off for name in common["players"]), **common)


def group_players(players: Iterable[str]) -> dict[str, list[int]]:
    """Player names by site: `encoder.5.4` becomes `{"encoder.5": [4]}`."""
    groups: dict[str, list[int]] = {}
    for name in players:
        site, _, index = name.rpartition(".")
        groups.setdefault(site, []).append(int(index))
    return groups


def ungroup_players(groups: Any, source: str, counts: bool = True) -> tuple[str, ...]:
    """The inverse of `group_players`; with `counts`, a site may give its number of heads instead of a list."""
    if not isinstance(groups, dict):
        raise HeadwiseError(f"{source} must be an object such as {{'encoder.0': [3, 7]}}")
    names: list[str] = []
    for site, value in groups.items():
        if counts and type(value) is int and value > _MOST:
            raise HeadwiseError(f"{source}, {site!r}: at most {_MOST} are allowed, not {value}")
        indices = list(range(value)) if counts and type(value) is int else value
        if not isinstance(indices, list) or not all(type(index) is int and index >= 0 for index in indices):
            raise HeadwiseError(f"{source}, {site!r}: expected a list of head numbers, found {value!r}")
        names.extend(f"{site}.{index}" for index in indices)
    return tuple(names)


def describe_shape(players: tuple[str, ...]) -> str:
    """A short description of players for error messages: `144 players (encoder.0.0 … encoder.11.11)`."""
    return f"{len(players)} players ({players[0]} … {players[-1]})" if players else "no players"


def _compact(indices: list[int]) -> int | list[int]:
    return len(indices) if indices == list(range(len(indices))) else indices
