"""A narrower model for rows that all lack the same heads: what is off everywhere is not computed."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from headwise.engine.players import PlayerSet
from headwise.heads import HeadMap, base_model
from headwise.masks import HeadMask
from headwise.pruning import shrink

#: Operations that must be saved to be worth the copy of a model's layers: a fraction of a second on a few cores.
WORTH_A_COPY = 2e10


def absent_heads(heads: HeadMap, players: PlayerSet, on: NDArray[Any]) -> tuple[str, ...]:
    """The heads that are off in every row."""
    owners = players.owners.get("heads", ())
    off: NDArray[np.bool_] = np.logical_not(on.any(axis=0))  # (players,)
    return tuple(name for name, owner in zip(heads.players(), owners, strict=False) if owner >= 0 and off[owner])


def saved_operations(model: Any, heads: HeadMap, absent: tuple[str, ...], tokens: int) -> float:
    """Operations that the projections of heads would take, for so many tokens."""
    width = int(base_model(model).config.get_text_config().hidden_size)
    return 2.0 * 4 * width * heads.sites[0].head_width * len(absent) * tokens


def narrow(model: nn.Module, heads: HeadMap, players: PlayerSet, absent: tuple[str, ...]) -> tuple[Any, PlayerSet]:
    """A copy of a model without some heads, and its players; everything but the layers is shared, not copied."""
    base = base_model(model)
    layers = {id(base.get_submodule(layer.path)) for layer in heads.layers}
    inside = {id(part) for module in base.modules() if id(module) in layers for part in module.parameters()}
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in inside}
    smaller = shrink(copy.deepcopy(model, shared), HeadMask.without(heads, absent), inplace=True)
    gone = set(absent)
    kept = tuple(
        owner for name, owner in zip(heads.players(), players.owners["heads"], strict=True) if name not in gone
    )
    return smaller, replace(players, owners={**players.owners, "heads": kept})
