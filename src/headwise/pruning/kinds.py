"""The formats in which a pruned model can be written."""

from enum import StrEnum


class ExportKind(StrEnum):
    """What `export` writes."""

    mask = "mask"
    folded = "folded"
    shrunk = "shrunk"
