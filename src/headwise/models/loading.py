"""Load a model by name: from the hub, a local folder, a PEFT adapter, or a folder of `save_pruned`."""

from typing import Any

import torch
from transformers import AutoTokenizer

from headwise.errors import HeadwiseError
from headwise.models.adapted import find_adapter, load_adapted, load_adapted_skeleton
from headwise.models.defaults import SMOLLM, is_default, load_default
from headwise.models.device import choose_device, choose_dtype
from headwise.models.e5 import e5_small_folder
from headwise.models.smollm import smollm_folder
from headwise.models.sources import NameOrPath, build_skeleton, class_of, find_file, first_line, load_config
from headwise.models.weights import load_weights
from headwise.pruning import load_pruned
from headwise.pruning.checkpoint import MANIFEST
from headwise.support.extras import require


def load_model(
    name_or_path: NameOrPath,
    trust_remote_code: bool = False,
    merge: bool = True,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    **kwargs: Any,
) -> Any:
    """Load a model with the task head that its config names.

    Args:
        name_or_path: A hub name, a local folder, a folder of `save_pruned`, a PEFT adapter (folder or hub name), or one
            of `default_names()`. The base model of an adapter is loaded with it.
        trust_remote_code: Run code that comes with the model. Use it only if you trust the author.
        merge: Merge an adapter into the weights of its base; otherwise it stays a `PeftModel`.
        device: Device of the model, as in `choose_device`; the CPU by default.
        dtype: Type of the weights, as in `choose_dtype`; the default of `from_pretrained` by default.
        kwargs: Passed to `from_pretrained`, or to `load_pruned`.

    Returns:
        The model in evaluation mode.

    Raises:
        HeadwiseError: The model, device or dtype does not exist, or the model cannot be read or has missing weights.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertForTokenClassification
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     BertForTokenClassification(config).save_pretrained(folder)
        ...     model = load_model(folder, device="cpu", dtype="bfloat16")
        >>> type(model).__name__, model.dtype
        ('BertForTokenClassification', torch.bfloat16)
    """
    place = None if device is None else choose_device(device)
    if dtype is not None:
        kwargs["dtype"] = choose_dtype(dtype)
    model = _load(name_or_path, trust_remote_code, merge, kwargs)
    return model if place is None else model.to(place)


def _load(name_or_path: NameOrPath, trust_remote_code: bool, merge: bool, kwargs: dict[str, Any]) -> Any:
    """The model in evaluation mode, on the device chosen by `from_pretrained`."""
    if is_default(name_or_path):
        return load_default(str(name_or_path), **kwargs)
    if _is_pruned(name_or_path):
        return load_pruned(name_or_path, **kwargs)
    if (adapter := find_adapter(name_or_path)) is not None:
        return load_adapted(adapter, trust_remote_code, merge, **kwargs)
    config = load_config(name_or_path, trust_remote_code)
    return load_weights(class_of(config), name_or_path, trust_remote_code=trust_remote_code, **kwargs).eval()


def load_skeleton(name_or_path: NameOrPath, trust_remote_code: bool = False) -> Any:
    """The model's modules without weights, to find its heads quickly."""
    if is_default(name_or_path):
        return load_default(str(name_or_path))
    if _is_pruned(name_or_path):
        return load_pruned(name_or_path)
    if (adapter := find_adapter(name_or_path)) is not None:
        return load_adapted_skeleton(adapter, trust_remote_code)
    config = load_config(name_or_path, trust_remote_code)
    return build_skeleton(class_of(config), config, trust_remote_code)


def load_tokenizer(name_or_path: NameOrPath, trust_remote_code: bool = False) -> Any:
    """The model's tokenizer (for an adapter without one, that of its base model); None if there is none."""
    if is_default(name_or_path):
        name_or_path = smollm_folder() if str(name_or_path) == SMOLLM else e5_small_folder()
    if not any(find_file(name_or_path, name) for name in ("tokenizer_config.json", "tokenizer.json")):
        adapter = find_adapter(name_or_path)
        return None if adapter is None else load_tokenizer(adapter.base, trust_remote_code)
    try:
        return AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=trust_remote_code)
    except Exception as error:  # a damaged file can fail anywhere in transformers
        if "sentencepiece" in str(error).lower():  # transformers replaces the import error by its own
            require("sentencepiece", "tasks", f"the tokenizer of {name_or_path}")
        raise HeadwiseError(f"{name_or_path}: its tokenizer cannot be loaded: {first_line(error)}") from None


def _is_pruned(name_or_path: NameOrPath) -> bool:
    return find_file(name_or_path, MANIFEST) is not None
