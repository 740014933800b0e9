"""Rules that turn scores into masks: which players go.

Example:
    >>> from transformers import BertConfig, BertModel
    >>> from headwise import Provenance, find_heads
    >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2)
    >>> heads = find_heads(BertModel(config))
    >>> scores = HeadScores(heads.players(), (0.5, -0.6, -0.3, -0.1), (0.1,) * 4, (9,) * 4,
    ...                     ("helpful", "harmful", "undecided", "undecided"), Provenance("stars", "full"))
    >>> harmful_mask(scores, heads).off
    ('encoder.0.1',)
    >>> likely_mask(scores, heads).off
    ('encoder.0.1', 'encoder.1.0')
    >>> lowest_mask(scores, heads, 3).off == lowest_share_mask(scores, heads, 0.75).off
    True
"""

import dataclasses
from collections.abc import Iterable

from headwise.errors import HeadwiseError
from headwise.heads import HeadMap, PlayerKind
from headwise.masks import HeadMask
from headwise.scores import HeadScores
from headwise.stats import bh, chance_below

#: Expected share of players without harm among those that go for being likely harmful.
FALSE_SHARE = 0.1


def harmful_mask(scores: HeadScores, heads: HeadMap) -> HeadMask:
    """The rule without a parameter: what is harmful is off, everything else stays on.

    Args:
        scores: The scores.
        heads: Head map of the model that they belong to.

    Raises:
        MaskMismatchError: The scores belong to a model of another shape or with other weights.
    """
    return _without(scores, heads, scores.decided("harmful"))


def likely_mask(scores: HeadScores, heads: HeadMap, false_share: float = FALSE_SHARE) -> HeadMask:
    """What is likely harmful is off: as many players as possible, of which a given share can be expected not to be.

    `harmful_mask` takes what is proved, all players together, however often one looks; that is a few of those that
    hurt. This rule weighs values by their standard errors at one look (Benjamini and Hochberg's procedure) and takes
    most of them. The share is what it says for values without bias whose end did not depend on them: those of `stars`
    within a budget, not those of a gradient screen. What has no standard error stays on.

    Args:
        scores: The scores.
        heads: Head map of the model that they belong to.
        false_share: The expected share of players without harm among those that go.

    Raises:
        HeadwiseError: The share is no share, or the scores are of a method that is not fit for this.
        MaskMismatchError: The scores belong to a model of another shape or with other weights.
    """
    if not 0 < false_share < 1:
        raise HeadwiseError(f"a share of false ones is between 0 and 1, not {false_share}")
    if not tells_likely(scores):
        reason = "biased" if scores.provenance.signed else "without a sign"
        raise HeadwiseError(
            f"the values of {scores.provenance.method} are {reason} and do not say what is likely harmful: take a "
            "number of the lowest (--count, or --share) in place of --likely"
        )
    likely = bh(chance_below(scores.values(), scores.stderr), false_share)  # (players,)
    return _without(scores, heads, [name for name, low in zip(scores.players, likely, strict=True) if low])


def tells_likely(scores: HeadScores) -> bool:
    """Whether `likely_mask` takes the scores: their values are estimates without bias of what players add."""
    return scores.provenance.signed and scores.provenance.unbiased


def lowest_mask(scores: HeadScores, heads: HeadMap, count: int) -> HeadMask:
    """So many players off, those with the lowest values, decided or not.

    Args:
        scores: The scores.
        heads: Head map of the model that they belong to.
        count: How many players go.

    Raises:
        HeadwiseError: There are not so many players with a value.
        MaskMismatchError: The scores belong to a model of another shape or with other weights.
    """
    ranked = scores.ranked()
    if not 0 <= count <= len(ranked):
        raise HeadwiseError(f"{count} players cannot go: 0 to {len(ranked)} of {len(scores.players)} have a value")
    return _without(scores, heads, ranked[:count])


def lowest_share_mask(scores: HeadScores, heads: HeadMap, share: float) -> HeadMask:
    """A share of the players off, those with the lowest values; the number is rounded.

    Args:
        scores: The scores.
        heads: Head map of the model that they belong to.
        share: Which share of the players goes, from 0 to 1.

    Raises:
        HeadwiseError: The share is no share, or too few players have a value.
        MaskMismatchError: The scores belong to a model of another shape or with other weights.
    """
    if not 0 <= share <= 1:
        raise HeadwiseError(f"a share is between 0 and 1, not {share}")
    return lowest_mask(scores, heads, round(share * len(scores.players)))


def mask_without(
    heads: HeadMap, names: Iterable[str], kind: PlayerKind = "heads", language: str | None = None
) -> HeadMask:
    """The mask of a model with players off; a group of heads that share their keys (`decoder.3.kv1`) is all of them.

    Raises:
        HeadwiseError: A name is not one of the model's players.
    """
    return HeadMask.without(heads, _members(heads, names), kind, language)


def _without(scores: HeadScores, heads: HeadMap, off: Iterable[str]) -> HeadMask:
    """The mask that turns players off, made of what the scores say they belong to and held against the model."""
    players, gone, origin = _members(heads, scores.players), set(_members(heads, off)), scores.provenance
    on = tuple(name not in gone for name in players)
    mask = HeadMask(players, on, scores.kind, origin.model, origin.fingerprint, origin.language)
    mask.check(heads)
    return dataclasses.replace(mask, model=heads.model, fingerprint=heads.fingerprint)


def _members(heads: HeadMap, names: Iterable[str]) -> tuple[str, ...]:
    """The heads behind names: a head, a block or a layer is itself, `decoder.3.kv1` all heads that share its keys."""
    groups: dict[str, list[str]] = {}
    for site in heads.sites:
        for name, kv in zip(site.players, site.kv_of, strict=True):
            groups.setdefault(f"{site.name}.kv{kv}", []).append(name)
    return tuple(member for name in names for member in groups.get(name, [name]))
