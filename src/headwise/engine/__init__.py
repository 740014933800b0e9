"""The engine: computes the values of many rows of gates and example, and counts their cost."""

from headwise.engine.base import Engine, EngineFactory, EngineSettings, Flips, Gradients, Values
from headwise.engine.cost import EngineCost
from headwise.engine.examples import ExampleSet, encode_examples, mean_outputs, token_batches
from headwise.engine.local import LocalEngine
from headwise.engine.players import PlayerSet, kv_groups, players_from_groups, players_of

__all__ = [
    "Engine",
    "EngineCost",
    "EngineFactory",
    "EngineSettings",
    "ExampleSet",
    "Flips",
    "Gradients",
    "LocalEngine",
    "PlayerSet",
    "Values",
    "encode_examples",
    "kv_groups",
    "mean_outputs",
    "players_from_groups",
    "players_of",
    "token_batches",
]
