"""Scores of players: values with their uncertainty, rules that turn them into masks, tables, comparisons."""

from headwise.scores.head_scores import (
    FORMAT,
    VERSION,
    Comparison,
    HeadScores,
    Provenance,
    Stability,
    number,
    stability,
)

__all__ = ["FORMAT", "VERSION", "Comparison", "HeadScores", "Provenance", "Stability", "number", "stability"]
