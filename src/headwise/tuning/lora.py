"""LoRA: low-rank adapters that are trained instead of a model's weights, and merged into them at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from headwise.errors import FieldError, HeadwiseError
from headwise.gates import require_ungated
from headwise.heads import base_model
from headwise.support.extras import require
from headwise.tuning.biases import POOLER, encoder_weights

#: The adapters are scaled by this number.
SCALE = 2


@contextmanager
def lora_adapters(model: Any, rank: int, seed: int, train_head: bool) -> Iterator[None]:
    """Put adapters into every linear layer of the encoder of a model, and freeze its weights.

    At the end of the `with` statement the adapters are merged into the weights, and the model is a plain one again.
    After an exception, they are removed.

    Args:
        model: A model without adapters and gates. It is changed in place.
        rank: Rank of the adapters.
        seed: Seed of their weights.
        train_head: Also train the weights outside of the encoder, such as a classifier.

    Raises:
        HeadwiseError: The model has adapters already, or is gated, or the package peft is missing.
    """
    peft = require("peft", "peft", "tuning with LoRA")
    if base_model(model) is not model:
        raise HeadwiseError("lora_rank: the model has adapters already: merge them first, or set it to 0")
    require_ungated(model, "shrink the model to tune it with LoRA")
    # Flags are kept by parameter, because adapters change the names.
    flags = [(weight, weight.requires_grad) for weight in model.parameters()]
    names = _encoder_layers(model)
    inside = encoder_weights(model)
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=rank, lora_alpha=SCALE * rank, target_modules=names)
    tuner = peft.LoraModel(model, config, "default")
    for weight, flag in flags:
        weight.requires_grad_(flag and train_head and id(weight) not in inside)
    try:
        yield
    except BaseException:
        tuner.unload()
        raise
    else:
        tuner.merge_and_unload()
    finally:
        if hasattr(model, "peft_config"):
            del model.peft_config
        for weight, flag in flags:
            weight.requires_grad_(flag)


def _encoder_layers(model: Any) -> list[str]:
    """Names of the linear layers of the encoder. Layers from which all heads were removed have no weights."""
    encoder = model.base_model
    prefix = next(f"{name}." if name else "" for name, module in model.named_modules() if module is encoder)
    found = [
        f"{prefix}{name}"
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Linear | Conv1D) and not name.startswith(POOLER) and module.weight.numel()
    ]
    if not found:
        raise FieldError("lora_rank", "the model has no linear layers: set it to 0")
    return found
