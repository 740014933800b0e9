"""Cut rows and columns out of linear layers: nn.Linear, Conv1D, and LoRA layers around them."""

from typing import cast

import torch
from torch import Tensor, nn

from headwise.architectures import Projection
from headwise.errors import HeadwiseError
from headwise.heads import is_transposed


def head_features(heads: list[int], width: int) -> Tensor:
    """The feature indices of some heads in a layer with contiguous heads: (len(heads)·width,)."""
    return (torch.tensor(heads, dtype=torch.long)[:, None] * width + torch.arange(width)).flatten()


def projection_features(
    projection: Projection, queries: list[int], keys: list[int], total: tuple[int, int], width: int
) -> Tensor:
    """The output features of a projection that belong to some query heads and some key-value heads.

    Args:
        projection: The projection with its parts and their layout.
        queries: Query heads to keep.
        keys: Key-value heads to keep.
        total: Number of query heads and of key-value heads.
        width: Features per head.
    """
    if projection.layout == "interleaved":
        return head_features(queries, width * len(projection.parts))
    features, start = [], 0
    for part in projection.parts:
        kept, count = (queries, total[0]) if part == "q" else (keys, total[1])
        features.append(start + head_features(kept, width))
        start += count * width
    return torch.cat(features)


def require_cuttable(layer: nn.Module) -> None:
    """Check that a layer can be cut.

    Raises:
        HeadwiseError: The layer is quantised, or wrapped in an adapter other than LoRA.
    """
    for factor in ("lora_A", "lora_B"):
        for part in _parts(layer, factor):
            _require_float(part, cast(Tensor, part.weight))


def keep_outputs(layer: nn.Module, features: Tensor) -> None:
    """Keep only some output features of a layer, in place."""
    for part in _parts(layer, "lora_B"):
        _cut(part, "weight", features, axis=1 if is_transposed(part) else 0)
        if getattr(part, "bias", None) is not None:
            _cut(part, "bias", features, axis=0)
    _set_size(layer, ("out_features", "nf"), len(features))


def keep_inputs(layer: nn.Module, features: Tensor) -> None:
    """Keep only some input features of a layer, in place."""
    for part in _parts(layer, "lora_A"):
        _cut(part, "weight", features, axis=0 if is_transposed(part) else 1)
    _set_size(layer, ("in_features", "nx"), len(features))


def scale_inputs(layer: nn.Module, scales: Tensor) -> None:
    """Multiply the weights of the input features of a layer, in place.

    Args:
        layer: The layer.
        scales: The factor of each input feature, (inputs,). The weights of a feature with factor 0 become 0.
    """
    for part in _parts(layer, "lora_A"):
        _scale(cast(Tensor, part.weight), scales[:, None] if is_transposed(part) else scales)


def scale_outputs(layer: nn.Module, scale: float) -> None:
    """Multiply the output of a layer, in place: of a linear layer with its bias, or of one of Gemma's norms."""
    if cast(Tensor, getattr(layer, "weight", torch.zeros(0, 0))).dim() == 1:
        with torch.no_grad():  # the norm multiplies by 1 + weight
            weight = cast(Tensor, layer.weight)
            weight.copy_(scale * (1 + weight.float()) - 1)
        return
    for part in _parts(layer, "lora_B"):
        for tensor in (part.weight, getattr(part, "bias", None)):
            if tensor is not None:
                _scale(cast(Tensor, tensor), torch.tensor(scale))


def _scale(weight: Tensor, scales: Tensor) -> None:
    """Multiply a weight, in float32 or better; a factor of 0 gives 0, whatever the weight is."""
    scales = scales.to(weight.device)
    with torch.no_grad():
        found = weight.to(torch.promote_types(weight.dtype, torch.float32)) * scales
        weight.copy_(found.masked_fill(scales == 0, 0))


def add_to_bias(layer: nn.Module, change: Tensor) -> None:
    """Add to the bias of a layer, (outputs,), in place. A layer without a bias gets one."""
    part = cast(nn.Module, getattr(layer, "base_layer", layer))
    weight, old = cast(nn.Parameter, part.weight), cast(nn.Parameter | None, part.bias)
    like = weight if old is None else old
    change = change.to(like.device)
    new = change if old is None else old.detach().to(change.dtype) + change
    part.bias = nn.Parameter(new.to(like.dtype), requires_grad=like.requires_grad)


def has_bias(layer: nn.Module) -> bool:
    """Whether a linear layer, a Conv1D or a LoRA layer around one has a bias."""
    return getattr(getattr(layer, "base_layer", layer), "bias", None) is not None


def _parts(layer: nn.Module, factor: str) -> list[nn.Module]:
    """The layer itself, or the base of a LoRA layer with its `factor` matrices."""
    if not hasattr(layer, "base_layer"):
        return [layer]
    adapters = getattr(layer, factor, None)
    extras = (getattr(layer, "lora_magnitude_vector", None), *(getattr(layer, "lora_bias", None) or {}).values())
    if not isinstance(adapters, nn.ModuleDict) or any(extras):
        raise HeadwiseError(
            f"{type(layer).__name__} is not plain LoRA and cannot be cut: merge it first (model.merge_and_unload())"
        )
    return [cast(nn.Module, layer.base_layer), *adapters.values()]


def _cut(layer: nn.Module, name: str, features: Tensor, axis: int) -> None:
    old = cast(nn.Parameter, getattr(layer, name))
    new = old.detach().index_select(axis, features.to(old.device))
    setattr(layer, name, nn.Parameter(new, requires_grad=old.requires_grad))


def _require_float(layer: nn.Module, weight: Tensor) -> None:
    if not weight.is_floating_point():
        raise HeadwiseError(
            f"{type(layer).__name__} has {weight.dtype} weights: load the model unquantised to prune it"
        )


def _set_size(layer: nn.Module, names: tuple[str, ...], size: int) -> None:
    """Update the size attributes of a layer."""
    for part in (layer, getattr(layer, "base_layer", layer)):
        for name in names:
            if name in vars(part):
                setattr(part, name, size)
