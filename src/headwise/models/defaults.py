"""Offline default models: multilingual-e5-small, and small LoRA adapters for it that are part of the package."""

import json
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.support.extras import require

#: The untuned encoder.
E5_SMALL = "e5-small"
_ADAPTERS = Path(__file__).with_name("adapters")


def default_names() -> tuple[str, ...]:
    """The names of the offline encoder and of its tuned forms.

    Example:
        >>> "e5-small" in default_names()
        True
    """
    tuned = (path.name for path in _ADAPTERS.iterdir() if (path / "adapter_config.json").is_file())
    return (E5_SMALL, *sorted(tuned))


def is_default(name: object) -> bool:
    """Whether a name is an offline default, rather than a folder or a model on the hub."""
    return str(name) in default_names() and not Path(str(name)).exists()


def default_folder_of(name: str) -> Path:
    """The folder of the untuned encoder of a default."""
    from headwise.models.e5 import e5_small_folder

    if name != E5_SMALL:
        raise HeadwiseError(f"{name} is already tuned: tune {E5_SMALL} instead")
    return e5_small_folder()


def load_default(name: str, dtype: Any = "auto", **kwargs: Any) -> Any:
    """The encoder, or one of its tuned forms with the adapter merged into its weights.

    Args:
        name: One of `default_names()`.
        dtype: The type of the weights; `auto` is float32. Adapters are merged before the weights are cast.
        kwargs: Passed to `from_pretrained`.
    """
    import torch
    from transformers import BertModel

    from headwise.models.e5 import e5_small_folder
    from headwise.models.quiet import quiet

    base = e5_small_folder()
    if name == E5_SMALL:
        with quiet():
            model = BertModel.from_pretrained(base, add_pooling_layer=False, **kwargs)
    else:
        model = _tuned(base, _ADAPTERS / name, kwargs)
    model.config.name_or_path = name
    return (model.to(dtype) if isinstance(dtype, torch.dtype) else model).eval()


def _tuned(base: Path, adapter: Path, kwargs: dict[str, Any]) -> Any:
    from headwise.models.classifiers import add_head

    peft = require("peft", "offline", f"the tuned model {adapter.name}")
    card = json.loads((adapter / "task.json").read_text(encoding="utf-8"))
    model = add_head(base, card["kind"], tuple(card["labels"]), mean_pooling=True, **kwargs)
    merged = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    return merged.requires_grad_(True)  # PEFT froze the weights, but they may be tuned further
