"""Find the files of a model in a folder or on the hub, its config, and its class."""

import os
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.utils.hub import cached_file

from headwise.architectures import check_layer_counts
from headwise.errors import HeadwiseError
from headwise.files import is_folder
from headwise.pooling import find_class
from headwise.pruning.card import is_hub_name

NameOrPath = str | os.PathLike[str]


def find_file(name_or_path: NameOrPath, file: str) -> Path | None:
    """The path of a file in a folder or of a model on the hub; None if it does not exist.

    Raises:
        HeadwiseError: The hub cannot be reached, and no file of the model is in the cache.
    """
    name = str(name_or_path)
    if not is_folder(name):
        if not is_hub_name(name):
            return None
        try:
            get_hf_file_metadata(hf_hub_url(name, file))
        except (EntryNotFoundError, RepositoryNotFoundError, HFValidationError):
            return None
        except Exception as error:  # depends on the HTTP library that huggingface_hub uses
            return _kept_file(name, file, error)
    try:
        found = cached_file(name, file, _raise_exceptions_for_missing_entries=False)
    except OSError:
        return None
    return None if found is None else Path(found)


def _kept_file(name: str, file: str, error: Exception) -> Path | None:
    """A file in the cache, for when the hub cannot be reached: avoids another request for every file."""
    kept = {each: try_to_load_from_cache(name, each) for each in (file, "config.json", "adapter_config.json")}
    if not any(isinstance(found, str) for found in kept.values()):
        raise HeadwiseError(
            f"{name}: neither a folder nor a model in the cache, and the hub cannot be reached "
            f"({first_line(error).rstrip('.')}): check the name and the network"
        ) from None
    found = kept[file]
    return Path(found) if isinstance(found, str) else None


def load_config(name_or_path: NameOrPath, trust_remote_code: bool, **kwargs: Any) -> Any:
    """The config of a model.

    Raises:
        HeadwiseError: The model does not exist, or its config cannot be read.
    """
    if not is_folder(name_or_path) and not is_hub_name(str(name_or_path)):
        raise HeadwiseError(f"{name_or_path}: no such folder")
    if find_file(name_or_path, "config.json") is None and is_folder(name_or_path):
        raise HeadwiseError(f"{name_or_path}: not a model: the folder has no config.json")
    try:
        config = AutoConfig.from_pretrained(name_or_path, trust_remote_code=trust_remote_code, **kwargs)
        check_layer_counts(config)
    except Exception as error:  # a damaged config can fail anywhere in transformers
        raise HeadwiseError(f"{name_or_path}: not a model: {first_line(error)}") from error
    if not isinstance(config.architectures, list | tuple | None):
        raise HeadwiseError(f"{name_or_path}: not a model: 'architectures' in its config.json is not a list of names")
    return config


def class_of(config: Any) -> Any:
    """The class that the config names, or the bare model."""
    classes = (find_class(name) for name in config.architectures or () if isinstance(name, str))
    return next((cls for cls in classes if cls is not None), AutoModel)


def build_skeleton(cls: Any, config: Any, trust_remote_code: bool) -> Any:
    """A model's modules without weights.

    Raises:
        HeadwiseError: No model can be built from the config.
    """
    try:
        with torch.device("meta"):
            if issubclass(cls, PreTrainedModel):
                return cls(config)
            return cls.from_config(config, trust_remote_code=trust_remote_code)
    except Exception as error:  # a damaged config can fail anywhere in transformers
        raise HeadwiseError(
            f"{config.name_or_path}: no model can be built from its config.json: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    """The first line of an error message; the other lines are advice for developers."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
