"""Structured pruning: cut the heads that are off out of the weights."""

import copy
from typing import Any, TypeVar

from torch import nn

from headwise.errors import HeadwiseError
from headwise.gates import require_ungated
from headwise.heads import PRUNED_ATTRIBUTE, HeadMap, Site, base_model, find_heads
from headwise.masks import group_players, ungroup_players
from headwise.means import MeanOutputs
from headwise.pruning.attention import SHARED_CONFIG, adapt_attention, own_bias
from headwise.pruning.biases import add_means, require_biases
from headwise.pruning.slicing import (
    head_features,
    keep_inputs,
    keep_outputs,
    projection_features,
    require_cuttable,
    scale_inputs,
    scale_outputs,
)
from headwise.soft_masks import AnyMask, SoftMask

Model = TypeVar("Model", bound=nn.Module)


def shrink(model: Model, mask: AnyMask, inplace: bool = False, baseline: MeanOutputs | None = None) -> Model:
    """Cut the heads that are off out of a model: fewer parameters, less computation, the same outputs as gating.

    Layers may keep different numbers of heads, or none. Key-value heads that are no longer used are removed too.
    The remaining heads keep their names: `find_heads` of the result still returns `encoder.5.4`. With a soft mask,
    heads with gate 0 are cut out, and the output weights of the others are multiplied by their gates.

    Args:
        model: A transformers model, or a PEFT (LoRA) model around one.
        mask: The heads to keep, or a soft mask of heads.
        inplace: Change the model itself. By default a copy is changed.
        baseline: Mean outputs: those of removed heads go into the bias of their output projection, which gets a bias if
            it has none. By default removed heads leave nothing.

    Returns:
        The smaller model.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config)
        >>> from headwise import HeadMask
        >>> mask = HeadMask.without(find_heads(model), ["encoder.0.1"])
        >>> find_heads(shrink(model, mask)).players()
        ('encoder.0.0',)
    """
    if mask.kind != "heads":
        raise HeadwiseError(f"only masks of heads can be cut, not of {mask.kind}: use gated(model, mask)")
    heads = _checked(model, mask, baseline)
    model = model if inplace else copy.deepcopy(model)
    base = base_model(model)
    _own_config(base)
    if baseline is not None:
        _add_means(base, heads, mask, baseline)
    if isinstance(mask, SoftMask):
        _scale_heads(base, heads, mask)
    kept = {site.name: _kept(mask, columns) for site, columns in heads.spans()}
    if heads.family.position == "shared-bias" and mask.off:
        _share_out_biases(base, heads, kept)
    for site in heads.sites:
        if len(kept[site.name]) < len(site.heads):
            _shrink_site(base, heads, site, kept[site.name])
    _record(base.config, mask)
    return model


def fold(model: Model, mask: AnyMask, inplace: bool = False, baseline: MeanOutputs | None = None) -> Model:
    """Multiply output weights by the gates of a mask: plain transformers can load the result.

    The gate of a head multiplies its columns of the output projection, so those of heads that are off become 0. The
    gate of a feed-forward block multiplies its last layer, including the bias.

    Args:
        model: A transformers model, or a PEFT (LoRA) model around one.
        mask: The mask, hard or soft, of heads or of feed-forward blocks.
        inplace: Change the model itself. By default a copy is changed.
        baseline: Mean outputs: those of removed heads go into the bias of their output projection. By default removed
            heads leave nothing.

    Returns:
        A model of the same shape with the same outputs as the gated model.

    Raises:
        HeadwiseError: The mask does not fit the model, or is a mask of layers; or with a baseline, the mask is not one
            of heads, or the family has no bias that plain transformers could load.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config)
        >>> folded = fold(model, SoftMask.of(find_heads(model), [1.0, 0.5]))
        >>> before, after = (each.encoder.layer[0].attention.output.dense.weight for each in (model, folded))
        >>> bool((after[:, 4:] == before[:, 4:] / 2).all())
        True
    """
    if mask.kind == "layers":
        raise HeadwiseError("a layer's gate also multiplies its input, so masks of layers cannot be folded: use gated")
    if mask.kind == "ffn" and baseline is not None:
        raise HeadwiseError("mean outputs of feed-forward blocks cannot be folded: use gated, or the baseline zero")
    heads = _checked(model, mask, baseline)
    if removed_heads(base_model(model).config):
        raise HeadwiseError("heads were already cut out of this model, so it cannot be folded: shrink it instead")
    model = model if inplace else copy.deepcopy(model)
    base = base_model(model)
    if baseline is not None:
        _own_config(base)
        require_biases(base, heads, _touched(heads, mask))
        _add_means(base, heads, mask, baseline)
    if mask.kind == "heads":
        _scale_heads(base, heads, mask)
    else:
        for block, gate in zip(heads.feed_forward, mask.tensor().tolist(), strict=True):
            scale_outputs(base.get_submodule(block.output), float(gate))
    return model


def _scale_heads(base: Any, heads: HeadMap, mask: AnyMask) -> None:
    """Multiply the output weights of every head by its gate."""
    for site, columns in heads.spans():
        gates = mask.tensor()[columns].float()
        if (gates != 1).any():
            scale_inputs(base.get_submodule(site.output), gates.repeat_interleave(site.head_width))


def _checked(model: nn.Module, mask: AnyMask, baseline: MeanOutputs | None) -> HeadMap:
    require_ungated(model, "copy it outside")
    heads = find_heads(model)
    mask.check(heads)
    if baseline is not None:
        baseline.check(heads)
    base = base_model(model)
    for site in heads.sites if mask.kind == "heads" else ():
        for path in (*(projection.path for projection in site.projections), site.output):
            require_cuttable(base.get_submodule(path))
    for block in heads.feed_forward if mask.kind == "ffn" else ():
        require_cuttable(base.get_submodule(block.output))
    return heads


def _kept(mask: AnyMask, columns: slice) -> list[int]:
    """Positions within a site of the heads to keep."""
    return [position for position, on in enumerate(mask.on[columns]) if on]


def _touched(heads: HeadMap, mask: AnyMask) -> list[Site]:
    """The sites with a gate other than 1."""
    return [site for site, columns in heads.spans() if (mask.tensor()[columns].float() != 1).any()]


def _add_means(base: Any, heads: HeadMap, mask: AnyMask, means: MeanOutputs) -> None:
    """Add what heads leave behind to the biases of the output projections, before their weights change."""
    gates, touched = mask.tensor(), _touched(heads, mask)
    for site, columns in heads.spans():
        if site in touched:
            add_means(base, site, gates[columns], means)


def _shrink_site(base: Any, heads: HeadMap, site: Site, kept: list[int]) -> None:
    kv_kept = sorted({site.kv_of[position] for position in kept})
    total = (len(site.heads), site.kv_heads)
    for projection in site.projections:
        features = projection_features(projection, kept, kv_kept, total, site.head_width)
        keep_outputs(base.get_submodule(projection.path), features)
    keep_inputs(base.get_submodule(site.output), head_features(kept, site.head_width))
    kv_index = [kv_kept.index(site.kv_of[position]) for position in kept]
    adapt_attention(base.get_submodule(site.attention), heads.family, site, kept, kv_index)


def _share_out_biases(base: Any, heads: HeadMap, kept: dict[str, list[int]]) -> None:
    """Make every T5 attention independent of the bias that the first layer computes for its whole stack."""
    for stack in ("encoder", "decoder", "cross"):
        modules = {site.name: base.get_submodule(site.attention) for site in heads.sites if site.stack == stack}
        tables = [getattr(module, "relative_attention_bias", None) for module in modules.values()]
        for (name, module), table in zip(modules.items(), tables, strict=True):
            own_bias(module, table or tables[0], kept[name])


def removed_heads(config: Any) -> tuple[str, ...]:
    """The names of the heads that were cut out of a model, from its config."""
    return ungroup_players(getattr(config, PRUNED_ATTRIBUTE, None) or {}, f"config.{PRUNED_ATTRIBUTE}", counts=False)


def _own_config(base: Any) -> None:
    """Copy the model's config, because other models may share it and it will record the removed heads."""
    shared, own = base.config, copy.deepcopy(base.config)
    for module in base.modules():
        for name in ("config", SHARED_CONFIG):
            if vars(module).get(name) is shared:
                setattr(module, name, own)
    if hasattr(base, "_cache"):
        del base._cache  # transformers 4 keeps the static cache of the last generation, with the old shape


def _record(config: Any, mask: AnyMask) -> None:
    """Record the removed heads in the config, so that the remaining heads keep their numbers."""
    removed: dict[str, list[int]] = dict(getattr(config, PRUNED_ATTRIBUTE, None) or {})
    for site, indices in group_players(mask.off).items():
        removed[site] = sorted({*removed.get(site, ()), *indices})
    setattr(config, PRUNED_ATTRIBUTE, removed)
