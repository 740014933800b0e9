"""Comparison of languages: rank correlations, and the heads that they share or differ in."""

import math
import unicodedata
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from headwise.report.html import element, isolated, joined, table_frame
from headwise.report.names import name_of
from headwise.report.numbers import plain, plural, with_minus
from headwise.report.palette import level
from headwise.scores import HeadScores
from headwise.scores.affinity import Array, Shared, shared_scores, specific_to

# Pixels per cell, and the maximum number of characters of a label.
_CELL, _LONGEST = 34, 24


def clustered(rho: Array) -> list[int]:
    """An order in which correlated languages are neighbours: the leaves of average-linkage clustering.

    Example:
        >>> clustered(np.array([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]]))
        [0, 2, 1]
    """
    # Imported here because it takes about half a second.
    from scipy.cluster.hierarchy import leaves_list, linkage  # type: ignore[import-untyped]

    if len(rho) < 2:
        return list(range(len(rho)))
    above = np.triu_indices(len(rho), 1)
    tree = linkage(1 - np.nan_to_num(rho[above]), method="average", optimal_ordering=True)
    order: list[int] = leaves_list(tree).tolist()
    return order if order[0] < order[-1] else order[::-1]  # both directions are the same tree; choose one


def likeness_section(scores: Mapping[str, HeadScores], noun: str) -> Markup | None:
    """The map of rank correlations between languages; None if they cannot be compared."""
    shared = shared_scores(scores)
    if shared is None:
        return None
    rho = shared.likeness()
    order = clustered(rho)
    names = [_label(shared.languages[place]) for place in order]
    rho = rho[np.ix_(order, order)]
    lowest = float(np.where(np.isnan(rho), 1.0, rho).min())
    floor = -1.0 if lowest < 0 else min(math.floor(10 * lowest) / 10, 0.9)
    text = (
        f"Spearman’s rank correlation of the values of {plural(len(shared.players), noun)}. "
        f"Similar languages are neighbours. The colour scale is {with_minus(f'{floor:g}')} to 1."
    )
    frame = element("div", _map(names, rho, floor), class_="frame")
    return joined([element("p", text), frame])


def _map(names: list[str], rho: Array, floor: float) -> Markup:
    """The map, in units of one cell, with the names of the languages on the left and above."""
    margin = 0.5 + max(_width(_short(name)) for name in names) * 0.21
    n = len(names)
    return element(
        "svg",
        *(element("text", _short(name), x=-0.2, y=row + 0.6, text_anchor="end") for row, name in enumerate(names)),
        *(
            element("text", _short(name), transform=f"translate({column + 0.6:g} -.2) rotate(-90)")
            for column, name in enumerate(names)
        ),
        *(element("g", *_row(names, rho, floor, row), role="row", transform=f"translate(0 {row})") for row in range(n)),
        viewBox=f"{-margin:.2f} {-margin:.2f} {n + margin:.2f} {n + margin:.2f}",
        width=round((n + margin) * _CELL),
        font_size=".38",
        class_="likeness",
        role="grid",
        aria_label="Rank correlation between languages",
    )


def _row(names: list[str], rho: Array, floor: float, row: int) -> Iterator[Markup]:
    for column, value in enumerate(rho[row].tolist()):
        step = level(value - floor, 1 - floor) if floor >= 0 else level(value, 1.0)
        about = f"{names[row]}, {names[column]}\nρ = {plain(value, 3)}"
        yield element("rect", x=column, class_="none" if step is None else f"s{step}", aria_label=about)
        if step is not None and row != column:
            ink = "over" if abs(step) > 10 else "middling" if abs(step) > 8 else None
            yield element("text", plain(value, 2), x=column + 0.47, y=0.59, text_anchor="middle", class_=ink,
                          aria_hidden="true")  # fmt: skip


def _label(code: str) -> str:
    name = name_of(code)
    return code if name == code else f"{name} {code}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _width(text: str) -> int:
    """The width of a text in half-width characters."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def common_section(scores: Mapping[str, HeadScores], noun: str) -> Markup | None:
    """Agnostic and specific heads; None if the languages cannot be compared."""
    shared = shared_scores(scores)
    if shared is None:
        return None
    agnostic, opposed = shared.agnostic(), shared.opposed()
    chips = element("ul", *(element("li", head_link(name)) for name in agnostic), class_="chips")
    return joined(
        [
            element("h3", f"In every language’s top {shared.top}"),
            chips if agnostic else element("p", f"No {noun}."),
            element("h3", "Harmful in one language, helpful in another"),
            _opposed_table(shared, opposed, noun) if opposed else element("p", f"No {noun}."),
        ]
    )


def head_link(name: str) -> Markup:
    """The name of a head, as a link to its page."""
    return element("a", element("code", name), href=f"#head={quote(name)}")


def _opposed_table(shared: Shared, opposed: Mapping[str, Array], noun: str) -> Markup:
    alone = sum(specific_to(decisions) is not None for decisions in opposed.values())
    specific = ": decided in every language, and opposite in one language only (in bold)" if alone else ""
    text = f"{plural(len(opposed), noun)}, {alone or 'none'} of them specific to one language{specific}."
    titles = (f"{noun[0].upper()}{noun[1:]}", "Helpful in", "Harmful in", "Undecided")
    table = element(
        "table",
        element("thead", element("tr", *(element("th", title, scope="col") for title in titles))),
        element("tbody", *(_opposed_row(shared, name, decisions) for name, decisions in opposed.items())),
    )
    return joined([element("p", text), table_frame("Differences between languages", table)])


def _opposed_row(shared: Shared, name: str, decisions: Array) -> Markup:
    alone = specific_to(decisions)
    cells = [element("th", head_link(name), scope="row")]
    for sign in (1.0, -1.0):
        [found] = np.nonzero(decisions == sign)
        names = [isolated(name_of(shared.languages[place])) for place in found]
        bold = [element("strong", name) if place == alone else name for place, name in zip(found, names, strict=True)]
        cells.append(element("td", Markup(", ").join(bold)))
    return element("tr", *cells, element("td", str(int((decisions == 0).sum())), class_="number"))
