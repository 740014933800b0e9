"""Loading models: the hub, local folders, pruned checkpoints."""

from headwise.models.classifiers import add_head
from headwise.models.defaults import default_names, is_default
from headwise.models.device import DEVICES, DTYPES, choose_device, choose_dtype
from headwise.models.loading import load_model, load_skeleton, load_tokenizer

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
