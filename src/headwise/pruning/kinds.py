"""What a pruned model can be written as."""

from enum import StrEnum


class ExportKind(StrEnum):
    """What `export` writes."""

    mask = "mask"
    folded = "folded"
    shrunk = "shrunk"
