"""Making a mask real: cut, folded, saved, or many of them on one model."""

from headwise.pruning.checkpoint import is_pruned, load_pruned, save_pruned
from headwise.pruning.export import Exported, ExportKind, export
from headwise.pruning.languages import LanguageMasks
from headwise.pruning.shrink import fold, shrink

__all__ = [
    "ExportKind",
    "Exported",
    "LanguageMasks",
    "export",
    "fold",
    "is_pruned",
    "load_pruned",
    "save_pruned",
    "shrink",
]
