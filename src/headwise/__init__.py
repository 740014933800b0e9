"""headwise: find the attention heads that hurt a language, prove it, remove them, see what the others do.

The main job in six lines:

    import headwise as hw

    model, tokenizer = hw.load("e5-small-pos")
    data = hw.open_dataset("phrasebook", task="pos")
    scores = hw.score(model, tokenizer, data, languages=["zh", "tr"], budget=6_000)
    small = hw.shrink(model, scores["zh"].mask("likely"))
    print(hw.evaluate(small, tokenizer, data, languages=["zh"]))
"""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.api import best_mask, evaluate, learn_gates, load, mean_outputs, refine, repair, safe_mask, score
    from headwise.attention.view import attention
    from headwise.data.catalog import open_dataset
    from headwise.data.own import dataset
    from headwise.data.treebanks import open_treebank
    from headwise.errors import CheckpointError, HeadwiseError, MaskMismatchError, UnknownFamilyError
    from headwise.explorer.server import explore
    from headwise.gates import gated
    from headwise.heads import HeadMap, Site, find_heads
    from headwise.masks import HeadMask
    from headwise.means import MeanOutputs
    from headwise.pruning import LanguageMasks, fold, load_pruned, save_pruned, shrink
    from headwise.roles.run import roles
    from headwise.scores import HeadScores, Provenance, shrink_to_mean
    from headwise.soft_masks import SoftMask, load_mask
    from headwise.tuning import tune
else:
    # Each name imports its module when it is first used: torch takes seconds to import.
    __getattr__ = lazy_names(
        __name__,
        {
            "api": (
                "best_mask",
                "evaluate",
                "learn_gates",
                "load",
                "mean_outputs",
                "refine",
                "repair",
                "safe_mask",
                "score",
            ),
            "attention.view": ("attention",),
            "data.catalog": ("open_dataset",),
            "data.own": ("dataset",),
            "data.treebanks": ("open_treebank",),
            "errors": ("CheckpointError", "HeadwiseError", "MaskMismatchError", "UnknownFamilyError"),
            "explorer.server": ("explore",),
            "gates": ("gated",),
            "heads": ("HeadMap", "Site", "find_heads"),
            "masks": ("HeadMask",),
            "means": ("MeanOutputs",),
            "pruning": ("LanguageMasks", "fold", "load_pruned", "save_pruned", "shrink"),
            "roles.run": ("roles",),
            "scores": ("HeadScores", "Provenance", "shrink_to_mean"),
            "soft_masks": ("SoftMask", "load_mask"),
            "tuning": ("tune",),
        },
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "HeadMap",
    "HeadMask",
    "HeadScores",
    "HeadwiseError",
    "LanguageMasks",
    "MaskMismatchError",
    "MeanOutputs",
    "Provenance",
    "Site",
    "SoftMask",
    "UnknownFamilyError",
    "attention",
    "best_mask",
    "dataset",
    "evaluate",
    "explore",
    "find_heads",
    "fold",
    "gated",
    "learn_gates",
    "load",
    "load_mask",
    "load_pruned",
    "mean_outputs",
    "open_dataset",
    "open_treebank",
    "refine",
    "repair",
    "roles",
    "safe_mask",
    "save_pruned",
    "score",
    "shrink",
    "shrink_to_mean",
    "tune",
]
