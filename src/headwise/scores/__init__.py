"""Scores of players: values with their uncertainty, rules that turn them into masks, tables, comparisons."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.scores.borrowing import shrink_to_mean
    from headwise.scores.head_scores import (
        FORMAT,
        VERSION,
        Comparison,
        HeadScores,
        Stability,
        number,
        stability,
    )
    from headwise.scores.provenance import Provenance
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "borrowing": ("shrink_to_mean",),
            "head_scores": ("FORMAT", "VERSION", "Comparison", "HeadScores", "Stability", "number", "stability"),
            "provenance": ("Provenance",),
        },
    )  # fmt: skip

__all__ = [
    "FORMAT",
    "VERSION",
    "Comparison",
    "HeadScores",
    "Provenance",
    "Stability",
    "number",
    "shrink_to_mean",
    "stability",
]
