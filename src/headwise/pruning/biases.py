"""Biases of output projections: the means of removed heads go into them, and a model may need to get them first."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, Site, effective_weight, find_heads, weight_shape
from headwise.means import MeanOutputs
from headwise.pruning.slicing import add_to_bias, has_bias

#: The field of a config that gives a bias to every projection of every attention module.
_SWITCH = "attention_bias"


def add_means(base: Any, site: Site, gates: Tensor, means: MeanOutputs) -> None:
    """Add what a site's heads leave behind under mean ablation to the bias of its output projection.

    Args:
        base: The model, whose output projection still has the weights of all heads of the site.
        site: The site.
        gates: The gates of its heads, (heads,): a head with gate g leaves (1 - g) times its mean.
        means: The mean outputs.
    """
    output = base.get_submodule(site.output)
    weight = effective_weight(output).double()  # (outputs, heads·width)
    share = (1 - gates.double()).repeat_interleave(site.head_width)
    left = share * means.values[site.name].double()
    add_to_bias(output, weight @ left.to(weight.device))


def add_biases(model: Any, state: Mapping[str, Tensor]) -> None:
    """Give a bias of zeros to the output projections that have a bias in a state dict, but none in the model."""
    for site in find_heads(model).sites:
        output = model.get_submodule(site.output)
        if f"{site.output}.bias" in state and not has_bias(output):
            add_to_bias(output, torch.zeros(weight_shape(output)[0]))


def require_biases(base: Any, heads: HeadMap, sites: list[Site]) -> None:
    """Make sure that the output projections of sites have a bias which plain transformers can load.

    A family whose config can switch on the biases of attention gets them, all zero.

    Raises:
        HeadwiseError: The family has no such biases.
    """
    if all(has_bias(base.get_submodule(site.output)) for site in sites):
        return
    added = _switched_on(base)
    paths = {path for site in heads.sites for path in (*(each.path for each in site.projections), site.output)}
    if not {f"{site.output}.bias" for site in sites} <= added or not added <= {f"{path}.bias" for path in paths}:
        raise HeadwiseError(
            f"the output projections of {heads.family.name} have no bias, so plain transformers cannot load mean "
            "outputs folded into them: use shrink (--export shrunk), or the baseline zero"
        )
    setattr(base.config, _SWITCH, True)
    for name in added:
        layer = base.get_submodule(name.removesuffix(".bias"))
        add_to_bias(layer, torch.zeros(weight_shape(layer)[0]))


def _switched_on(base: Any) -> set[str]:
    """The parameters that the model would have in addition if its config switched on the biases of attention."""
    if getattr(base.config, _SWITCH, None) is not False:
        return set()
    names = []
    for switch in (False, True):
        config = copy.deepcopy(base.config)
        setattr(config, _SWITCH, switch)
        with torch.device("meta"):
            names.append({name for name, _ in type(base)._from_config(config).named_parameters()})
    return names[1] - names[0]
