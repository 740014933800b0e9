"""Find the attention heads of a model: the only place that turns a family's row into modules."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from headwise.architectures import FAMILIES, BlockRow, Family, Projection, SiteRow, Stack, known_model_types
from headwise.errors import HeadwiseError, UnknownFamilyError

PlayerKind = Literal["heads", "ffn", "layers"]

#: Attribute of `model.config` that records which heads `shrink` has cut out, by site.
PRUNED_ATTRIBUTE = "headwise_pruned"

_STACKS: tuple[Stack, ...] = ("encoder", "decoder", "cross")
_FINGERPRINT_WEIGHTS = 1024
#: Kept small: an adapter merged on another machine may differ in a last bit, and sometimes in bfloat16 as well.
_SAMPLED_WEIGHTS = 256


@dataclass(frozen=True)
class Site:
    """One attention module.

    Attributes:
        stack: `encoder`, `decoder` (self-attention) or `cross` (decoder to encoder).
        layer: Layer number from 0, as in transformers.
        heads: Its heads, by their number in the unpruned model.
        head_width: Features per head.
        kv_of: For each head, the index of the key-value head of the site that it uses.
        attention: Name of the module that computes the attention.
        projections: The maps into the heads, by full module name.
        output: Name of the output projection, whose input the gates multiply.
    """

    stack: Stack
    layer: int
    heads: tuple[int, ...]
    head_width: int
    kv_of: tuple[int, ...]
    attention: str
    projections: tuple[Projection, ...]
    output: str

    @property
    def name(self) -> str:
        """Stack and layer, as in `encoder.5`."""
        return f"{self.stack}.{self.layer}"

    @property
    def players(self) -> tuple[str, ...]:
        """The names of its heads, as in `encoder.5.4`."""
        return tuple(f"{self.name}.{head}" for head in self.heads)

    @property
    def kv_heads(self) -> int:
        """Number of key-value heads that its heads share."""
        return len(set(self.kv_of))


@dataclass(frozen=True)
class Block:
    """A feed-forward block or a whole layer.

    Attributes:
        stack: Its stack.
        layer: Layer number from 0.
        path: Name of the module whose output is gated.
        kind: `ffn` or `layer`.
        output: Name of the last linear layer (or norm) of a feed-forward block, whose output is that of the block.
    """

    stack: Stack
    layer: int
    path: str
    kind: Literal["ffn", "layer"]
    output: str

    @property
    def name(self) -> str:
        """Stack, kind and layer, as in `encoder.ffn.5`."""
        return f"{self.stack}.{self.kind}.{self.layer}"


@dataclass(frozen=True)
class HeadMap:
    """The heads, feed-forward blocks and layers of one model, in the order of the players.

    Attributes:
        model: Name or path of the model, as its config gives it.
        family: The row that describes it.
        sites: Attention sites: encoder, decoder, cross, each by layer.
        feed_forward: Feed-forward blocks in the same order.
        layers: Whole layers in the same order.
        fingerprint: Identifies the attention weights, independent of their dtype; None for a model without weights.
    """

    model: str
    family: Family
    sites: tuple[Site, ...]
    feed_forward: tuple[Block, ...]
    layers: tuple[Block, ...]
    fingerprint: str | None

    def players(self, kind: PlayerKind = "heads") -> tuple[str, ...]:
        """The names of all players of a kind, in order."""
        match kind:
            case "heads":
                return tuple(name for site in self.sites for name in site.players)
            case "ffn":
                return tuple(block.name for block in self.feed_forward)
            case "layers":
                return tuple(block.name for block in self.layers)
        raise HeadwiseError(f"players must be 'heads', 'ffn' or 'layers', not {kind!r}")

    def spans(self) -> Iterator[tuple[Site, slice]]:
        """Each site with the slice of the head players that belong to it."""
        start = 0
        for site in self.sites:
            stop = start + len(site.heads)
            yield site, slice(start, stop)
            start = stop


def base_model(model: nn.Module) -> Any:
    """The transformers model itself, without its PEFT wrapper."""
    unwrap = getattr(model, "get_base_model", None)
    return unwrap() if unwrap is not None else model


def find_heads(model: nn.Module) -> HeadMap:
    """Find every attention site, feed-forward block and layer of a transformers model.

    Works on bare and task models, on PEFT models, and on models pruned by headwise. Heads of a pruned model keep
    the numbers they had before pruning.

    Args:
        model: A transformers model, or a PEFT model around one.

    Raises:
        UnknownFamilyError: The family has no row in `headwise.architectures`.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=4,
        ...                     intermediate_size=8)
        >>> heads = find_heads(BertModel(config))
        >>> len(heads.players()), heads.players()[:2]
        (8, ('encoder.0.0', 'encoder.0.1'))
    """
    base = base_model(model)
    family = family_of(base)
    names = [name for name, _ in base.named_modules()]
    found = [(row, layer, path) for row in family.sites for layer, path in _matches(row.path, names)]
    if not found:
        raise HeadwiseError(
            f"{type(base).__name__} has no attention module that matches the row of {family.name}: pass the whole model"
        )
    sites = [_site(base, family, row, layer, path) for row, layer, path in found]
    sites.sort(key=lambda site: (_STACKS.index(site.stack), site.layer))
    return HeadMap(
        model=getattr(base.config, "name_or_path", "") or type(base).__name__,
        family=family,
        sites=tuple(sites),
        feed_forward=_blocks(base, family.feed_forward, names, "ffn"),
        layers=_blocks(base, family.layers, names, "layer"),
        fingerprint=_fingerprint(base, sites),
    )


def family_of(base: Any) -> Family:
    """The row of a model's family.

    Args:
        base: A transformers model without its PEFT wrapper.

    Raises:
        UnknownFamilyError: The family has no row in `headwise.architectures`.
        HeadwiseError: The model bypasses its output projections.

    Example:
        >>> from transformers import GPT2Config, GPT2Model
        >>> family_of(GPT2Model(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2))).name
        'GPT-2'
    """
    config = getattr(base, "config", None)
    model_type = getattr(config, "model_type", None)
    if model_type is None:
        raise UnknownFamilyError(f"{type(base).__name__} is not a transformers model: it has no config.model_type")
    if getattr(config, "slow_but_exact", False) and getattr(config, "pretraining_tp", 1) > 1:
        raise HeadwiseError("BLOOM with slow_but_exact bypasses its output projection: set config.slow_but_exact=False")
    for family in FAMILIES:
        if model_type in family.model_types:
            return family
    raise UnknownFamilyError(
        f"the family '{model_type}' ({type(base).__name__}) is unknown: add a row for it to FAMILIES in "
        f"headwise/architectures.py (known: {', '.join(known_model_types())})"
    )


def _matches(pattern: str, names: list[str]) -> Iterator[tuple[int, str]]:
    """Module names that end in the pattern, with the layer number at the position of `*`."""
    expression = re.compile(r"(?:^|\.)" + re.escape(pattern).replace(r"\*", r"(\d+)") + "$")
    for name in names:
        if match := expression.search(name):
            yield int(match.group(1)), name


def _stack(base: Any, stack: Stack) -> Stack:
    """The stack of a module: BERT-like causal decoders name their modules `encoder` too."""
    return "decoder" if stack == "encoder" and getattr(base.config, "is_decoder", False) else stack


def _site(base: Any, family: Family, row: SiteRow, layer: int, path: str) -> Site:
    attention = f"{path}.{row.attention}" if row.attention else path
    module = base.get_submodule(attention)
    width = int(getattr(module, family.head_width))
    output = f"{path}.{row.output}"
    projections = tuple(
        Projection(f"{path}.{projection.path}", projection.parts, projection.layout)
        for projection in row.projections
        if _has_module(base, f"{path}.{projection.path}")
    )
    stack = _stack(base, row.stack)
    kept = weight_shape(base.get_submodule(output))[1] // width
    removed = set((getattr(base.config, PRUNED_ATTRIBUTE, None) or {}).get(f"{stack}.{layer}", ()))
    heads = tuple(head for head in range(kept + len(removed)) if head not in removed)
    return Site(
        stack, layer, heads, width, _kv_of(base, module, projections, kept, width), attention, projections, output
    )


def _has_module(base: nn.Module, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    return hasattr(base.get_submodule(parent), name)


def _kv_of(
    base: nn.Module, attention: nn.Module, projections: tuple[Projection, ...], heads: int, width: int
) -> tuple[int, ...]:
    """The key-value head of each head: uneven groups are possible in a pruned site only."""
    if heads == 0:
        return ()
    uneven = getattr(attention, "kv_index", None)
    if uneven is not None:
        return tuple(int(index) for index in cast(Tensor, uneven).tolist())
    keys = next(projection for projection in projections if "k" in projection.parts)
    kv_heads = weight_shape(base.get_submodule(keys.path))[0] // (width * len(keys.parts))
    return tuple(head * kv_heads // heads for head in range(heads))


def _blocks(
    base: Any, rows: tuple[BlockRow, ...], names: list[str], kind: Literal["ffn", "layer"]
) -> tuple[Block, ...]:
    blocks = [
        Block(_stack(base, row.stack), layer, path, kind, f"{path}.{row.output}" if row.output else path)
        for row in rows
        for layer, path in _matches(row.path, names)
    ]
    return tuple(sorted(blocks, key=lambda block: (_STACKS.index(block.stack), block.layer)))


def is_transposed(layer: nn.Module) -> bool:
    """Whether a linear layer stores its weight as (inputs, outputs), like GPT-2's Conv1D."""
    return type(layer).__name__ == "Conv1D"


def weight_shape(layer: nn.Module) -> tuple[int, int]:
    """(outputs, inputs) of a linear layer, a Conv1D or a PEFT layer around one."""
    layer = cast(nn.Module, getattr(layer, "base_layer", layer))
    weight: Any = layer.weight
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise HeadwiseError(f"{type(layer).__name__} has no plain weight matrix: load the model unquantised")
    rows, columns = weight.shape
    return (columns, rows) if is_transposed(layer) else (rows, columns)


def _fingerprint(base: nn.Module, sites: list[Site]) -> str | None:
    """Hash of the sign bits of evenly spaced attention weights: casting keeps them, training changes them."""
    digest = hashlib.sha256()
    for site in sites:
        for path in (*(projection.path for projection in site.projections), site.output):
            for weight in _effective_weights(base.get_submodule(path)):
                if weight.is_meta:
                    return None
                step = max(1, weight.numel() // _FINGERPRINT_WEIGHTS)
                signs = weight.flatten()[::step].signbit().cpu().numpy()
                digest.update(f"{site.name}:{tuple(weight.shape)}".encode())
                digest.update(np.packbits(signs).tobytes())
    return digest.hexdigest()[:16]


def hash_weights(model: nn.Module) -> str | None:
    """Hash of evenly spaced values of all weights, rounded to bfloat16; None for a model without weights.

    `HeadMap.fingerprint` covers the attention weights only and tells whether a mask fits. This hash covers the whole
    model: it also changes with another classifier or with more training.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> before = hash_weights(layer)
        >>> _ = nn.init.ones_(layer.bias)
        >>> hash_weights(layer) == before
        False
    """
    digest = hashlib.sha256()
    for name, weight in model.state_dict().items():
        if weight.is_meta:
            return None
        # An odd step, since a step that divides the row width would sample the same few columns of every row.
        step = max(1, weight.numel() // _SAMPLED_WEIGHTS) | 1
        sample = weight.flatten()[::step].float().bfloat16().view(torch.int16).cpu().numpy()
        digest.update(f"{name}:{tuple(weight.shape)}".encode())
        digest.update(sample.tobytes())
    return digest.hexdigest()[:16]


def hash_all_weights(model: nn.Module) -> str | None:
    """Hash of all bits of all weights; None for a model without weights.

    `hash_weights` is faster and does not depend on the type of the weights, but does not see changes of single numbers.
    Runs store both. This one takes about a second per gigabyte.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> before = hash_all_weights(layer)
        >>> with torch.no_grad():
        ...     _ = layer.bias.copy_(torch.nextafter(layer.bias, torch.ones(2)))
        >>> hash_all_weights(layer) == before
        False
    """
    digest, seen = hashlib.sha256(), set[tuple[int, tuple[int, ...]]]()
    for name, weight in model.state_dict().items():
        if weight.is_meta:
            return None
        place = (weight.data_ptr(), tuple(weight.shape))
        if weight.numel() and place in seen:
            continue  # tied to an earlier one
        seen.add(place)
        digest.update(f"{name}:{weight.dtype}:{tuple(weight.shape)}".encode())
        # As bytes, because numpy has no bfloat16; flat, because a single number has no bytes of its own.
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]


#: Keys of a config that do not change what a model computes, or that are compared otherwise.
_NOT_COMPUTED = {"architectures", "dtype", "torch_dtype", "transformers_version", "name_or_path", "use_cache"}


def hash_config(model: nn.Module) -> str | None:
    """Hash of the settings that differ from the defaults of the model's class; None for a model without a config.

    Defaults are left out, so that the hash stays the same with a version of transformers that has more settings.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = dict(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
        >>> one, other = (BertModel(BertConfig(**sizes, hidden_act=name)) for name in ("gelu", "relu"))
        >>> hash_config(one) == hash_config(other)
        False
    """
    config = getattr(base_model(model), "config", None)
    if config is None or not hasattr(config, "to_diff_dict"):
        return None
    found = {
        key: value
        for key, value in config.to_diff_dict().items()
        if key not in _NOT_COMPUTED and not key.startswith("_")
    }
    return hashlib.sha256(json.dumps(found, sort_keys=True, default=str).encode()).hexdigest()[:16]


def effective_weight(layer: nn.Module) -> Tensor:
    """The weight (outputs, inputs) of a linear layer, a Conv1D or a LoRA layer around one, with its adapters merged."""
    weight = _effective_weights(layer)[0]
    return weight.T if is_transposed(cast(nn.Module, getattr(layer, "base_layer", layer))) else weight


def _effective_weights(layer: nn.Module) -> list[Tensor]:
    """A layer's weight with its LoRA adapters merged, or with the parameters of other adapters listed separately."""
    wrapper = cast(Any, layer)
    weight = cast(Tensor, getattr(layer, "base_layer", wrapper).weight).detach()
    if not hasattr(layer, "base_layer") or wrapper.merged or wrapper.disable_adapters:
        return [weight]
    if not isinstance(getattr(layer, "lora_A", None), nn.ModuleDict):
        others = [tensor for name, tensor in layer.named_parameters() if not name.startswith("base_layer")]
        return [weight, *(tensor.detach() for tensor in others)]
    for adapter in wrapper.active_adapters:
        if adapter in wrapper.lora_A:
            weight = weight + wrapper.get_delta_weight(adapter).detach().to(weight.dtype)
    return [weight]
