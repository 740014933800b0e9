"""headwise: find the attention heads that hurt a language, prove it, remove them, see what the others do."""

from headwise.errors import HeadwiseError
from headwise.gates import gated
from headwise.heads import HeadMap, Site, find_heads
from headwise.masks import HeadMask
from headwise.pruning import LanguageMasks, fold, load_pruned, save_pruned, shrink
from headwise.scores import HeadScores, Provenance

__version__ = "0.1.0"

__all__ = [
    "HeadMap",
    "HeadMask",
    "HeadScores",
    "HeadwiseError",
    "LanguageMasks",
    "Provenance",
    "Site",
    "find_heads",
    "fold",
    "gated",
    "load_pruned",
    "save_pruned",
    "shrink",
]
