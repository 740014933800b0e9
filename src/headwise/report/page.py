"""The report page: sections, style and script in one HTML file."""

import base64
import hashlib
import os
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from headwise.files import write_bytes
from headwise.report.contents import Report
from headwise.report.languages import common_section, likeness_section
from headwise.report.maps import HATCHING, maps_section
from headwise.report.numbers import number_range, plural
from headwise.report.palette import colour_rules
from headwise.report.tables import commands_section, cost_section, provenance_section


def write_report(path: str | os.PathLike[str], report: Report) -> None:
    """Write a report as one HTML file that opens from disk and needs no network.

    The same report gives the same file. Text is escaped, and a content security policy blocks all scripts, styles and
    resources except those of the page itself.

    Args:
        path: The file; an existing file is replaced.
        report: The contents of the page.

    Raises:
        HeadwiseError: A player's name is invalid, or the file cannot be written.

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
    write_bytes(path, render(report).encode("utf-8", "replace"))


def render(report: Report) -> str:
    """The page as text."""
    style = f"{_file('report.css')}{colour_rules()}"
    script = _file("report.js")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_file("page.html"))
    return template.render(
        report=report,
        headline=headline(report),
        sections=[(title, _anchor(title), body) for title, body in _sections(report).items() if body],
        style=Markup(style),
        script=Markup(script),
        policy=Markup(f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"),
        hatching=HATCHING,
    )


def _sections(report: Report) -> dict[str, Markup | None]:
    return {
        **{section.title: section.body for section in report.sections},
        f"Values of {report.noun}s": maps_section(report.scores),
        "Similarity of languages": likeness_section(report.scores, report.noun),
        "Shared and specific": common_section(report.scores, report.noun),
        "Cost": cost_section(report.cost),
        "Provenance": provenance_section(report),
        "How to reproduce": commands_section(report.commands),
    }


def headline(report: Report) -> str:
    """The sentences at the top of the page: those of the sections, or a summary of the scores."""
    if found := " ".join(section.headline for section in report.sections if section.headline):
        return found
    sizes = sorted({len(scores.players) for scores in report.scores.values()})
    if not sizes:
        return ""
    found = number_range([len(scores.decided("harmful")) for scores in report.scores.values()])
    of = plural(sizes[0], report.noun) if len(sizes) == 1 else f"{sizes[0]} to {plural(sizes[-1], report.noun)}"
    return f"{of} scored in {plural(len(report.scores), 'language')}: {found} of them harmful."


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _file(name: str) -> str:
    return files("headwise.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash of a text, in the syntax of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
