"""What a method found out about every player: values, how sure they are, and where they come from."""

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.files import read_json, write_json
from headwise.heads import Players
from headwise.stats.multiple import Decision

_FORMAT = "headwise-scores"
_VERSION = 1


@dataclass(frozen=True)
class Provenance:
    """Where scores come from: enough to repeat them and to see what they may be compared with.

    Attributes:
        method: Name of the method.
        estimand: What it estimates, such as `full` or `truncated(0.5)`.
        language: Language of the examples.
        seed: Seed of its draws.
        units: What it cost, in passes of one example through the whole model.
        error_rate: Chance of any wrong decision that the decisions allow for.
        model: Name of the model.
        fingerprint: Fingerprint of its attention weights.
        data: Fingerprint of the examples.
        versions: Versions of the libraries involved.
    """

    method: str
    estimand: str
    language: str | None = None
    seed: int | None = None
    units: float = 0.0
    error_rate: float | None = None
    model: str = ""
    fingerprint: str | None = None
    data: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HeadScores:
    """One score per player.

    Attributes:
        players: The players, in the model's order.
        value: Score of each: for signed methods, what the player adds to the task.
        stderr: Standard error of each value (NaN where the method gives none).
        count: Samples behind each value.
        decision: Whether each is harmful, helpful or undecided.
        provenance: Where the scores come from.
        kind: What the players are.
    """

    players: tuple[str, ...]
    value: tuple[float, ...]
    stderr: tuple[float, ...]
    count: tuple[int, ...]
    decision: tuple[Decision, ...]
    provenance: Provenance
    kind: Players = "heads"

    def __post_init__(self) -> None:
        sizes = {name: len(getattr(self, name)) for name in ("players", "value", "stderr", "count", "decision")}
        if len(set(sizes.values())) > 1:
            raise HeadwiseError(f"scores need one entry per player everywhere, found {sizes}")
        if wrong := set(self.decision) - set(get_args(Decision)):
            raise HeadwiseError(f"a decision is one of {', '.join(get_args(Decision))}, not {sorted(wrong)[0]!r}")

    def values(self) -> NDArray[np.float64]:
        """The values as an array, (players,)."""
        return np.array(self.value, dtype=np.float64)

    def decided(self, decision: Decision) -> tuple[str, ...]:
        """The names of the players with that decision."""
        return tuple(name for name, found in zip(self.players, self.decision, strict=True) if found == decision)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores as JSON, atomically."""
        rows = [
            {"player": name, "value": _number(value), "stderr": _number(stderr), "count": int(n), "decision": d}
            for name, value, stderr, n, d in zip(
                self.players, self.value, self.stderr, self.count, self.decision, strict=True
            )
        ]
        provenance = dataclasses.asdict(self.provenance)
        write_json(
            path, {"format": _FORMAT, "version": _VERSION, "players": self.kind, "provenance": provenance, "rows": rows}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HeadScores":
        """Read scores that `save` wrote.

        Raises:
            HeadwiseError: The file is missing or not a file of scores; the message names it and the field.
        """
        data = read_json(path, _FORMAT, _VERSION)
        try:
            return cls._from_dict(data)
        except (KeyError, TypeError, ValueError) as error:
            raise HeadwiseError(f"{path}: not a complete file of scores: {error!r}") from None

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> "HeadScores":
        rows = data["rows"]
        if data["players"] not in get_args(Players):
            raise ValueError(f"players = {data['players']!r}")
        return cls(
            players=tuple(str(row["player"]) for row in rows),
            value=tuple(_read_number(row["value"]) for row in rows),
            stderr=tuple(_read_number(row["stderr"]) for row in rows),
            count=tuple(int(row["count"]) for row in rows),
            decision=tuple(cast(Decision, row["decision"]) for row in rows),
            provenance=Provenance(**data["provenance"]),
            kind=data["players"],
        )


def _number(value: float) -> float | str | None:
    """A number as JSON can hold it: NaN is null, the infinities are words."""
    value = float(value)
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def _read_number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
