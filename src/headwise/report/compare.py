"""The comparison of two runs, methods, baselines or languages: menus, and the place where the script draws."""

from typing import Any

from markupsafe import Markup

from headwise.report.html import element, joined


def compare_section(payload: dict[str, Any] | None) -> Markup | None:
    """The comparison; None if there is nothing to compare.

    Args:
        payload: The data of the page (`payload_of`).
    """
    if payload is None or (len(payload["runs"]) < 2 and len(payload["languages"]) < 2):
        return None
    what = "Two runs or languages" if len(payload["runs"]) > 1 else "Two languages"
    noun = payload["noun"]
    text = (
        f"{what}, {noun} by {noun}: values with 95% intervals, and the {noun}s whose decision changes. Click a mark to "
        f"open the {noun}."
    )
    return joined(
        [
            element("p", text),
            element("div", *_menus("a", "", payload), *_menus("b", "with ", payload), class_="choices"),
            element("noscript", element("p", "The comparison is drawn by a script: allow scripts to see it.")),
            element("div", id="compare-body"),
        ]
    )


def _menus(side: str, word: str, payload: dict[str, Any]) -> list[Markup]:
    """The menus of one side, which the script fills."""
    first = word or "Compare "
    language = element("select", id=f"compare-language-{side}", autocomplete="off", aria_label=f"{first}language")
    if len(payload["runs"]) < 2:
        return [element("label", first, language)]
    run = element("select", id=f"compare-run-{side}", autocomplete="off", aria_label=f"{first}run")
    return [element("label", first, run), element("label", "in ", language)]
