"""Where a model is: files in a folder or on the hub, the config there, and the class that it names."""

import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.utils.hub import cached_file

from headwise.errors import HeadwiseError
from headwise.pooling import find_class
from headwise.pruning.card import is_hub_name

NameOrPath = str | os.PathLike[str]


def find_file(name_or_path: NameOrPath, file: str) -> Path | None:
    """A file of a folder or of a model on the hub; None if it is not there or the hub cannot be asked."""
    if not Path(name_or_path).is_dir() and not is_hub_name(str(name_or_path)):
        return None
    try:
        found = cached_file(str(name_or_path), file, _raise_exceptions_for_missing_entries=False)
    except OSError:
        return None
    return None if found is None else Path(found)


def load_config(name_or_path: NameOrPath, trust_remote_code: bool, **kwargs: Any) -> Any:
    """The config of a model.

    Raises:
        HeadwiseError: There is no such model, or its config cannot be read.
    """
    folder = Path(name_or_path)
    if not folder.is_dir() and not is_hub_name(str(name_or_path)):
        raise HeadwiseError(f"{name_or_path}: no such folder")
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise HeadwiseError(f"{name_or_path}: no model there: the folder has no config.json")
    try:
        return AutoConfig.from_pretrained(name_or_path, trust_remote_code=trust_remote_code, **kwargs)
    except (OSError, ValueError) as error:
        raise HeadwiseError(f"{name_or_path}: no model there: {first_line(error)}") from None


def class_of(config: Any) -> Any:
    """The class that the config names, or the bare model."""
    classes = (find_class(name) for name in config.architectures or ())
    return next((cls for cls in classes if cls is not None), AutoModel)


def build_skeleton(cls: Any, config: Any, trust_remote_code: bool) -> Any:
    """A model's modules without weights."""
    with torch.device("meta"):
        if issubclass(cls, PreTrainedModel):
            return cls(config)
        return cls.from_config(config, trust_remote_code=trust_remote_code)


def first_line(error: Exception) -> str:
    """The first line of an error's message: the others are advice to programmers."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
