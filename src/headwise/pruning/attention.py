"""Adapt the attention modules of pruned sites.

Most sites need no change, because their code infers the number of heads. The other modules get a subclass of their
class (only this module, not the class itself) or, if heads share keys and values unevenly, an attention function.
"""

import copy
import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, SupportsIndex, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from headwise.architectures import Family, Position
from headwise.heads import Site

_GROUPED = "headwise_grouped"

#: Attribute of an unevenly grouped attention that holds the model's config. The config of the module itself selects
#: the attention function below.
SHARED_CONFIG = "shared_config"


def adapt_attention(module: nn.Module, family: Family, site: Site, kept: list[int], kv_index: list[int]) -> None:
    """Adapt an attention module to its remaining heads, after its projections were cut.

    Args:
        module: The attention module.
        family: Its family.
        site: The site before the cut.
        kept: Positions of the remaining heads within the site before the cut.
        kv_index: For each remaining head, the index of its key-value head among the remaining ones.
    """
    for name in family.head_counts:
        _set_if_there(module, name, len(kept))
    for name in family.widths:
        _set_if_there(module, name, len(kept) * site.head_width)
    if not kept:
        _specialise(
            module, _EMPTIED[family.position], (("cross", site.stack == "cross"), ("output", _own_output(site)))
        )
        return
    if family.position == "alibi":
        # The model computes the alibi for all its heads. The site uses the rows of its own heads.
        _specialise(module, _KeptAlibi)
        own = torch.tensor([site.heads[position] for position in kept], device=_device_of(module))
        module.register_buffer("alibi_heads", own, persistent=False)
    if hasattr(module, "num_key_value_groups"):
        _group_heads(module, kv_index)


def own_bias(module: Any, table: nn.Embedding | None, kept: list[int]) -> None:
    """Make a T5 attention compute the position bias of its own heads, without passing it to the next layer.

    T5's first layer computes the bias for its whole stack. Once sites have different heads, each needs its own
    columns of that table: a few hundred numbers, looked up again in each layer.

    Args:
        module: The attention module of a layer.
        table: The biases (buckets, heads) that it used so far; None for cross-attention, which has none.
        kept: Columns to keep.
    """
    _specialise(module, _OwnBias)
    module.has_relative_attention_bias = table is not None and bool(kept)
    if table is None or not kept:
        module._modules.pop("relative_attention_bias", None)
        return
    weight = table.weight.detach()[:, kept].clone()
    module.relative_attention_bias = nn.Embedding.from_pretrained(weight, freeze=not table.weight.requires_grad)


def _set_if_there(module: nn.Module, name: str, value: int) -> None:
    if hasattr(module, name):
        setattr(module, name, value)


def _own_output(site: Site) -> str | None:
    """Name of the output projection inside the attention module; None if it is outside."""
    prefix = f"{site.attention}."
    return site.output.removeprefix(prefix) if site.output.startswith(prefix) else None


def _specialise(module: Any, mixin: type, attributes: tuple[tuple[str, Any], ...] = ()) -> None:
    """Change the class of one module to a subclass with the mixin."""
    if not isinstance(module, mixin):
        cls: Any = type(module)
        module.__class__ = _subclass(cls, mixin, attributes)


@functools.cache
def _subclass(cls: Any, mixin: Any, attributes: tuple[tuple[str, Any], ...]) -> Any:
    origin = (*getattr(cls, "origin", (cls,)), (mixin, attributes))
    return type(f"{mixin.__name__.strip('_')}{cls.__name__}", (mixin, cls), {**dict(attributes), "origin": origin})


class _Special:
    """A module with a generated class, which is generated again when the module is copied or unpickled."""

    origin: ClassVar[tuple[Any, ...]]

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return _blank, self.origin, vars(self)


def _blank(cls: Any, *specialisations: tuple[Any, tuple[tuple[str, Any], ...]]) -> Any:
    for mixin, attributes in specialisations:
        cls = _subclass(cls, mixin, attributes)
    return object.__new__(cls)


class _Emptied(_Special):
    """A site without heads: it returns only the bias of its output projection."""

    cross: ClassVar[bool]
    output: ClassVar[str | None]
    layer_idx: int

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return self._attend(_hidden_states(args, kwargs), kwargs)

    def _attend(self, hidden: Tensor, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """What the site adds, and attention weights with zero heads, so that the list of layers stays complete."""
        source = kwargs.get("key_value_states", kwargs.get("encoder_hidden_states")) if self.cross else None
        keys = hidden.shape[1] if source is None else source.shape[1]
        weights = hidden.new_zeros(hidden.shape[0], 0, hidden.shape[1], keys)
        if not self.cross:
            self._hold_place(hidden, kwargs)
        if self.output is None:
            return hidden.new_zeros(*hidden.shape[:-1], 0), weights
        bias = getattr(getattr(self, self.output), "bias", None)
        return torch.zeros_like(hidden) if bias is None else bias.expand_as(hidden), weights

    def _hold_place(self, hidden: Tensor, kwargs: dict[str, Any]) -> None:
        """Add empty keys to the cache, because it counts positions by the keys of its first layer."""
        cache = kwargs.get("past_key_values", kwargs.get("layer_past"))
        if isinstance(cache, EncoderDecoderCache):
            cache = cache.self_attention_cache
        if cache is not None:
            blank = hidden.new_zeros(hidden.shape[0], 1, hidden.shape[1], 1)
            position = kwargs.get("cache_position")
            cache.update(
                blank, blank, self.layer_idx, *([{"cache_position": position}] if position is not None else [])
            )


class _EmptiedShared(_Emptied):
    """The same for T5, whose attention also returns its position bias: None, since other sites compute their own."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        output, weights = self._attend(_hidden_states(args, kwargs), kwargs)
        return output, None, weights


class _EmptiedAlibi(_Emptied):
    """The same for BLOOM, whose attention adds the residual itself."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        residual = args[1] if len(args) > 1 else kwargs["residual"]
        output, weights = self._attend(_hidden_states(args, kwargs), kwargs)
        return residual + output, weights


_EMPTIED: dict[Position, type[_Emptied]] = {"none": _Emptied, "shared-bias": _EmptiedShared, "alibi": _EmptiedAlibi}


def _hidden_states(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    found: Any = args[0] if args else kwargs.get("hidden_states", kwargs.get("query"))
    return cast(Tensor, found)


class _OwnBias(_Special):
    """T5 attention that ignores the position bias of the previous layer and passes none to the next."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        kwargs["position_bias"] = None
        output, _, *rest = super().forward(*args, **kwargs)  # type: ignore[misc]
        return output, None, *rest


class _KeptAlibi(_Special):
    """BLOOM attention that uses only the alibi rows of its own heads."""

    alibi_heads: Tensor

    def forward(self, hidden_states: Tensor, residual: Tensor, alibi: Tensor, *args: Any, **kwargs: Any) -> Any:
        rows = alibi.unflatten(0, (hidden_states.shape[0], -1))  # (batch, all heads, 1, keys)
        alibi = rows[:, self.alibi_heads].flatten(0, 1)
        return super().forward(hidden_states, residual, alibi, *args, **kwargs)  # type: ignore[misc]


def _group_heads(module: Any, kv_index: list[int]) -> None:
    """Set the key-value head of each head of a grouped-query attention."""
    kv_heads = len(set(kv_index))
    even = [head * kv_heads // len(kv_index) for head in range(len(kv_index))]
    if kv_index == even and len(kv_index) % kv_heads == 0 and not hasattr(module, SHARED_CONFIG):
        module.num_key_value_groups = len(kv_index) // kv_heads
        return
    module.num_key_value_groups = 1
    module.register_buffer("kv_index", torch.tensor(kv_index, device=_device_of(module)), persistent=False)
    if not hasattr(module, SHARED_CONFIG):
        module.shared_config = module.config
        module.config = copy.copy(module.config)
        module.config._attn_implementation = _GROUPED


def _device_of(module: nn.Module) -> torch.device:
    return next(module.parameters()).device


def _grouped_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> Any:
    """Attention with an arbitrary map from heads to key-value heads, in the implementation that the config selects."""
    attend = _implementation(module, module.shared_config._attn_implementation)
    return attend(module, query, key[:, module.kv_index], value[:, module.kv_index], attention_mask, **kwargs)


def _implementation(module: Any, name: str) -> Callable[..., Any]:
    if name == "eager":  # each family has its own, in the module of its attention class
        eager: Callable[..., Any] = sys.modules[type(module).__module__].eager_attention_forward
        return eager
    function: Callable[..., Any] = ALL_ATTENTION_FUNCTIONS[name]
    return function


AttentionInterface.register(_GROUPED, _grouped_attention)
