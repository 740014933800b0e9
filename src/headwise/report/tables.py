"""Plain tables: tables of studies, cost, provenance and commands."""

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from headwise.report.contents import Report, ScoringCost, Section
from headwise.report.html import element, isolated, joined, table_frame
from headwise.report.numbers import count, duration
from headwise.scores import HeadScores

#: Fields of the provenance of scores, and their titles in the report.
_FIELDS = {
    "method": "Method", "estimand": "Estimand", "game": "Value of a coalition", "error_rate": "Error rate",
    "confidence": "Bounds of the decisions", "seed": "Seed", "fingerprint": "Fingerprint of the weights",
}  # fmt: skip


def table_section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> Section:
    """A plain table.

    Args:
        title: Title of the section.
        columns: Titles of the columns.
        rows: Cells as text.
        note: A note below the table.
    """
    head = [
        element("th", column, scope="col", class_="number" if place else None) for place, column in enumerate(columns)
    ]
    lines = (
        element(
            "tr",
            element("th", isolated(first), scope="row"),
            *(element("td", isolated(cell), class_="number") for cell in cells),
        )
        for first, *cells in rows
    )
    table = element("table", element("thead", element("tr", *head)), element("tbody", *lines), class_="plain")
    below = element("p", note, class_="legend") if note else None
    return Section(title, joined([table_frame(title, table), below]))


def cost_section(costs: tuple[ScoringCost, ...]) -> Markup | None:
    """The cost of scoring; None if it is not known."""
    if not costs:
        return None
    timed = any(cost.seconds is not None for cost in costs)
    rows = [(isolated(cost.language), cost) for cost in costs]
    units, seconds = sum(cost.units for cost in costs), sum(cost.seconds or 0 for cost in costs)
    total = ScoringCost("", units, seconds if all(cost.seconds is not None for cost in costs) else None)
    titles = ["Language", "Units", "Time"][: 3 if timed else 2]
    head = [element("th", title, scope="col", class_=None if title == "Language" else "number") for title in titles]
    table = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *(_cost_row(name, cost, timed) for name, cost in rows)),
        element("tfoot", _cost_row(Markup("Total"), total, timed)) if len(costs) > 1 else None,
    )
    text = element("p", "One unit is one pass of one example through the whole model.", class_="legend")
    return joined([table_frame("Cost by language", table), text])


def _cost_row(name: Markup, cost: ScoringCost, timed: bool) -> Markup:
    time = element("td", duration(cost.seconds), class_="number") if timed else None
    return element("tr", element("th", name, scope="row"), element("td", count(cost.units), class_="number"), time)


def provenance_section(report: Report) -> Markup | None:
    """The provenance of the results; None if nothing is known."""
    pairs = {"Model": report.model, "Task": report.task, "Data": report.data}
    pairs |= dict(_score_provenance(report.scores)) | dict(report.provenance)
    rows = [(name, value) for name, value in pairs.items() if value]
    if not rows:
        return None
    return element("dl", *(joined([element("dt", name), element("dd", isolated(value))]) for name, value in rows))


def _score_provenance(scores: Mapping[str, HeadScores]) -> Iterator[tuple[str, str]]:
    """The provenance of the scores: one value per field if all languages agree, otherwise all values."""
    for field, title in _FIELDS.items():
        values = [getattr(each.provenance, field) for each in scores.values()]
        yield title, ", ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    versions = {f"{name} {version}" for each in scores.values() for name, version in each.provenance.versions.items()}
    yield "Versions", ", ".join(sorted(versions))


def commands_section(commands: tuple[str, ...]) -> Markup | None:
    """The commands that repeat the run; None if they are not known."""
    return element("pre", "\n".join(commands), tabindex="0") if commands else None
