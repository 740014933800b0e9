"""The figures and tables that can be made of a run."""

from enum import StrEnum


class FigureKind(StrEnum):
    """What a figure or table shows."""

    maps = "maps"
    gains = "gains"
    curves = "curves"
    likeness = "likeness"
    layers = "layers"
    paths = "paths"
    roles = "roles"
