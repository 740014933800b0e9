"""Rules: which players go."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from headwise import HeadMap, HeadScores, HeadwiseError, Provenance, find_heads
from headwise.engine import kv_groups
from headwise.errors import MaskMismatchError
from headwise.heads import PlayerKind
from headwise.methods.head_scores import UNDECIDED
from headwise.scores.rules import tells_likely
from headwise.stats import Decision
from tests.families import BY_NAME


def scores_of(heads: HeadMap, players: tuple[str, ...], kind: PlayerKind = "heads") -> HeadScores:
    """The first player is harmful, the second helpful, and the values fall from there."""
    n = len(players)
    others: list[Decision] = ["undecided"] * (n - 2)
    value = (-0.5, 0.75, *(-0.01 * place for place in range(n - 2)))
    provenance = Provenance("stars", "full", language="sw", model=heads.model, fingerprint=heads.fingerprint)
    return HeadScores(players, value, (0.1,) * n, (9,) * n, ("harmful", "helpful", *others), provenance, kind)


def test_the_rule_without_a_parameter_takes_exactly_the_harmful_ones() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    mask = scores_of(heads, heads.players()).mask("harmful")
    assert mask.off == ("encoder.0.0",)
    assert (mask.language, mask.fingerprint, mask.players) == ("sw", heads.fingerprint, heads.players())


@pytest.mark.parametrize("kind", ["ffn", "layers"])
def test_blocks_and_layers_go_too(kind: PlayerKind) -> None:
    heads = find_heads(BY_NAME["bert"].build())
    mask = scores_of(heads, heads.players(kind), kind).mask("harmful")
    assert (mask.kind, mask.off) == (kind, heads.players(kind)[:1])


def test_a_group_goes_with_all_its_heads() -> None:
    heads = find_heads(BY_NAME["llama"].build())
    groups = kv_groups(heads)
    scores = scores_of(heads, groups.names)
    with pytest.raises(HeadwiseError, match="do not say which heads"):
        scores.mask("harmful")
    scores = dataclasses.replace(scores, members=groups.members(heads))
    assert HeadScores.from_dict(scores.to_dict()) == scores
    assert scores.mask("harmful").off == ("decoder.0.0", "decoder.0.1")
    assert len(scores.mask(count=2).off) == 4


def test_what_is_likely_harmful_goes_proved_or_not() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    sure = dataclasses.replace(scores, stderr=(0.1, 0.1, *[0.02] * 10))
    assert scores.mask("likely").off == scores.mask("harmful").off
    assert sure.mask("likely").off == (heads.players()[0], *heads.players()[6:])  # values of -0.04 and below
    assert sure.mask("likely", false_share=0.001).off == (heads.players()[0], *heads.players()[9:])


def test_what_has_no_standard_error_is_not_likely_harmful() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    assert dataclasses.replace(scores, stderr=(math.nan,) * 12).mask("likely").off == ()
    assert dataclasses.replace(scores, value=(math.nan,) * 12).mask("likely").off == ()


@pytest.mark.parametrize("shared", [0.0, 0.5], ids=["independent", "correlated"])
def test_of_what_is_likely_harmful_a_tenth_is_not(shared: float) -> None:
    heads = find_heads(BY_NAME["bert"].build(hidden_size=96, num_attention_heads=48))
    players, rng = heads.players(), np.random.default_rng(3)
    truth = np.array([-3.0] * 40 + [0.0] * 64 + [2.0] * 40)  # in standard errors
    nothing: tuple[Decision, ...] = ("undecided",) * 144
    first = HeadScores(players, (0.0,) * 144, (1.0,) * 144, (9,) * 144, nothing, Provenance("stars", "full"))
    false, found = [], []
    for _ in range(300):
        noise = np.sqrt(shared) * rng.normal() + np.sqrt(1 - shared) * rng.normal(size=144)
        off = dataclasses.replace(first, value=tuple(truth + noise)).mask("likely").off
        wrong = sum(truth[players.index(name)] >= 0 for name in off)
        false.append(wrong / max(len(off), 1))
        found.append((len(off) - wrong) / 40)
    assert np.mean(false) < 0.1 + 3 * np.std(false) / np.sqrt(300)
    assert np.mean(found) > 0.7  # a correction for any wrong one would find some 40%


def test_any_number_of_the_lowest_can_go() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    assert scores.mask(count=0).count == 12
    assert scores.mask(count=2).off == ("encoder.0.0", "encoder.2.3")
    assert scores.mask(count=11).on.index(True) == 1
    assert scores.mask(share=0.25) == scores.mask(count=3)
    assert scores.mask(share=1.0).count == 0


def test_what_has_no_value_is_not_lowest() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    scores = dataclasses.replace(scores, value=(math.nan, *scores.value[1:]))
    assert "encoder.0.0" not in scores.mask(count=11).off
    with pytest.raises(HeadwiseError, match="between 0 and 11, the number of players that have a value, not 12"):
        scores.mask(count=12)


def test_wrong_numbers_are_refused() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    with pytest.raises(HeadwiseError, match=r"between 0 and 12, .* not -1"):
        scores.mask(count=-1)
    with pytest.raises(HeadwiseError, match=r"between 0 and 1, not 1\.5"):
        scores.mask(share=1.5)
    with pytest.raises(HeadwiseError, match="between 0 and 1, not 0"):
        scores.mask("likely", false_share=0)


def test_scores_of_another_model_are_refused() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    with pytest.raises(MaskMismatchError, match="the mask is for the weights"):
        scores.mask("harmful").check(find_heads(BY_NAME["bert"].build(seed=1)))
    with pytest.raises(MaskMismatchError, match="8 players"):
        scores.mask("harmful").check(find_heads(BY_NAME["bert"].build(num_hidden_layers=2)))


def test_exactly_one_way_to_choose_is_given() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    for wrong in ({}, {"rule": "likely", "count": 3}, {"count": 1, "share": 0.5}):
        with pytest.raises(HeadwiseError, match="give one of a rule"):
            scores.mask(**wrong)
    with pytest.raises(HeadwiseError, match="harmful, likely, not 'best'"):
        scores.mask("best")  # type: ignore[arg-type]
    with pytest.raises(HeadwiseError, match=r"there is no player 'encoder\.9\.9'"):
        scores.without(["encoder.9.9"])


def test_a_notebook_shows_a_square_per_player() -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    assert "1 harmful, 1 likely harmful, 1 helpful, 10 undecided" in repr(scores)
    for shown in (scores._repr_html_(), scores.mask("harmful")._repr_html_()):
        assert shown.count("<td title") == 12


@pytest.mark.parametrize(("said", "reason"), [({"signed": False}, "without a sign"), ({"unbiased": False}, "biased")])
def test_values_without_a_sign_or_with_a_bias_do_not_say_what_is_likely(said: dict[str, Any], reason: str) -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    unfit = dataclasses.replace(scores, provenance=dataclasses.replace(scores.provenance, **said))
    assert tells_likely(scores)
    assert not tells_likely(unfit)
    with pytest.raises(HeadwiseError, match=f"the values of stars are {reason} and do not show which heads are likely"):
        unfit.mask("likely")


@pytest.mark.parametrize("confidence", ["none: unsigned", "none: gradients are biased", "none: random"])
def test_older_files_of_unfit_methods_are_still_unfit(confidence: str) -> None:
    heads = find_heads(BY_NAME["bert"].build())
    scores = scores_of(heads, heads.players())
    for text, fit in ((confidence, False), ("none", True), ("betting", True)):
        data = scores.to_dict()
        for name in ("version", "signed", "unbiased"):
            del data["provenance"][name]
        data["provenance"]["confidence"] = text
        assert tells_likely(HeadScores.from_dict(data)) == fit


def shrunk_scores(shrunk: tuple[float, ...], error: tuple[float, ...]) -> HeadScores:
    """Scores whose unbiased values say the opposite of the shrunk ones."""
    n = len(shrunk)
    names = tuple(f"encoder.0.{place}" for place in range(n))
    value = tuple(-each for each in shrunk)
    return HeadScores(
        names, value, (0.1,) * n, (9,) * n, UNDECIDED * n, Provenance("stars", "full"), shrunk=shrunk,
        shrunk_error=error,
    )  # fmt: skip


def test_rankings_use_shrunk_values_and_the_likely_rule_and_decisions_do_not() -> None:
    scores = shrunk_scores((0.5, -2.0, 1.0, -3.0), (0.1,) * 4)
    assert scores.ranked() == ("encoder.0.3", "encoder.0.1", "encoder.0.0", "encoder.0.2")
    assert scores.mask(count=1).off == ("encoder.0.3",)
    assert scores.mask("likely").off == ("encoder.0.0", "encoder.0.2")  # by the unbiased values
    assert scores.mask("harmful").off == ()
