"""The page of the explorer: the style and the scripts of the report, and its own."""

from importlib.resources import files
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from headwise.attention.view import page_sources
from headwise.data.examples import Example
from headwise.data.task_names import TASK_TITLES
from headwise.explorer.session import MOST_CHARACTERS, Session
from headwise.report.grids import grids
from headwise.report.names import name_of, short_name
from headwise.report.palette import colour_rules, level, limit_of
from headwise.scores import HeadScores
from headwise.support.embedding import page_script, safe_json, source_hash


def render(session: Session) -> str:
    """The page as text."""
    style, script = _sources()
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_file("page.html"))
    setting, task = session.setting, session.setting.task.name
    return template.render(
        model=short_name(setting.name),
        about=[TASK_TITLES.get(task, task), f"data: {short_name(setting.dataset.name)}", session.about],
        limit=max(map(len, session.examples.values())),
        translates=session.translates,
        characters=MOST_CHARACTERS,
        out=str(session.out),
        export_dir=None if session.export_dir is None else str(session.export_dir),
        payload=Markup(safe_json(payload_of(session))),
        style=Markup(style),
        script=Markup(script),
    )


def policy() -> str:
    """The content security policy: the scripts of the page and of attention views, and requests to its own server.

    The attention is shown in a frame whose document is part of the page, and which inherits this policy.
    """
    styles, scripts = ([source_hash(each) for each in pair] for pair in zip(_sources(), page_sources(), strict=True))
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src {' '.join(styles)}",
            f"script-src {' '.join(scripts)}",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def payload_of(session: Session) -> dict[str, Any]:
    """The data that the script of the page needs."""
    heads = session.setting.heads.players()
    return {
        "heads": list(heads),
        "grids": [
            {
                "title": grid.title,
                "rows": list(grid.row_names),
                "columns": grid.columns,
                "places": [[row, column, place] for (row, column), place in grid.places.items()],
            }
            for grid in grids(heads, "heads")
        ],
        "off": list(session.mask.off),
        "languages": [
            {"code": code, "name": name_of(code), "examples": len(examples), "sentence": _text_of(examples[0])}
            for code, examples in session.examples.items()
        ],
        "scores": [_colours(code, each) for code, each in session.scores.items()],
    }


def _colours(code: str, scores: HeadScores) -> dict[str, Any]:
    """The values of heads in a language, and their steps on the colour scale."""
    limit = limit_of(scores.value)
    return {
        "name": name_of(code),
        "values": [None if step is None else f"{value:+.4f}" for value, step in _steps(scores, limit)],
        "steps": [step for _, step in _steps(scores, limit)],
    }


def _steps(scores: HeadScores, limit: float) -> list[tuple[float, int | None]]:
    return [(value, level(value, limit)) for value in scores.value]


def _text_of(example: Example) -> str:
    """The text of an example, to begin with in the attention view."""
    words = getattr(example, "words", None)
    found = (
        " ".join(words)
        if words
        else next(
            (getattr(example, name) for name in ("text", "source", "first", "context") if getattr(example, name, "")),
            "",
        )
    )
    return str(found)[:MOST_CHARACTERS]


def _sources() -> tuple[str, str]:
    """The style sheet and the script of the page."""
    report = files("headwise.report")
    style = report.joinpath("report.css").read_text(encoding="utf-8") + colour_rules() + _file("explorer.css")
    return style, page_script(report.joinpath("report.js").read_text(encoding="utf-8"), _file("explorer.js"))


def _file(name: str) -> str:
    return files("headwise.explorer").joinpath(name).read_text(encoding="utf-8")
