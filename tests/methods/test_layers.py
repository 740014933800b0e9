"""Layer patterns: the lowest values are exactly the layers of the pattern."""

from dataclasses import replace

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.engine import kv_groups, players_of
from headwise.methods import Budget, find_method, score
from headwise.methods.layers import Layers, layer_order
from tests.methods.worlds import tiny_problem


@pytest.mark.parametrize(
    ("pattern", "first_two", "first_six"),
    [
        ("top", {10, 11}, {6, 7, 8, 9, 10, 11}),
        ("middle", {5, 6}, {3, 4, 5, 6, 7, 8}),
        ("bottom", {0, 1}, {0, 1, 2, 3, 4, 5}),
        ("odd", {0, 2}, {0, 2, 4, 6, 8, 10}),
        ("even", {1, 3}, {1, 3, 5, 7, 9, 11}),
        ("consecutive", {0, 1}, {0, 1, 2, 3, 4, 5}),
    ],
)
def test_patterns_of_twelve_layers(pattern: str, first_two: set[int], first_six: set[int]) -> None:
    order = layer_order(pattern, 12)  # type: ignore[arg-type]
    assert sorted(order) == list(range(12))
    assert set(order[:2]) == first_two
    assert set(order[:6]) == first_six


@pytest.mark.parametrize("kind", ["heads", "kv", "ffn", "layers"])
@pytest.mark.parametrize(("pattern", "layer"), [("top", 2), ("middle", 1), ("bottom", 0), ("even", 1)])
def test_the_lowest_players_are_those_of_the_first_layer(pattern: str, layer: int, kind: str) -> None:
    problem = tiny_problem("llama")  # 3 layers, 4 heads each
    players = kv_groups(problem.heads) if kind == "kv" else players_of(problem.heads, kind)  # type: ignore[arg-type]
    found = score(find_method("layers", pattern=pattern), replace(problem, players=players), Budget(0))
    each = len(players) // 3
    lowest = {players.names[place] for place in np.argsort(found.values(), kind="stable")[:each]}
    names = {"heads": f"decoder.{layer}.", "kv": f"decoder.{layer}.kv"}.get(kind)
    assert all(name.startswith(names) if names else name.endswith(f".{layer}") for name in lowest)
    assert found.provenance.units == 0
    assert set(found.decision) == {"undecided"}


def test_an_encoder_and_a_decoder_take_turns() -> None:
    problem = tiny_problem("marian")
    found = score(Layers("top"), replace(problem, players=players_of(problem.heads)), Budget())
    by_name = dict(zip(found.players, found.value, strict=True))
    assert [by_name[f"{site}.0"] for site in ("encoder.2", "decoder.2", "cross.2", "encoder.1")] == [0, 1, 1, 2]
    assert len(set(found.value)) == 6


def test_a_mask_of_a_layers_worth_of_heads_empties_the_layer() -> None:
    problem = tiny_problem("xlm-roberta")
    found = score(Layers("middle"), replace(problem, players=players_of(problem.heads)), Budget())
    assert set(found.mask(count=4).off) == {f"encoder.1.{head}" for head in range(4)}


def test_unknown_patterns_are_refused() -> None:
    with pytest.raises(HeadwiseError, match=r"must be one of .*top.* not 'left'"):
        find_method("layers", pattern="left")
