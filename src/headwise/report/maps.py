"""Heat maps of heads: one per language, coloured by value, with the details of each head in its cell."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from headwise.report.contents import NOUNS
from headwise.report.grids import PlayerGrid, grids
from headwise.report.html import element, isolated, joined
from headwise.report.numbers import decimals_for, plain, plural, signed, span
from headwise.report.palette import STEPS, level, limit_of
from headwise.scores import HeadScores
from headwise.stats import Decision

# Pixels: maximum and minimum width of a cell, maximum width of all columns, and font size of the labels.
_WIDEST, _NARROWEST, _WIDTH, _LETTERS = 21, 11, 400, 10.5
_CONFIDENCE = 0.95
#: Marks: horizontal and vertical offset in a cell, and outline as an SVG path.
_SHAPES = {
    "hatched": (0.0, 0.0, "h.94v.94h-.94z"),
    "minus": (0.27, 0.41, "h.4v.12h-.4z"),
    "gone": (0.37, 0.37, "h.2v.2h-.2z"),
}

#: The hatching pattern of all maps.
HATCHING = Markup(
    '<svg class="definitions" width="0" height="0" aria-hidden="true"><defs>'
    '<pattern id="hatch" width=".3" height=".3" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width=".08" height=".3" class="hatch"/><rect x=".08" width=".08" height=".3" class="hatch-gap"/>'
    "</pattern></defs></svg>"
)


@dataclass(frozen=True)
class _Scale:
    """Limits of the colour scale, shared by all maps or of one map, and the number of decimals of values."""

    shared: float
    own: float
    decimals: int


def maps_section(scores: Mapping[str, HeadScores]) -> Markup | None:
    """A map for every language; None if there are no scores.

    Raises:
        HeadwiseError: A player's name is invalid.
    """
    scores = {language: each for language, each in scores.items() if each.players}
    if not scores:
        return None
    limit = limit_of([value for each in scores.values() for value in each.value])
    decimals = decimals_for([value for each in scores.values() for value in each.value])
    gaps = any(grid.gaps for each in scores.values() for grid in grids(each.players, each.kind))
    figures = [
        _figure(language, each, _Scale(limit, limit_of(each.value), decimals)) for language, each in scores.items()
    ]
    switch = element(
        "label",
        element("input", type="checkbox", id="own-scale"),
        " separate colour scale for each language",
        class_="switch",
    )
    return joined(
        [
            element("div", _legend(limit, decimals, gaps), switch if len(scores) > 1 else None, class_="bar-row"),
            element("div", *figures, class_="maps"),
        ]
    )


def _figure(language: str, scores: HeadScores, scale: _Scale) -> Markup:
    counts = ", ".join(
        f"{len(scores.decided(decision))} {decision}" for decision in ("harmful", "helpful", "undecided")
    )
    caption = element(
        "figcaption",
        element("strong", isolated(language)),
        element("span", counts),
        element("span", f"colour scale: ±{plain(scale.own, scale.decimals)}", class_="own-only"),
    )
    drawn = [
        joined([element("h3", grid.title) if grid.title else None, _svg(grid, language, scores, scale)])
        for grid in grids(scores.players, scores.kind)
    ]
    return element("figure", caption, *drawn)


def _svg(grid: PlayerGrid, language: str, scores: HeadScores, scale: _Scale) -> Markup:
    """One map, in units of one cell: labels, cells, hatching, marks."""
    cell = max(_NARROWEST, min(_WIDEST, _WIDTH / grid.columns))
    font = _LETTERS / cell
    margin = (max(len(name) for name in grid.row_names) + 1) * 0.6 * font + (0.9 * font if grid.row_title else 0)
    rows = len(grid.row_names)
    width, height = margin + grid.columns, rows + 2.5 * font
    name = ", ".join(filter(None, (language, grid.title)))
    return element(
        "svg",
        *_labels(grid, font, margin),
        *_cells(grid, scores, scale),
        _marks("hatched", _places(grid, scores, "undecided")),
        _marks("minus", _places(grid, scores, "harmful")),
        _marks("gone", grid.gaps),
        viewBox=f"{-margin:.2f} 0 {width:.2f} {height:.2f}",
        width=round(width * cell),
        font_size=f"{font:.2f}",
        role="grid",
        aria_label=f"{NOUNS[scores.kind]}s by {grid.row_title or 'stack'}: {name}",
    )


def _labels(grid: PlayerGrid, font: float, margin: float) -> Iterator[Markup]:
    step, rows = math.ceil(1.5 * font), len(grid.row_names)
    for row in range(0, rows, step if grid.row_title else 1):
        yield element("text", grid.row_names[row], x=f"{-0.4 * font:.2f}", y=f"{row + 0.47 + 0.35 * font:.2f}",
                      text_anchor="end")  # fmt: skip
    for column in range(0, grid.columns, step):
        yield element("text", str(column), x=column + 0.47, y=f"{rows + font:.2f}", text_anchor="middle")
    yield element("text", grid.column_title, x=grid.columns / 2, y=f"{rows + 2.2 * font:.2f}", text_anchor="middle")
    if grid.row_title:
        at = f"rotate(-90) translate({-rows / 2:g} {0.8 * font - margin:.2f})"
        yield element("text", grid.row_title, transform=at, text_anchor="middle")


def _cells(grid: PlayerGrid, scores: HeadScores, scale: _Scale) -> Iterator[Markup]:
    low, high = scores.interval(_CONFIDENCE)
    for row in range(len(grid.row_names)):
        cells = []
        for column in range(grid.columns):
            place = grid.places.get((row, column))
            if place is None:
                continue
            value = scores.value[place]
            about = _describe(scores, place, float(low[place]), float(high[place]), scale.decimals)
            cells.append(element("rect", x=column, class_=_colour(value, scale), aria_label=about))
        if cells:
            yield element("g", *cells, role="row", transform=f"translate(0 {row})")


def _colour(value: float, scale: _Scale) -> str:
    """CSS classes of a cell: its colour on the shared scale and, if different, on its own scale."""
    shared, alone = level(value, scale.shared), level(value, scale.own)
    if shared is None:
        return "none"
    return f"s{shared}" if alone == shared else f"s{shared} o{alone}"


def _describe(scores: HeadScores, place: int, low: float, high: float, decimals: int) -> str:
    """The details of one player, one per line: name, value, interval, decision and number of samples."""
    value, stderr = scores.value[place], scores.stderr[place]
    if math.isnan(value):
        return f"{scores.players[place]}\nno value"
    sure = not math.isnan(stderr)
    lines = [
        scores.players[place],
        signed(value, decimals) + (f" ± {plain(stderr, decimals)}" if sure else ""),
        f"{_CONFIDENCE:.0%}: {span(low, high, decimals)}" if sure else "",
        f"{scores.decision[place]}, {plural(scores.count[place], 'flip')}",
    ]
    return "\n".join(filter(None, lines))


def _places(grid: PlayerGrid, scores: HeadScores, decision: Decision) -> Iterator[tuple[int, int]]:
    """The rows and columns of the players with the given decision."""
    for at, place in grid.places.items():
        if scores.decision[place] == decision and not math.isnan(scores.value[place]):
            yield at


def _marks(kind: str, places: Iterable[tuple[int, int]]) -> Markup | None:
    """A mark in the given cells, as one path; None if there are no cells."""
    right, down, shape = _SHAPES[kind]
    path = "".join(f"M{column + right:g} {row + down:g}{shape}" for row, column in places)
    return element("path", d=path, class_=kind) if path else None


def _legend(limit: float, decimals: int, gaps: bool) -> Markup:
    """The colour scale and the meaning of the marks."""
    steps = range(-STEPS, STEPS + 1)
    scale = element(
        "svg",
        *(element("rect", x=step + STEPS, y=0, width=1.05, height=2, class_=f"s{step}") for step in steps),
        viewBox=f"0 0 {2 * STEPS + 1} 2",
        width=198,
        height=12,
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    end = plain(limit, decimals)
    return element(
        "div",
        element("span", "harmful ", element("b", f"≤ −{end}", class_="shared-only"), class_="scale-end"),
        scale,
        element("span", element("b", f"≥ +{end}", class_="shared-only"), " helpful", class_="scale-end"),
        _swatch("hatched", "undecided", "s3"),
        _swatch("minus", "decided harmful", "s-3"),
        _swatch("gone", "absent") if gaps else None,
        class_="scale",
    )


def _swatch(kind: str, meaning: str, colour: str | None = None) -> Markup:
    cell = element("rect", width=0.94, height=0.94, class_=colour) if colour else None
    drawn = element("svg", cell, _marks(kind, [(0, 0)]), viewBox="0 0 .94 .94", width=16, height=16, aria_hidden="true")
    return element("span", drawn, f" {meaning}", class_="swatch")
