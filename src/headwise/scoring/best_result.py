"""The result of comparing kinds of masks."""

from dataclasses import dataclass
from typing import Any, Literal

from headwise.soft_masks import AnyMask, SoftMask

#: Kinds of masks that are compared with no mask. The first ones win ties.
Kind = Literal["harmful", "likely", "lowest", "refined", "pooled", "soft"]


@dataclass(frozen=True)
class Candidate:
    """A kind of mask that was compared.

    Attributes:
        kind: The kind.
        gain: Its gain in points of the metric, on examples that its masks were made without.
        dropped: Whether it was so far behind after half of the folds that it was not compared on the others.
    """

    kind: Kind
    gain: float
    dropped: bool = False


@dataclass(frozen=True)
class BestMask:
    """The best mask of a language.

    Attributes:
        language: The language.
        chosen: The kind that was chosen, or `none`.
        mask: The mask, made from all examples; all heads are on if `none` was chosen.
        metric: Name of the metric of the gains.
        gain: The expected gain in points of the metric; 0 for `none`.
        low: Lower end of its 95% interval.
        high: Upper end.
        chance_of_loss: The probability that the mask makes the metric worse; 0 for `none`.
        candidates: The gains of all kinds. The highest one is too high on average, which `gain` is corrected for.
        examples: Number of examples.
        units: Cost of the comparison in units, including what was done in earlier calls.

    Example:
        >>> from headwise import HeadMask
        >>> mask = HeadMask(("encoder.0.0", "encoder.0.1"), (True, False), language="zh")
        >>> best = BestMask("zh", "likely", mask, "accuracy", 1.5, 0.25, 2.75, 0.009,
        ...                 (Candidate("harmful", 0.75), Candidate("likely", 1.75)), 500, 9000.0)
        >>> print(best)
        zh: likely, 1 of 2 heads off
        Expected gain in accuracy: +1.50 (95% interval +0.25 to +2.75), chance of a loss 0.9%.
        Gains on 500 examples, each under masks made without it: harmful +0.75, likely +1.75.
        Cost: 9,000 units.
    """

    language: str
    chosen: Kind | Literal["none"]
    mask: AnyMask
    metric: str
    gain: float
    low: float
    high: float
    chance_of_loss: float
    candidates: tuple[Candidate, ...]
    examples: int
    units: float

    def __str__(self) -> str:
        kinds = ", ".join(f"{each.kind} {each.gain:+.2f}{' (half)' * each.dropped}" for each in self.candidates)
        lines = [
            f"{self.language}: {self.chosen}, {self._change()}",
            f"Expected gain in {self.metric}: {self.gain:+.2f} (95% interval {self.low:+.2f} to {self.high:+.2f}), "
            f"chance of a loss {self.chance_of_loss:.1%}.",
            f"Gains on {self.examples} examples, each under masks made without it: {kinds}.",
            f"Cost: {self.units:,.0f} units.",
        ]
        if self.chosen == "none":
            lines[1] = f"No mask is likely enough to improve {self.metric}."
        return "\n".join(lines)

    def _change(self) -> str:
        if isinstance(self.mask, SoftMask):
            return f"gates from {min(self.mask.gates):.2f} to {max(self.mask.gates):.2f}"
        return f"{len(self.mask.off)} of {len(self.mask.players)} {self.mask.kind} off"

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON, without the mask."""
        fields = ("language", "chosen", "metric", "gain", "low", "high", "chance_of_loss", "examples", "units")
        found: dict[str, Any] = {name: getattr(self, name) for name in fields}
        gains = {each.kind: each.gain for each in self.candidates}
        return {**found, "candidates": gains, "removed": len(self.mask.off)}
