"""Rules that choose the players to remove from scores; `HeadScores.mask` applies them by name."""

from typing import TYPE_CHECKING

from headwise.errors import HeadwiseError
from headwise.stats import bh, chance_below

if TYPE_CHECKING:
    from headwise.scores.head_scores import HeadScores

#: Default expected share of harmless players among those that `likely_harmful` removes.
FALSE_SHARE = 0.1


def likely_harmful(scores: "HeadScores", false_share: float = FALSE_SHARE) -> tuple[str, ...]:
    """The players that are likely harmful, with a limited expected share of harmless players among them.

    The decisions `harmful` hold simultaneously for all players and at every time, so they include only few of the
    harmful players. This rule uses values and standard errors from a fixed budget. A player without a standard error is
    never chosen.

    The Benjamini-Hochberg procedure is applied to the unbiased values, or to those of `shrink_to_mean`. Shrunk values
    of a single language are for rankings only: their errors are known less well, so more than the stated share would
    be harmless.

    Args:
        scores: The scores.
        false_share: The expected share of harmless players among those that are chosen.

    Raises:
        HeadwiseError: The share is not between 0 and 1, or the method's values do not allow this rule.
    """
    if not 0 < false_share < 1:
        raise HeadwiseError(f"false_share must be between 0 and 1, not {false_share}")
    if not tells_likely(scores):
        reason = "biased" if scores.provenance.signed else "without a sign"
        raise HeadwiseError(
            f"the values of {scores.provenance.method} are {reason} and do not show which heads are likely harmful: "
            "choose a number of the lowest values with count or share"
        )
    chosen = bh(chance_below(scores.values(), scores.stderr), false_share)  # (players,)
    return tuple(name for name, low in zip(scores.players, chosen, strict=True) if low)


def tells_likely(scores: "HeadScores") -> bool:
    """Whether `likely_harmful` applies: the values are signed, and unbiased or those of `shrink_to_mean`."""
    return scores.provenance.signed and (scores.provenance.unbiased or bool(scores.provenance.borrowed))


def lowest_players(scores: "HeadScores", count: int) -> tuple[str, ...]:
    """The players with the lowest values, whatever their decisions are; by shrunk values if there are any.

    Args:
        scores: The scores.
        count: Number of players.

    Raises:
        HeadwiseError: Fewer than `count` players have a value.
    """
    ranked = scores.ranked()
    if not 0 <= count <= len(ranked):
        raise HeadwiseError(
            f"count must be between 0 and {len(ranked)}, the number of players that have a value, not {count}"
        )
    return ranked[:count]


def lowest_share(scores: "HeadScores", share: float) -> tuple[str, ...]:
    """The given share of the players, those with the lowest values; their number is rounded.

    Raises:
        HeadwiseError: The share is not between 0 and 1, or too few players have a value.
    """
    if not 0 <= share <= 1:
        raise HeadwiseError(f"share must be between 0 and 1, not {share}")
    return lowest_players(scores, round(share * len(scores.players)))
