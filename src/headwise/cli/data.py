"""`headwise data`: shows how a data set was read."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.options import AsJson
from headwise.cli.tables import print_table

if TYPE_CHECKING:
    from headwise.data.describe import Description

_SHOWN_LABELS = 12


def data_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file, a folder, a pattern such as 'reviews.{language}.csv', or the name of a data set.",
        ),
    ],
    task: Annotated[str | None, typer.Option("--task", help="The task; guessed from the data by default.")] = None,
    languages: Annotated[str, typer.Option("--languages", help="Comma-separated language codes, or 'all'.")] = "all",
    as_json: AsJson = False,
) -> None:
    """Show the contents of a data set.

    Prints the task, languages, splits, labels, three examples and warnings.
    """
    from headwise.data.describe import describe

    found = describe(name, task, languages)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), ensure_ascii=False))
    else:
        _print(found)


def _print(found: "Description") -> None:
    from headwise.data.languages import language_name

    splits = list(dict.fromkeys(split for counts in found.counts.values() for split in counts))
    rows = [
        [
            code,
            "" if language_name(code) == code else language_name(code),
            *(str(counts.get(split, "")) for split in splits),
        ]
        for code, counts in found.counts.items()
    ]
    print_table(found.name, ["code", "language", *splits], rows)
    typer.echo(f"task: {found.task}" + (f" (guessed: {found.reason})" if found.reason else ""))
    if found.labels:
        shown = ", ".join(f"{label} {count}" for label, count in list(found.labels.items())[:_SHOWN_LABELS])
        more = len(found.labels) - _SHOWN_LABELS
        typer.echo(f"labels ({len(found.labels)}): {shown}" + (f" and {more} more" if more > 0 else ""))
    typer.echo(f"mean length: {found.mean_length:.1f} {found.unit}")
    if found.alignment:
        typer.echo(f"alignment: {found.alignment}")
    for code, text in found.examples:
        typer.echo(f"example ({code}): {text}")
    if found.note:
        typer.echo(f"note: {found.note}")
    for warning in found.warnings:
        typer.echo(f"warning: {warning}")
