"""Where scores come from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Types of fields of `Provenance` in a file.
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("method", "estimand", "game", "confidence", "model", "baseline"), str),
    **{"units": int | float, "versions": Mapping, "version": int},
}


@dataclass(frozen=True)
class Provenance:
    """Where scores come from: what is needed to reproduce them and to check whether scores are comparable.

    Attributes:
        method: Name of the method.
        estimand: The quantity that is estimated, such as `full` or `truncated(0.5)`.
        game: The value of a coalition, such as `probability`.
        language: Language of the examples.
        seed: Seed of the random draws.
        units: Cost, in passes of one example through the whole model.
        error_rate: Maximum probability of any wrong decision.
        confidence: Kind of bounds that the decisions use, such as `betting`.
        model: Name of the model.
        fingerprint: Fingerprint of its attention weights.
        data: Fingerprint of the examples.
        versions: Versions of the libraries involved.
        version: Version of the method.
        signed: Whether a value below 0 means that the player hurts.
        unbiased: Whether values are estimates of the estimand without bias.
        baseline: What replaces the output of a player that is off: `zero`, or `mean` (its mean output).
        borrowed: The other languages that values and decisions depend on (see `shrink_to_mean`); empty for none.
    """

    method: str
    estimand: str
    game: str = ""
    language: str | None = None
    seed: int | None = None
    units: float = 0.0
    error_rate: float | None = None
    confidence: str = ""
    model: str = ""
    fingerprint: str | None = None
    data: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    version: int = 1
    signed: bool = True
    unbiased: bool = True
    baseline: str = "zero"
    borrowed: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Provenance":
        """The provenance that `dataclasses.asdict` described."""
        if not isinstance(data, Mapping):
            raise ValueError(f"provenance = {data!r}")
        # Older files lack `signed` and `unbiased`. In them, a `confidence` that starts with "none: " marks a method
        # that is neither.
        fit = not str(data.get("confidence", "")).startswith("none: ")
        for name, kind in _TYPES.items():
            if name in data and (not isinstance(data[name], kind) or isinstance(data[name], bool)):
                raise ValueError(f"{name} = {data[name]!r}")
        if not math.isfinite(data.get("units", 0.0)):
            raise ValueError(f"units = {data['units']}")
        return cls(**{"signed": fit, "unbiased": fit, **data, "borrowed": tuple(data.get("borrowed", ()))})
