"""Loading a model by name: from the hub, a local folder, or a folder that headwise pruned."""

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils.hub import cached_file

from headwise.errors import HeadwiseError
from headwise.models.defaults import is_default, load_default
from headwise.models.e5 import e5_small_folder
from headwise.pooling import find_class
from headwise.pruning import is_pruned, load_pruned
from headwise.pruning.card import is_hub_name
from headwise.pruning.checkpoint import MANIFEST


def load_model(name_or_path: str | os.PathLike[str], trust_remote_code: bool = False, **kwargs: Any) -> Any:
    """Load a model with the task head that its config names.

    Args:
        name_or_path: A hub name, a local folder, a folder of `save_pruned`, or one of `default_names()`.
        trust_remote_code: Run code that comes with the model. Off unless you know whose it is.
        kwargs: Passed to `from_pretrained`, or to `load_pruned`.

    Returns:
        The model in evaluation mode.

    Raises:
        HeadwiseError: There is no such model, or it cannot be read.
    """
    if is_default(name_or_path):
        return load_default(str(name_or_path))
    if _is_pruned_anywhere(name_or_path):
        return load_pruned(name_or_path, **kwargs)
    config = _load_config(name_or_path, trust_remote_code)
    try:
        model = _class_of(config).from_pretrained(name_or_path, trust_remote_code=trust_remote_code, **kwargs)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise HeadwiseError(f"{name_or_path}: cannot be loaded: {_first_line(error)}") from None
    return model.eval()


def load_skeleton(name_or_path: str | os.PathLike[str], trust_remote_code: bool = False) -> Any:
    """The model's modules without weights: enough to see its heads, at no cost."""
    if is_default(name_or_path):
        return load_default(str(name_or_path))
    if _is_pruned_anywhere(name_or_path):
        return load_pruned(name_or_path)
    config = _load_config(name_or_path, trust_remote_code)
    cls = _class_of(config)
    with torch.device("meta"):
        return cls.from_config(config, trust_remote_code=trust_remote_code) if cls is AutoModel else cls(config)


def load_tokenizer(name_or_path: str | os.PathLike[str], trust_remote_code: bool = False) -> Any:
    """The model's tokenizer, None if it comes without one."""
    if is_default(name_or_path):
        name_or_path = e5_small_folder()
    if not any(_has_file(name_or_path, name) for name in ("tokenizer_config.json", "tokenizer.json")):
        return None
    try:
        return AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, ImportError) as error:
        raise HeadwiseError(f"{name_or_path}: its tokenizer cannot be loaded: {_first_line(error)}") from None


def _has_file(name_or_path: str | os.PathLike[str], file: str) -> bool:
    """Whether a folder, or a model on the hub, has a file."""
    return cached_file(str(name_or_path), file, _raise_exceptions_for_missing_entries=False) is not None


def _is_pruned_anywhere(name_or_path: str | os.PathLike[str]) -> bool:
    if Path(name_or_path).is_dir() or not is_hub_name(str(name_or_path)):
        return is_pruned(name_or_path)
    try:
        return _has_file(name_or_path, MANIFEST)
    except OSError:
        return False


def _load_config(name_or_path: str | os.PathLike[str], trust_remote_code: bool) -> Any:
    folder = Path(name_or_path)
    if not folder.is_dir() and not is_hub_name(str(name_or_path)):
        raise HeadwiseError(f"{name_or_path}: no such folder")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise HeadwiseError(f"{name_or_path}: no model there: the folder has no config.json")
    try:
        return AutoConfig.from_pretrained(name_or_path, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise HeadwiseError(f"{name_or_path}: no model there: {_first_line(error)}") from None


def _class_of(config: Any) -> Any:
    """The class that the config names, or the bare model."""
    classes = (find_class(name) for name in config.architectures or ())
    return next((cls for cls in classes if cls is not None), AutoModel)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
