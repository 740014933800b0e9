"""The atlas of heads: controls, legend and the place where the script draws the maps of all languages."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from headwise.report.html import element, joined
from headwise.report.numbers import plain
from headwise.report.palette import STEPS
from headwise.scores import HeadScores

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


_KEYS = "With the keyboard: Tab to a map, arrow keys to move, Enter to open, / to search, Escape to close."


def atlas_section(payload: dict[str, Any] | None, scores: Mapping[str, HeadScores]) -> Markup | None:
    """The atlas; None if there are no scores.

    Args:
        payload: The data of the page (`payload_of`).
        scores: The scores of all languages.
    """
    if payload is None:
        return None
    noun, several = payload["noun"], len(payload["languages"]) > 1
    return joined(
        [
            element("p", _meaning(scores, noun)) if _meaning(scores, noun) else None,
            element("p", f"Click a {noun} for its values in all languages. {_KEYS}"),
            _controls(payload, several),
            _legend(payload),
            element("noscript", element("p", "The maps are drawn by a script: allow scripts to see them.")),
            element("div", id="overview"),
            element("div", id="maps", class_="maps"),
        ]
    )  # fmt: skip


def _meaning(scores: Mapping[str, HeadScores], noun: str) -> str:
    """What a value says; empty if the languages differ in it, or if their method has no simple meaning."""
    found = {(each.provenance.estimand.partition("(")[0], each.provenance.game) for each in scores.values()}
    if len(found) != 1:
        return ""
    if not any(each.provenance.signed for each in scores.values()):
        methods = ", ".join(dict.fromkeys(each.provenance.method for each in scores.values()))
        return f"The value of a {noun} by {methods} says how much it matters, not whether it helps or hurts."
    [(estimand, game)] = found
    game = "probability of the correct answers" if game == "probability" else game.replace("-per-", " per ") or "result"
    if estimand in ("full", "truncated"):
        return (
            f"The value of a {noun} is what it adds to the {game} when it joins other {noun}s, on average over sets of "
            "them. Below zero, it hurts."
        )
    if estimand == "leave-one-out":
        return (
            f"The value of a {noun} is what the {game} loses when this {noun} alone is removed. Below zero, it hurts."
        )
    return ""


def head_page(payload: dict[str, Any] | None) -> Markup | None:
    """The empty page of one head, which the script fills and shows."""
    if payload is None:
        return None
    buttons = [
        element("button", text, type="button", id=name, title=title, aria_label=title)
        for name, text, title in (
            *((("head-wide", "⤢", "wide or narrow page"),) if payload["attention"] else ()),
            ("head-previous", "←", f"previous {payload['noun']}"),
            ("head-next", "→", f"next {payload['noun']}"),
            ("head-close", "×", "close"),
        )
    ]
    bar = element("div", element("h2", id="head-title", tabindex="-1"), *buttons, class_="head-bar")
    return element(
        "aside", bar, element("div", id="head-body"), id="head-page", hidden=True, aria_labelledby="head-title"
    )


def _controls(payload: dict[str, Any], several: bool) -> Markup:
    """What the maps show, the colour scale, and two searches."""
    noun = payload["noun"]
    scale = element(
        "label",
        element("input", type="checkbox", id="own-scale", autocomplete="off"),
        " separate colour scale for each language",
        class_="value-only",
    )
    search = element("input", type="search", id="find-head", list="head-names", size=14, placeholder=_example(payload),
                     autocomplete="off", spellcheck="false")  # fmt: skip
    languages = element("input", type="search", id="find-language", size=12, autocomplete="off", spellcheck="false")
    return element(
        "div",
        element("label", "Show ", element("select", *_views(payload), id="view", autocomplete="off")),
        element("label", f"Find a {noun} ", search),
        element("datalist", id="head-names"),
        element("label", "Languages ", languages) if several else None,
        scale if several else None,
        element("output", id="found", aria_live="polite"),
        class_="choices atlas-controls",
    )


def _example(payload: dict[str, Any]) -> str:
    first: str = payload["shapes"][0]["players"][0]
    return "L3H5" if payload["shapes"][0]["kind"] == "head" and ".kv" not in first else first


def _views(payload: dict[str, Any]) -> list[Markup]:
    """The things that maps can show."""
    groups = {
        "": [("value", "value"), *([("decision", "decision")] if payload["signed"] else [])],
        "Removed by the mask": [(f"mask:{name}", name) for name in payload["masks"]],
        "Role": [("roles", "all roles")] * bool(payload["roles"])
        + [(f"role:{name}", name) for name in payload["roles"]],
    }
    views = []
    for title, options in groups.items():
        markup = [element("option", text, value=value) for value, text in options]
        views += [element("optgroup", *markup, label=title)] if title and markup else markup
    return views


def _legend(payload: dict[str, Any]) -> Markup:
    """The colour scale and the meaning of the marks, for every view."""
    signed, end = payload["signed"], plain(payload["limit"], payload["decimals"] - 1)
    steps = range(-STEPS if signed else 0, STEPS + 1)
    scale = element(
        "svg",
        *(element("rect", x=step - steps[0], y=0, width=1.05, height=2, class_=f"s{step}") for step in steps),
        viewBox=f"0 0 {len(steps)} 2", width=198, height=12, preserveAspectRatio="none", aria_hidden="true",
    )  # fmt: skip
    low = ("harmful ", element("b", f"≤ −{end}", class_="shared-only")) if signed else (element("b", "0"),)
    high = " helpful" if signed else " matters most"
    gaps = any(
        len(grid["places"]) < len(grid["rows"]) * grid["columns"]
        for shape in payload["shapes"]
        for grid in shape["grids"]
    )
    return element(
        "div",
        element("span", *low, class_="value-only"),
        element("span", scale, class_="value-only"),
        element("span", element("b", f"≥ +{end}", class_="shared-only"), high, class_="value-only"),
        _swatch("hatched", "undecided", "s3", "value-only") if signed else None,
        _swatch("minus", "decided harmful", "s-3", "value-only") if signed else None,
        _swatch("minus", "harmful", "worse", "decision-only"),
        _swatch("", "helpful", "better", "decision-only"),
        _swatch("hatched", "undecided", "kept", "decision-only"),
        _swatch("", "removed", "taken", "mask-only"),
        _swatch("", "has the role", "taken", "role-only"),
        _swatch("", "perhaps: the interval includes the threshold", "perhaps", "role-only"),
        element("span", id="role-legend", class_="roles-only"),
        element("span", "pale: perhaps, the interval includes the threshold", class_="roles-only"),
        _swatch("gone", "absent") if gaps else None,
        class_="scale",
        id="scale",
    )


def _swatch(kind: str, meaning: str, colour: str | None = None, where: str = "") -> Markup:
    cell = element("rect", width=0.94, height=0.94, class_=colour) if colour else None
    right, down, shape = _SHAPES.get(kind, (0.0, 0.0, ""))
    mark = element("path", d=f"M{right:g} {down:g}{shape}", class_=kind) if shape else None
    drawn = element("svg", cell, mark, viewBox="0 0 .94 .94", width=16, height=16, aria_hidden="true")
    return element("span", drawn, f" {meaning}", class_=f"swatch {where}".strip())
