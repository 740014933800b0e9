"""Plain tables: tables of studies, cost, provenance and commands."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from markupsafe import Markup

from headwise.report.contents import LanguageCost, Report, Section
from headwise.report.html import element, isolated, joined, table_frame
from headwise.report.names import language_label, short_list
from headwise.report.numbers import MISSING, count, duration
from headwise.report.palette import STEPS
from headwise.scores import HeadScores

#: Number of letters of a cell that should not be one word wide.
_LONG = 24
#: Fields of the provenance of scores, and their titles in the report.
_FIELDS = {
    "method": "Method", "estimand": "Estimand", "game": "Value of a coalition", "error_rate": "Error rate",
    "confidence": "Bounds of the decisions", "seed": "Seed", "fingerprint": "Fingerprint of the weights",
}  # fmt: skip


def table_section(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    note: str = "",
    shades: Sequence[Sequence[float]] | None = None,
    texts: Collection[int] = (),
) -> Section:
    """A plain table.

    Args:
        title: Title of the section.
        columns: Titles of the columns.
        rows: Cells as text, or as markup.
        note: A note below the table.
        shades: How dark the background of each cell is, from 0 to 1.
        texts: Places of the columns of text; all others are aligned as numbers, except the first.
    """
    kinds = [None if place in texts or not place else "number" for place in range(len(columns))]
    head = [element("th", column, scope="col", class_=kind) for column, kind in zip(columns, kinds, strict=True)]
    lines = (
        element(
            "tr",
            element("th", isolated(first), scope="row", class_=_room(first)),
            *(
                element(
                    "td", isolated(cell), class_=kind if shades is None else f"number {_shade(shades[row][column])}"
                )
                for column, (cell, kind) in enumerate(zip(cells, kinds[1:], strict=True), 1)
            ),
        )
        for row, (first, *cells) in enumerate(rows)
    )
    table = element("table", element("thead", element("tr", *head)), element("tbody", *lines), class_="plain")
    below = element("p", note, class_="legend") if note else None
    return Section(title, joined([table_frame(title, table), below]))


def _room(cell: str) -> str | None:
    """The class of a cell with many words, which needs room on a narrow screen."""
    return "words" if len(Markup(cell).striptags()) > _LONG else None


def _shade(share: float) -> str:
    """The class of a shaded cell: at most half of the scale, so that text stays readable."""
    return f"s{round(STEPS / 2 * share)}"


def masks_section(
    masks: Mapping[str, Mapping[str, tuple[str, ...]]], commands: Mapping[str, str], noun: str
) -> Section | None:
    """The players that masks would remove, before they are judged on test data; None if no player is removed.

    Args:
        masks: The players that are off, by name of the mask and language.
        commands: For each mask, the command that prunes by it, with `{language}` for the language.
        noun: Name of one player, such as `head`.
    """
    found = {name: languages for name, languages in masks.items() if any(languages.values())}
    if not found:
        return None
    rows = [
        element(
            "tr",
            element("th", language_label(language), scope="row"),
            element("td", name),
            element("td", str(len(off)), class_="number"),
            element("td", element("code", short_list(off))),
        )
        for language in dict.fromkeys(language for languages in found.values() for language in languages)
        for name, languages in found.items()
        if (off := languages.get(language))
    ]
    titles = ("Language", "Mask", "Number", f"{noun[:1].upper()}{noun[1:]}s")
    table = element(
        "table",
        element("thead", element("tr", *(element("th", title, scope="col") for title in titles))),
        element("tbody", *rows),
    )
    lines = []
    for name in (name for name in found if name in commands):
        most = max((len(off), language) for language, off in found[name].items())[1]
        lines.append(commands[name].replace("{language}", shlex.quote(most)))
    text = (
        f"The {noun}s that each mask removes, chosen on dev data. Their effect on test data has not been measured here."
    )
    body = [element("p", text), table_frame("Masks", table), element("h3", "Prune")]
    return Section("Masks", joined([*body, element("pre", "\n".join(lines), tabindex="0")]), masks=found)


def cost_section(costs: tuple[LanguageCost, ...]) -> Markup | None:
    """The cost of every step and language; None if it is not known."""
    if not costs:
        return None
    steps = list(dict.fromkeys(step for cost in costs for step in cost.units))
    timed = any(cost.seconds is not None for cost in costs)
    titles = [*(f"{step[:1].upper()}{step[1:]}" for step in steps), *(["Total"] if len(steps) > 1 else [])]
    titles += ["Time of scoring"] if timed else []
    units = {step: sum(cost.units.get(step, 0.0) for cost in costs) for step in steps}
    known = all(cost.seconds is not None for cost in costs)
    total = LanguageCost("", units, sum(cost.seconds or 0 for cost in costs) if known else None)
    head = [element("th", "Language", scope="col"), *(element("th", t, scope="col", class_="number") for t in titles)]
    table = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *(_cost_row(language_label(cost.language), cost, steps, timed) for cost in costs)),
        element("tfoot", _cost_row(Markup("Total"), total, steps, timed)) if len(costs) > 1 else None,
    )
    text = "In units: passes of one example through the whole model; a pass with gradients counts twice."
    if "testing" in steps:
        text += " Testing is at most this: masks that are tested together share passes through the first layers."
    return joined([table_frame("Cost by language", table), element("p", text, class_="legend")])


def _cost_row(name: Markup, cost: LanguageCost, steps: Sequence[str], timed: bool) -> Markup:
    numbers = [count(cost.units[step]) if step in cost.units else MISSING for step in steps]
    numbers += [count(sum(cost.units.values()))] if len(steps) > 1 else []
    numbers += [duration(cost.seconds)] if timed else []
    return element("tr", element("th", name, scope="row"), *(element("td", text, class_="number") for text in numbers))


def provenance_section(report: Report) -> Markup | None:
    """The provenance of the results, each fact once; None if nothing is known."""
    pairs = {"Model": report.model, "Task": report.task, "Data": report.data}
    pairs |= dict(_score_provenance(report.scores))
    known = {title.lower() for title, value in pairs.items() if value}
    known |= {field.replace("_", " ") for field, title in _FIELDS.items() if pairs.get(title)}
    for name, value in report.provenance.items():
        title = f"{name[:1].upper()}{name[1:]}".replace("_", " ")
        if title.lower() not in known:
            pairs[title] = value
    rows = [(name, value) for name, value in pairs.items() if value]
    if not rows:
        return None
    return element("dl", *(joined([element("dt", name), element("dd", isolated(value))]) for name, value in rows))


def _score_provenance(scores: Mapping[str, HeadScores]) -> Iterator[tuple[str, str]]:
    """The provenance of the scores: one value per field if all languages agree, otherwise all values."""
    for field, title in _FIELDS.items():
        values = [getattr(each.provenance, field) for each in scores.values()]
        yield title, ", ".join(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    baselines = {each.provenance.baseline for each in scores.values()} - {"zero"}
    yield "Baseline", ", ".join(sorted(baselines))
    versions = {f"{name} {version}" for each in scores.values() for name, version in each.provenance.versions.items()}
    yield "Versions", ", ".join(sorted(versions))


def commands_section(commands: tuple[str, ...]) -> Markup | None:
    """The commands that repeat the run; None if they are not known."""
    return element("pre", "\n".join(commands), tabindex="0") if commands else None
