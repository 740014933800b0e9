"""Offline default models: multilingual-e5-small, small LoRA adapters for it, and the language model SmolLM2-135M."""

import json
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.support.extras import require

#: The untuned encoder.
E5_SMALL = "e5-small"
#: The causal language model.
SMOLLM = "smollm2-135m"
_ADAPTERS = Path(__file__).with_name("adapters")


def default_names() -> tuple[str, ...]:
    """The names of the offline encoder, of its tuned forms, and of the offline language model.

    Example:
        >>> default_names()[0], default_names()[-1]
        ('e5-small', 'smollm2-135m')
    """
    return (E5_SMALL, *tuned_names(), SMOLLM)


def tuned_names() -> tuple[str, ...]:
    """The names of the tuned forms of the offline encoder."""
    return tuple(sorted(path.name for path in _ADAPTERS.iterdir() if (path / "adapter_config.json").is_file()))


def is_default(name: object) -> bool:
    """Whether a name is an offline default, rather than a folder or a model on the hub."""
    return str(name) in default_names() and not Path(str(name)).exists()


def default_folder_of(name: str) -> Path:
    """The folder of a default that is not tuned."""
    from headwise.models.e5 import e5_small_folder
    from headwise.models.smollm import smollm_folder

    if name == SMOLLM:
        return smollm_folder()
    if name != E5_SMALL:
        raise HeadwiseError(f"{name} is already tuned: tune {E5_SMALL} instead")
    return e5_small_folder()


def load_default(name: str, dtype: Any = "auto", **kwargs: Any) -> Any:
    """The encoder, one of its tuned forms with the adapter merged into its weights, or the language model.

    Args:
        name: One of `default_names()`.
        dtype: The type of the weights; `auto` is float32. Adapters are merged before the weights are cast.
        kwargs: Passed to `from_pretrained`.
    """
    import torch
    from transformers import BertModel, LlamaForCausalLM

    from headwise.models.e5 import e5_small_folder
    from headwise.models.quiet import quiet
    from headwise.models.smollm import smollm_folder

    with quiet():
        if name == SMOLLM:
            model = LlamaForCausalLM.from_pretrained(smollm_folder(), dtype=torch.float32, **kwargs)
        elif name == E5_SMALL:
            model = BertModel.from_pretrained(e5_small_folder(), add_pooling_layer=False, **kwargs)
        else:
            model = _tuned(e5_small_folder(), _ADAPTERS / name, kwargs)
    model.config.name_or_path = name
    return (model.to(dtype) if isinstance(dtype, torch.dtype) else model).eval()


def _tuned(base: Path, adapter: Path, kwargs: dict[str, Any]) -> Any:
    from headwise.models.classifiers import add_head

    peft = require("peft", "offline", f"the tuned model {adapter.name}")
    card = json.loads((adapter / "task.json").read_text(encoding="utf-8"))
    model = add_head(base, card["kind"], tuple(card["labels"]), mean_pooling=True, **kwargs)
    merged = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    return merged.requires_grad_(True)  # PEFT froze the weights, but they may be tuned further
