"""Apply masks to a model: cut out, fold and save heads, or use many masks on one model."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.pruning.checkpoint import is_pruned, load_pruned, save_pruned
    from headwise.pruning.cutting import fold, shrink
    from headwise.pruning.exporting import Exported, export
    from headwise.pruning.kinds import ExportKind
    from headwise.pruning.languages import LanguageMasks
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "checkpoint": ("is_pruned", "load_pruned", "save_pruned"),
            "exporting": ("Exported", "export"),
            "kinds": ("ExportKind",),
            "languages": ("LanguageMasks",),
            "cutting": ("fold", "shrink"),
        },
    )

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
