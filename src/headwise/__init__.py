"""headwise: find the attention heads that hurt a language, prove it, remove them, see what the others do."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwise.errors import HeadwiseError
    from headwise.gates import gated
    from headwise.heads import HeadMap, Site, find_heads
    from headwise.masks import HeadMask
    from headwise.pruning import LanguageMasks, fold, load_pruned, save_pruned, shrink
    from headwise.scores import HeadScores, Provenance
else:
    # Each name brings its module when it is first used: torch takes seconds, in which the command line must already
    # know what to do on Ctrl-C.
    _HOMES = {
        "HeadwiseError": "errors",
        "gated": "gates",
        **dict.fromkeys(("HeadMap", "Site", "find_heads"), "heads"),
        "HeadMask": "masks",
        **dict.fromkeys(("LanguageMasks", "fold", "load_pruned", "save_pruned", "shrink"), "pruning"),
        **dict.fromkeys(("HeadScores", "Provenance"), "scores"),
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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
