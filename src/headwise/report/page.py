"""The report page: sections, style and script in one HTML file."""

import os
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from headwise.files import check_page, write_bytes
from headwise.report.atlas import HATCHING, atlas_section, head_page
from headwise.report.compare import compare_section
from headwise.report.contents import Report
from headwise.report.headline import headline
from headwise.report.languages import common_section, likeness_section
from headwise.report.palette import colour_rules
from headwise.report.payload import payload_of
from headwise.report.tables import commands_section, cost_section, provenance_section
from headwise.support.embedding import page_policy, page_script, safe_json

#: The parts of the script, in order.
SCRIPTS = ("report.js", "plots.js", "atlas.js", "attended.js", "head.js", "compare.js")
#: The script and the style that draw attention, which a view of attention has too.
DRAWING = ("drawing.js", "drawing.css")


def write_report(path: str | os.PathLike[str], report: Report) -> None:
    """Write a report as one HTML file that opens from disk and needs no network.

    The page reads one JSON object and draws the maps of heads from it. The same report gives the same file. Text is
    escaped, and a content security policy blocks all scripts, styles and resources except those of the page itself.

    Args:
        path: The file; an existing file is replaced if its name ends in `.html`.
        report: The contents of the page.

    Raises:
        HeadwiseError: A player's name is invalid, or the file cannot be written or is not a page.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from headwise.report import table_section
        >>> section = table_section("Sizes", ("language", "heads"), [("zh", "12")])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(Path(folder) / "report.html", Report("Chinese heads", sections=(section,)))
        ...     text = (Path(folder) / "report.html").read_text(encoding="utf-8")
        >>> "<h2>Sizes</h2>" in text
        True
    """
    check_page(path, ".html")
    write_bytes(path, render(report).encode("utf-8", "replace"))


def render(report: Report) -> str:
    """The page as text."""
    drawing, drawing_style = (_file(name, "headwise.attention") for name in DRAWING)
    style = f"{_file('report.css')}{drawing_style}{colour_rules()}"
    script = page_script(drawing, *map(_file, SCRIPTS))
    payload = payload_of(report)
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_file("page.html"))
    return template.render(
        report=report,
        headline=headline(report),
        sections=[(title, _anchor(title), body) for title, body in _sections(report, payload).items() if body],
        head_page=head_page(payload),
        payload=Markup(safe_json(payload)),
        style=Markup(style),
        script=Markup(script),
        policy=Markup(page_policy(style, script)),
        hatching=HATCHING,
    )


def _sections(report: Report, payload: dict[str, Any] | None) -> dict[str, Markup | None]:
    """The sections by title: those of a study up to the one with the main result, the atlas, the others."""
    own = {section.title: section.body for section in report.sections}
    main = next((place for place, section in enumerate(report.sections, 1) if section.headline), 1)
    return {
        **dict(list(own.items())[:main]),
        f"Atlas of {report.noun}s": atlas_section(payload, report.scores),
        **own,
        "Compare": compare_section(payload),
        "Similarity of languages": likeness_section(report.scores, report.noun),
        "Shared and specific": common_section(report.scores, report.noun),
        "Cost": cost_section(report.cost),
        "Provenance": provenance_section(report),
        "How to reproduce": commands_section(report.commands),
    } | own  # a section of the study replaces a general one with the same title


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _file(name: str, package: str = "headwise.report") -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")
