"""The page: its sections in order, its style and its script, in one file."""

import base64
import hashlib
import os
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from headwise.files import write_bytes
from headwise.report.contents import Report
from headwise.report.curves import curves_section
from headwise.report.gains import gains_section, headline
from headwise.report.languages import common_section, likeness_section
from headwise.report.maps import HATCHING, maps_section
from headwise.report.palette import colour_rules
from headwise.report.tables import commands_section, cost_section, provenance_section

_TARGETED = "Each language without what is decided to be harmful in it, on data that nothing was chosen on."
_LIKELY = (
    "Each language without all that is likely harmful in it, proved or not: a tenth of what goes is expected not to be."
)
_REFINED = (
    "Each language without what hurts given all else that is off: chosen on the examples that were scored on, "
    "judged on others."
)


def write_report(path: str | os.PathLike[str], report: Report) -> None:
    """Write a report as one HTML file that opens from disk and needs no network.

    The same report gives the same file. Text in it is escaped, and a content security policy in the page lets nothing
    run or load but what headwise put there.

    Args:
        path: The file; what stands there is replaced.
        report: What to show.

    Raises:
        HeadwiseError: A player's name is not one that headwise gives, or the file cannot be written.

    Example:
        >>> from headwise.report import Gain
        >>> gain = Gain("zh", heads_removed=12, base=66.0, pruned=76.5, low=8.0, high=13.0, p_value=0.0002)
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_report(Path(folder) / "report.html", Report("Chinese heads", metric="accuracy", gains=(gain,)))
        ...     text = (Path(folder) / "report.html").read_text(encoding="utf-8")
        >>> "Removing 12 heads changed accuracy by +10.5 points" in text
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
        "Gains": gains_section(report.gains, report.metric, _TARGETED),
        "Gains without what is likely harmful": gains_section(report.likely, report.metric, _LIKELY),
        "Gains of refined masks": gains_section(report.refined, report.metric, _REFINED),
        f"Values of {report.noun}s": maps_section(report.scores),
        "How alike languages are": likeness_section(report.scores, report.noun),
        "Shared and specific": common_section(report.scores, report.noun),
        "Removing one after the other": curves_section(report),
        "Cost": cost_section(report.cost),
        "Where this comes from": provenance_section(report),
        "How to repeat it": commands_section(report.commands),
    }


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _file(name: str) -> str:
    return files("headwise.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A text's hash as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
