"""Scores of players: values, standard errors, decisions, and where they come from."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.errors import HeadwiseError
from headwise.files import read_json, write_json
from headwise.heads import PlayerKind
from headwise.masks import HeadMask, describe_shape
from headwise.scores.provenance import Provenance
from headwise.scores.rules import FALSE_SHARE, likely_harmful, lowest_players, lowest_share, tells_likely
from headwise.stats.multiple import Decision
from headwise.stats.ranks import Correlation, SignAgreement, clear, jaccard, sign_agreement, spearman
from headwise.support.display import diverging_colour, html_grid

#: Format name and version in files of scores.
FORMAT = "headwise-scores"
VERSION = 1
#: Rules that choose which players a mask removes.
Rule = Literal["harmful", "likely"]


@dataclass(frozen=True)
class Comparison:
    """Agreement of two sets of scores of the same players.

    Attributes:
        compared: Number of players that have a value in both.
        correlation: Spearman's rank correlation of their values.
        signs: Share of players whose values have the same sign.
        clear_signs: The same over the players that are clear in both: further from zero than three standard errors.
        jaccard: Jaccard index of the two sets of harmful players, from 0 to 1.
        opposite_decisions: The players that are harmful in one and helpful in the other.
        opposite_signs: The players that are clear in both, with opposite signs.
    """

    compared: int
    correlation: Correlation
    signs: SignAgreement
    clear_signs: SignAgreement
    jaccard: float
    opposite_decisions: tuple[str, ...]
    opposite_signs: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data that JSON can hold."""
        found = dataclasses.asdict(self)
        for part in ("correlation", "signs", "clear_signs"):
            found[part] = {name: number(value) for name, value in found[part].items()}
        return found


@dataclass(frozen=True)
class Stability:
    """Agreement of several runs.

    Attributes:
        runs: Number of runs.
        jaccard: Jaccard index of their sets of harmful players: mean over pairs of runs, from 0 to 1.
        correlation: Spearman's rank correlation of their values: mean over pairs of runs.
        harmful: The players that are harmful in all runs.
    """

    runs: int
    jaccard: float
    correlation: float
    harmful: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class HeadScores:
    """One score per player.

    Attributes:
        players: The players, in the model's order.
        value: Score of each player: for signed methods, its contribution to the task.
        stderr: Standard error of each value (NaN where the method gives none).
        count: Number of samples of each value.
        decision: Whether each player is harmful, helpful or undecided.
        provenance: Where the scores come from.
        kind: Kind of the players: heads, feed-forward blocks or layers.
        members: The heads (blocks, layers) of each player; empty if every player is a single one.
        shrunk: Biased values with smaller errors, which rankings use; empty if the method has none.
            Decisions use the unbiased values.
        shrunk_error: Standard errors of the shrunk values.

    Example:
        >>> scores = HeadScores(("encoder.0.0", "encoder.0.1"), (0.5, -0.25), (0.0625, 0.03125), (64, 64),
        ...                     ("helpful", "harmful"), Provenance("stars", "full"))
        >>> scores
        HeadScores(2 heads by stars, full: 1 harmful, 1 likely harmful, 1 helpful, 0 undecided)
        >>> scores.mask("likely").off, scores.mask(count=2).off
        (('encoder.0.1',), ('encoder.0.0', 'encoder.0.1'))
        >>> scores.decided("harmful"), scores.ranked()
        (('encoder.0.1',), ('encoder.0.1', 'encoder.0.0'))
        >>> low, high = scores.interval(0.95)
        >>> low.round(2).tolist(), high.round(2).tolist()
        ([0.38, -0.31], [0.62, -0.19])
        >>> scores.compare(scores).correlation.rho
        1.0
    """

    players: tuple[str, ...]
    value: tuple[float, ...]
    stderr: tuple[float, ...]
    count: tuple[int, ...]
    decision: tuple[Decision, ...]
    provenance: Provenance
    kind: PlayerKind = "heads"
    members: tuple[tuple[str, ...], ...] = ()
    shrunk: tuple[float, ...] = ()
    shrunk_error: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.members and len(self.members) != len(self.players):
            raise HeadwiseError(f"members must have one entry per player, not {len(self.members)}")
        if {len(self.shrunk), len(self.shrunk_error)} not in ({0}, {len(self.players)}):
            raise HeadwiseError("shrunk and shrunk_error must have one entry per player, or none")
        sizes = {name: len(getattr(self, name)) for name in ("players", "value", "stderr", "count", "decision")}
        if len(set(sizes.values())) > 1:
            raise HeadwiseError(f"scores need one entry per player everywhere, found {sizes}")
        if wrong := set(self.decision) - set(get_args(Decision)):
            raise HeadwiseError(f"a decision is one of {', '.join(get_args(Decision))}, not {sorted(wrong)[0]!r}")

    def values(self) -> NDArray[np.float64]:
        """The values as an array, (players,)."""
        return np.array(self.value, dtype=np.float64)

    def decided(self, decision: Decision) -> tuple[str, ...]:
        """The names of the players with the given decision."""
        return tuple(name for name, found in zip(self.players, self.decision, strict=True) if found == decision)

    def ranking_values(self) -> NDArray[np.float64]:
        """The values that rankings use, (players,): the shrunk ones if there are any."""
        return np.array(self.shrunk or self.value, dtype=np.float64)

    def ranked(self) -> tuple[str, ...]:
        """The names of the players that have a value, lowest first; by shrunk values if there are any."""
        values = self.ranking_values()
        order = np.argsort(values, kind="stable")
        return tuple(self.players[place] for place in order if not math.isnan(values[place]))

    def mask(
        self,
        rule: Rule | None = None,
        *,
        count: int | None = None,
        share: float | None = None,
        false_share: float = FALSE_SHARE,
    ) -> HeadMask:
        """The mask that removes the players chosen by a rule.

        Args:
            rule: `harmful`: the players decided to be harmful. `likely`: all players that are likely harmful.
            count: Instead of a rule, the number of players with the lowest values to remove.
            share: Instead of a rule, the share of the players with the lowest values to remove.
            false_share: For `likely`, the expected share of harmless players among those that are removed.

        Raises:
            HeadwiseError: Not exactly one of `rule`, `count` and `share` is given, or the rule does not exist or apply.
        """
        given = [each for each in (rule, count, share) if each is not None]
        if len(given) != 1:
            raise HeadwiseError("mask: give one of a rule ('harmful' or 'likely'), count or share")
        if count is not None:
            return self.without(lowest_players(self, count))
        if share is not None:
            return self.without(lowest_share(self, share))
        if rule not in get_args(Rule):
            raise HeadwiseError(f"mask: the rule is one of {', '.join(get_args(Rule))}, not {rule!r}")
        return self.without(self.decided("harmful") if rule == "harmful" else likely_harmful(self, false_share))

    def without(self, off: Sequence[str]) -> HeadMask:
        """The mask of the scored model with some players off.

        Raises:
            HeadwiseError: A name is not one of the players, or the scores do not say what their players consist of.
        """
        members = dict(zip(self.players, self.members or ((name,) for name in self.players), strict=True))
        if unknown := [name for name in off if name not in members]:
            raise HeadwiseError(f"there is no player {unknown[0]!r}: there are {describe_shape(self.players)}")
        if not self.members and any(name.rpartition(".")[2].startswith("kv") for name in self.players):
            raise HeadwiseError("these scores do not say which heads their players consist of: score the model again")
        gone = {member for name in off for member in members[name]}
        players = tuple(member for each in members.values() for member in each)
        on = tuple(name not in gone for name in players)
        origin = self.provenance
        return HeadMask(players, on, self.kind, origin.model, origin.fingerprint, origin.language)

    def __repr__(self) -> str:
        origin = self.provenance
        of = f"{self.kind} of {origin.model}" if origin.model else self.kind
        language = f", {origin.language}" if origin.language else ""
        likely = f"{len(likely_harmful(self))} likely harmful, " if tells_likely(self) else ""
        borrowed = f", with strength borrowed from {len(origin.borrowed)} languages" if origin.borrowed else ""
        counts = {decision: len(self.decided(decision)) for decision in get_args(Decision)}
        return (
            f"HeadScores({len(self.players)} {of}{language} by {origin.method}, {origin.estimand}{borrowed}: "
            f"{counts['harmful']} harmful, {likely}{counts['helpful']} helpful, {counts['undecided']} undecided)"
        )

    def _repr_html_(self) -> str:
        """One coloured square per player, for notebooks."""
        values = self.values()
        largest = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0
        tips = [
            f"{name}: {value:+.3g} ± {error:.2g}, {decision}"
            for name, value, error, decision in zip(self.players, self.value, self.stderr, self.decision, strict=True)
        ]
        colours = [diverging_colour(value, largest) for value in self.value]
        return html_grid(repr(self), self.players, colours, tips)

    def interval(self, confidence: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The ends of a normal interval around each value, (players,) each.

        It is valid for a single player at a fixed budget. Decisions use stricter bounds, which hold for all players
        simultaneously.
        """
        if not 0 < confidence < 1:
            raise HeadwiseError(f"a confidence is between 0 and 1, not {confidence}")
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * np.array(self.stderr, dtype=np.float64)
        return self.values() - reach, self.values() + reach

    def compare(self, other: "HeadScores") -> Comparison:
        """Compare with other scores of the same players: another seed, language, game or method.

        Raises:
            HeadwiseError: The players or the estimands are not the same, or too few players have a value.
        """
        self._require_comparable(other)
        known = ~np.isnan(self.values()) & ~np.isnan(other.values())  # (players,)
        here, there = self.values()[known], other.values()[known]
        both_clear = clear(here, np.array(self.stderr)[known]) & clear(there, np.array(other.stderr)[known])
        names = np.array(self.players)[known]
        opposed = zip(self.players, self.decision, other.decision, strict=True)
        return Comparison(
            compared=len(here),
            correlation=spearman(here, there),
            signs=sign_agreement(here, there, np.ones_like(both_clear)),
            clear_signs=sign_agreement(here, there, both_clear),
            jaccard=jaccard(self.decided("harmful"), other.decided("harmful")),
            opposite_decisions=tuple(name for name, one, two in opposed if {one, two} == {"harmful", "helpful"}),
            opposite_signs=tuple(names[both_clear & (np.sign(here) != np.sign(there))].tolist()),
        )

    def _require_comparable(self, other: "HeadScores") -> None:
        if self.players != other.players:
            raise HeadwiseError(
                f"scores of {describe_shape(self.players)} cannot be compared with scores of "
                f"{describe_shape(other.players)}: compare scores of the same players"
            )
        mine, its = self.provenance.estimand, other.provenance.estimand
        if mine != its:
            raise HeadwiseError(
                f"scores that estimate {mine} cannot be compared with scores that estimate {its}: "
                "compare scores of one estimand"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scores as JSON, atomically."""
        write_json(path, {"format": FORMAT, "version": VERSION, **self.to_dict()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "HeadScores":
        """Read scores that `save` wrote.

        Raises:
            HeadwiseError: The file is missing or not a file of scores; the message names it and the field.
        """
        data = read_json(path, FORMAT, VERSION)
        try:
            return cls.from_dict(data)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise HeadwiseError(f"{path}: not a complete file of scores: {error!r}") from None

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain data that JSON can hold."""
        rows: list[dict[str, Any]] = [
            {"player": name, "value": number(value), "stderr": number(stderr), "count": int(n), "decision": decision}
            for name, value, stderr, n, decision in zip(
                self.players, self.value, self.stderr, self.count, self.decision, strict=True
            )
        ]
        for row, shrunk, error in zip(rows, self.shrunk, self.shrunk_error, strict=False):
            row |= {"shrunk": number(shrunk), "shrunk_error": number(error)}
        for row, members in zip(rows, self.members, strict=False):
            row["members"] = list(members)
        return {"players": self.kind, "provenance": dataclasses.asdict(self.provenance), "rows": rows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "HeadScores":
        """The scores that `to_dict` described."""
        rows = data["rows"]
        if data["players"] not in get_args(PlayerKind):
            raise ValueError(f"players = {data['players']!r}")
        return cls(
            players=tuple(str(row["player"]) for row in rows),
            value=tuple(_read_number(row["value"]) for row in rows),
            stderr=tuple(_read_number(row["stderr"]) for row in rows),
            count=tuple(int(row["count"]) for row in rows),
            decision=tuple(cast(Decision, row["decision"]) for row in rows),
            provenance=Provenance.from_dict(data["provenance"]),
            kind=data["players"],
            members=tuple(tuple(map(str, row["members"])) for row in rows if "members" in row),
            shrunk=tuple(_read_number(row["shrunk"]) for row in rows if "shrunk" in row),
            shrunk_error=tuple(_read_number(row["shrunk_error"]) for row in rows if "shrunk" in row),
        )


def stability(scores: Sequence[HeadScores]) -> Stability:
    """The agreement of several runs, such as runs with different seeds.

    Raises:
        HeadwiseError: There are fewer than two runs, or they cannot be compared.

    Example:
        >>> first = HeadScores(("encoder.0.0", "encoder.0.1"), (0.5, -0.25), (0.1, 0.1), (9, 9),
        ...                    ("helpful", "harmful"), Provenance("stars", "full"))
        >>> stability([first, dataclasses.replace(first, decision=("helpful", "undecided"))])
        Stability(runs=2, jaccard=0.0, correlation=1.0, harmful=())
    """
    if len(scores) < 2:
        raise HeadwiseError(f"stability is over at least 2 runs, not {len(scores)}")
    pairs = [one.compare(other) for one, other in combinations(scores, 2)]
    always = set.intersection(*(set(each.decided("harmful")) for each in scores))
    return Stability(
        runs=len(scores),
        jaccard=float(np.mean([pair.jaccard for pair in pairs])),
        correlation=float(np.mean([pair.correlation.rho for pair in pairs])),
        harmful=tuple(name for name in scores[0].players if name in always),
    )


def number(value: float) -> float | str | None:
    """A number as JSON can hold it: NaN becomes null, infinities become strings."""
    value = float(value)
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else str(value)


def _read_number(value: float | str | None) -> float:
    return math.nan if value is None else float(value)
