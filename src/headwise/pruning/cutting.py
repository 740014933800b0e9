"""Physical pruning: the heads that are off are cut out of the weights."""

import copy
from typing import Any, TypeVar

from torch import nn

from headwise.errors import HeadwiseError
from headwise.gates import require_ungated
from headwise.heads import PRUNED_ATTRIBUTE, HeadMap, Site, base_model, find_heads
from headwise.masks import HeadMask, group_players, ungroup_players
from headwise.pruning.attention import SHARED_CONFIG, adapt_attention, own_bias
from headwise.pruning.slicing import (
    head_features,
    keep_inputs,
    keep_outputs,
    projection_features,
    require_cuttable,
    zero_inputs,
)

Model = TypeVar("Model", bound=nn.Module)


def shrink(model: Model, mask: HeadMask, inplace: bool = False) -> Model:
    """Cut the heads that are off out of a model: fewer parameters, less work, the same outputs as gating.

    Layers may keep different numbers of heads, or none. Key-value heads that no head reads any more go too.
    What is left keeps its names: `find_heads` on the result still says `encoder.5.4`.

    Args:
        model: A transformers model, or a PEFT (LoRA) model around one.
        mask: Which heads stay.
        inplace: Change the model itself; otherwise a copy is changed and the model stays whole.

    Returns:
        The smaller model.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...                     intermediate_size=8)
        >>> model = BertModel(config)
        >>> mask = HeadMask.without(find_heads(model), ["encoder.0.1"])
        >>> find_heads(shrink(model, mask)).players()
        ('encoder.0.0',)
    """
    heads = _checked(model, mask)
    model = model if inplace else copy.deepcopy(model)
    base = base_model(model)
    _own_config(base)
    kept = {site.name: _kept(mask, columns) for site, columns in heads.spans()}
    if heads.family.position == "shared-bias" and mask.off:
        _share_out_biases(base, heads, kept)
    for site in heads.sites:
        if len(kept[site.name]) < len(site.heads):
            _shrink_site(base, heads, site, kept[site.name])
    _record(base.config, mask)
    return model


def fold(model: Model, mask: HeadMask, inplace: bool = False) -> Model:
    """Zero the output columns of the heads that are off: full shapes that plain transformers loads anywhere.

    Args:
        model: A transformers model, or a PEFT (LoRA) model around one.
        mask: Which heads stay.
        inplace: Change the model itself; otherwise a copy is changed.

    Returns:
        A model of the same shape that computes what the gated model computes.
    """
    heads = _checked(model, mask)
    if removed_heads(base_model(model).config):
        raise HeadwiseError("heads were cut out of this model already, so it has no full shape to fold into: shrink it")
    model = model if inplace else copy.deepcopy(model)
    base = base_model(model)
    for site, columns in heads.spans():
        kept = set(_kept(mask, columns))
        gone = [position for position in range(len(site.heads)) if position not in kept]
        if gone:
            zero_inputs(base.get_submodule(site.output), head_features(gone, site.head_width))
    return model


def _checked(model: nn.Module, mask: HeadMask) -> HeadMap:
    if mask.kind != "heads":
        raise HeadwiseError(f"only masks of heads can be cut or folded, this one is of {mask.kind}")
    require_ungated(model, "copy it outside")
    heads = find_heads(model)
    mask.check(heads)
    base = base_model(model)
    for site in heads.sites:
        for path in (*(projection.path for projection in site.projections), site.output):
            require_cuttable(base.get_submodule(path))
    return heads


def _kept(mask: HeadMask, columns: slice) -> list[int]:
    """Positions within a site of the heads that stay."""
    return [position for position, on in enumerate(mask.on[columns]) if on]


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
    """The names of the heads that were cut out of a model, by its config."""
    return ungroup_players(getattr(config, PRUNED_ATTRIBUTE, None) or {}, f"config.{PRUNED_ATTRIBUTE}", counts=False)


def _own_config(base: Any) -> None:
    """Part the model's config from those of other models built from it: it will say which heads are gone."""
    shared, own = base.config, copy.deepcopy(base.config)
    for module in base.modules():
        for name in ("config", SHARED_CONFIG):
            if vars(module).get(name) is shared:
                setattr(module, name, own)
    if hasattr(base, "_cache"):
        del base._cache  # transformers 4 keeps the static cache of the last generation, in its old shape


def _record(config: Any, mask: HeadMask) -> None:
    """Write into the config which heads are gone, so that the rest can keep their numbers."""
    removed: dict[str, list[int]] = dict(getattr(config, PRUNED_ATTRIBUTE, None) or {})
    for site, indices in group_players(mask.off).items():
        removed[site] = sorted({*removed.get(site, ()), *indices})
    setattr(config, PRUNED_ATTRIBUTE, removed)
