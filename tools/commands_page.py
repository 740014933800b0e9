"""The reference of the command line in the documentation site, made from the commands themselves.

`mkdocs.yml` names this file as a hook: whenever the site is built, the marker in `docs/commands.md` is replaced by all
commands with their arguments and options.
"""

from typing import Any

import typer
import typer.main

from headwise.cli.commands import app

#: The page, and what is replaced in it.
PAGE, MARKER = "commands.md", "<!-- commands -->"


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page of the site; mkdocs calls this for every page."""
    return markdown.replace(MARKER, commands_markdown()) if page.file.src_uri == PAGE else markdown


def commands_markdown() -> str:
    """All commands, in the order of `headwise --help`: a table of contents, and a section for each."""
    group: Any = typer.main.get_command(app)
    lines = ["| command | what it does |", "|---|---|"]
    lines += [
        f"| [`headwise {name}`](#headwise-{name}) | {_text(_summary(command))} |"
        for name, command in group.commands.items()
    ]
    return "\n\n".join(["\n".join(lines), *(_section(name, command) for name, command in group.commands.items())])


def _section(name: str, command: Any) -> str:
    """The usage and the help of a command, and a table of its arguments and options."""
    with typer.Context(command) as context:
        usage = " ".join(["headwise", name, *command.collect_usage_pieces(context)])
        rows = [(parameter, parameter.get_help_record(context)) for parameter in command.params]
    tables = []
    for kind in ("argument", "option"):
        listed = [record for parameter, record in rows if record and parameter.param_type_name == kind]
        if listed:
            tables.append("\n".join([f"| {kind} | meaning |", "|---|---|", *map(_row, listed)]))
    return "\n\n".join([f"## headwise {name}", _text(command.help), f"```text\n{usage}\n```", *tables])


def _row(record: tuple[str, str]) -> str:
    return f"| `{record[0]}` | {_text(record[1])} |"


def _summary(command: Any) -> str:
    """The first paragraph of a help text."""
    return " ".join(command.help.split("\n\n")[0].split())


def _text(text: str) -> str:
    """Plain text as Markdown: nothing in it is markup."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|" else letter for letter in text)
