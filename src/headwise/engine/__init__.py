"""The engine: the value of many (mask, example) rows, fast and counted."""

from headwise.engine.cost import Cost
from headwise.engine.examples import ExampleSet, encode_examples
from headwise.engine.local import Engine, EngineSettings, Flips
from headwise.engine.players import PlayerSet, group_players, kv_groups, players_of

__all__ = [
    "Cost",
    "Engine",
    "EngineSettings",
    "ExampleSet",
    "Flips",
    "PlayerSet",
    "encode_examples",
    "group_players",
    "kv_groups",
    "players_of",
]
