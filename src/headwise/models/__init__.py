"""Loading models: the hub, local folders, pruned checkpoints."""

from typing import TYPE_CHECKING

from headwise.lazy import lazy_names
from headwise.models.defaults import default_names, is_default

if TYPE_CHECKING:
    from headwise.models.classifiers import add_head
    from headwise.models.loading import load_model, load_skeleton, load_tokenizer
else:
    __getattr__ = lazy_names(
        __name__, {"classifiers": ("add_head",), "loading": ("load_model", "load_skeleton", "load_tokenizer")}
    )

__all__ = ["add_head", "default_names", "is_default", "load_model", "load_skeleton", "load_tokenizer"]
