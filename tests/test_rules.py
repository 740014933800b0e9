"""Rules: which players go."""

import dataclasses
import math

import pytest

from headwise import HeadMap, HeadScores, HeadwiseError, Provenance, find_heads
from headwise.engine import kv_groups
from headwise.errors import MaskMismatchError
from headwise.heads import Players
from headwise.rules import harmful_mask, lowest_mask, lowest_share_mask
from headwise.stats import Decision
from tests.families import BY_NAME


def scores_of(heads: HeadMap, players: tuple[str, ...], kind: Players = "heads") -> HeadScores:
    """The first player is harmful, the second helpful, and the values fall from there."""
    n = len(players)
    others: list[Decision] = ["undecided"] * (n - 2)
    value = (-0.5, 0.75, *(-0.01 * place for place in range(n - 2)))
    provenance = Provenance("stars", "full", language="sw", model=heads.model, fingerprint=heads.fingerprint)
    return HeadScores(players, value, (0.1,) * n, (9,) * n, ("harmful", "helpful", *others), provenance, kind)


def test_the_rule_without_a_parameter_takes_exactly_the_harmful_ones() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    mask = harmful_mask(scores_of(heads, heads.players()), heads)
    assert mask.off == ("encoder.0.0",)
    assert (mask.language, mask.fingerprint, mask.players) == ("sw", heads.fingerprint, heads.players())


@pytest.mark.parametrize("kind", ["ffn", "layers"])
def test_blocks_and_layers_go_too(kind: Players) -> None:
    heads = find_heads(BY_NAME["bert"].build())
    mask = harmful_mask(scores_of(heads, heads.players(kind), kind), heads)
    assert (mask.kind, mask.off) == (kind, heads.players(kind)[:1])


def test_a_group_goes_with_all_its_heads() -> None:
    heads = find_heads(BY_NAME["llama"].build())
    scores = scores_of(heads, kv_groups(heads).names)
    assert harmful_mask(scores, heads).off == ("decoder.0.0", "decoder.0.1")
    assert len(lowest_mask(scores, heads, 2).off) == 4


def test_any_number_of_the_lowest_can_go() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    assert lowest_mask(scores, heads, 0).count == 12
    assert lowest_mask(scores, heads, 2).off == ("encoder.0.0", "encoder.2.3")
    assert lowest_mask(scores, heads, 11).on.index(True) == 1
    assert lowest_share_mask(scores, heads, 0.25) == lowest_mask(scores, heads, 3)
    assert lowest_share_mask(scores, heads, 1.0).count == 0


def test_what_has_no_value_is_not_lowest() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    scores = dataclasses.replace(scores, value=(math.nan, *scores.value[1:]))
    assert "encoder.0.0" not in lowest_mask(scores, heads, 11).off
    with pytest.raises(HeadwiseError, match="12 players cannot go: 0 to 11 of 12 have a value"):
        lowest_mask(scores, heads, 12)


def test_wrong_numbers_are_refused() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    with pytest.raises(HeadwiseError, match="-1 players cannot go"):
        lowest_mask(scores, heads, -1)
    with pytest.raises(HeadwiseError, match=r"between 0 and 1, not 1\.5"):
        lowest_share_mask(scores, heads, 1.5)


def test_scores_of_another_model_are_refused() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    with pytest.raises(MaskMismatchError, match="the mask is for the weights"):
        harmful_mask(scores, find_heads(BY_NAME["bert"].build(seed=1)))
    with pytest.raises(MaskMismatchError, match="8 players"):
        harmful_mask(scores, find_heads(BY_NAME["bert"].build(num_hidden_layers=2)))
