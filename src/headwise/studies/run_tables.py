"""The numbers of figures as tables: scores, gains, curves, similarity of languages, roles by layer."""

from collections.abc import Mapping, Sequence

from headwise.errors import HeadwiseError
from headwise.report import Curve, MaskGains
from headwise.roles.summaries import roles_by_layer
from headwise.roles.table import HeadRoles
from headwise.scores import HeadScores
from headwise.scores.affinity import shared_scores
from headwise.studies.tables import Figure, StudyTable, TableCell


def score_table(scores: Mapping[str, HeadScores], noun: str) -> StudyTable:
    """The value of every head in every language, with its interval and decision.

    Args:
        scores: The scores by language.
        noun: Name of one player, such as `head`.
    """
    rows: list[tuple[TableCell, ...]] = []
    for language, each in scores.items():
        low, high = each.interval()
        numbers = (each.value, each.stderr, low.tolist(), high.tolist(), each.count, each.decision)
        rows += [
            (language, player, *(None if cell != cell else cell for cell in cells))
            for player, *cells in zip(each.players, *numbers, strict=True)
        ]
    columns = ("language", noun, "value", "stderr", "low", "high", "samples", "decision")
    return StudyTable("maps", f"values of all {noun}s", columns, tuple(rows))


def gain_table(kinds: Sequence[MaskGains], metric: str) -> StudyTable:
    """The gain of every language by every kind of mask."""
    rows = tuple(
        (
            gain.language, kind.name, gain.heads_removed, gain.base, gain.pruned,
            Figure(gain.difference, gain.difference, gain.p_value, signed=True), gain.low, gain.high,
            gain.random_difference, gain.parameters[1] if gain.parameters else None,
            gain.flops[1] if gain.flops else None,
        )
        for kind in kinds
        for gain in kind.gains
    )  # fmt: skip
    columns = (
        "language", "mask", "removed", "whole model", "pruned", "difference", "low", "high", "random difference",
        "parameters", "operations",
    )  # fmt: skip
    return StudyTable("gains", f"{metric} by mask", *_known(columns, rows))


def _known(
    columns: Sequence[str], rows: Sequence[tuple[TableCell, ...]]
) -> tuple[tuple[str, ...], tuple[tuple[TableCell, ...], ...]]:
    """The columns that have a value."""
    places = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    return tuple(columns[place] for place in places), tuple(tuple(row[place] for place in places) for row in rows)


def curve_table(curves: Sequence[Curve], metric: str, axis: str) -> StudyTable:
    """The points of all curves."""
    rows: list[tuple[TableCell, ...]] = []
    for curve in curves:
        none = [None] * len(curve.removed)
        points = zip(curve.removed, curve.value, curve.low or none, curve.high or none, strict=True)
        rows += [(curve.language, curve.ranking, *point) for point in points]
    columns = ("panel", "line", axis, metric, "low", "high")
    return StudyTable("curves", f"{metric} by {axis}", *_known(columns, rows))


def likeness_table(scores: Mapping[str, HeadScores]) -> StudyTable:
    """Spearman's rank correlation between the values of all pairs of languages.

    Raises:
        HeadwiseError: The languages cannot be compared.
    """
    shared = shared_scores(scores)
    if shared is None:
        raise HeadwiseError("the similarity of languages needs scores of the same heads in at least two languages")
    rows = tuple(
        (language, *(None if rho != rho else rho for rho in row))
        for language, row in zip(shared.languages, shared.likeness().tolist(), strict=True)
    )
    return StudyTable("likeness", "rank correlation of values", ("language", *shared.languages), rows)


def role_table(roles: HeadRoles) -> StudyTable:
    """The number of heads with each role in each layer, as a mean over languages."""
    found = roles_by_layer(roles)
    layers = max(table.shape[1] for _, table in found.values())
    rows: list[tuple[TableCell, ...]] = [
        (stack, role, *counts, *[None] * (layers - len(counts)))
        for stack, (names, table) in found.items()
        for role, counts in zip(names, table.tolist(), strict=True)
    ]
    columns = ("stack", "role", *(f"layer {layer}" for layer in range(layers)))
    return StudyTable("roles", "heads with each role, mean over languages", columns, tuple(rows))
