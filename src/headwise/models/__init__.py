"""Loading models: the hub, local folders, pruned checkpoints."""

from typing import TYPE_CHECKING

from headwise.models.defaults import default_names, is_default
from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.models.classifiers import add_head
    from headwise.models.device import DEVICES, DTYPES, choose_device, choose_dtype
    from headwise.models.loading import load_model, load_skeleton, load_tokenizer
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "classifiers": ("add_head",),
            "device": ("DEVICES", "DTYPES", "choose_device", "choose_dtype"),
            "loading": ("load_model", "load_skeleton", "load_tokenizer"),
        },
    )

__all__ = [
    "DEVICES",
    "DTYPES",
    "add_head",
    "choose_device",
    "choose_dtype",
    "default_names",
    "is_default",
    "load_model",
    "load_skeleton",
    "load_tokenizer",
]
