"""A smaller model for rows in which the same heads are off: these heads are not computed."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headwise.engine.players import PlayerSet
from headwise.heads import HeadMap, base_model
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.pruning import shrink

#: Number of saved operations from which copying a model's layers pays: a fraction of a second on a few cores.
WORTH_A_COPY = 2e10


def absent_heads(heads: HeadMap, players: PlayerSet, on: NDArray[Any]) -> tuple[str, ...]:
    """The heads that are off in every row."""
    owners = players.owners.get("heads", ())
    off: NDArray[np.bool_] = np.logical_not(on.any(axis=0))  # (players,)
    return tuple(name for name, owner in zip(heads.players(), owners, strict=False) if owner >= 0 and off[owner])


def saved_operations(model: Any, heads: HeadMap, absent: tuple[str, ...], tokens: int) -> float:
    """Number of operations of the projections of some heads, for a number of tokens.

    Heads that share keys and values with others only have projections of queries and of the output.
    """
    width, site = int(base_model(model).config.get_text_config().hidden_size), heads.sites[0]
    projections = 4 if len(set(site.kv_of)) == len(site.heads) else 2
    return 2.0 * projections * width * site.head_width * len(absent) * tokens


def narrow(
    model: nn.Module,
    heads: HeadMap,
    players: PlayerSet,
    absent: tuple[str, ...],
    baseline: MeanOutputs | None = None,
) -> tuple[Any, PlayerSet]:
    """A copy of a model without some heads, and its players; only the layers are copied."""
    base = base_model(model)
    layers = {id(base.get_submodule(layer.path)) for layer in heads.layers}
    inside = {id(part) for module in base.modules() if id(module) in layers for part in module.parameters()}
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in inside}
    smaller = shrink(copy.deepcopy(model, shared), HeadMask.without(heads, absent), inplace=True, baseline=baseline)
    removed = set(absent)
    kept = tuple(
        owner for name, owner in zip(heads.players(), players.owners["heads"], strict=True) if name not in removed
    )
    return smaller, replace(players, owners={**players.owners, "heads": kept})
