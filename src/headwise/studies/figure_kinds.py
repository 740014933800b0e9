"""The figures that can be drawn of a run."""

from enum import StrEnum


class FigureKind(StrEnum):
    """What a figure shows."""

    maps = "maps"
    gains = "gains"
    curves = "curves"
    likeness = "likeness"
