"""`headwise merge`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headwise.cli.options import AsJson, TrustRemoteCode
from headwise.cli.tables import print_table


def merge_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders of headwise score.")],
    out: Annotated[Path, typer.Option("--out", help="The new run folder.")],
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Merge runs of headwise score that differ only in their seed.

    The scores are computed from the rounds of all runs.
    """
    from headwise.scoring.merge import merge_scoring  # imports torch, which --help does not need

    found = merge_scoring(runs, out, trust_remote_code)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "languages": {name: each.to_dict() for name, each in found.items()}}))
        return
    columns = ("language", "harmful", "helpful", "undecided", "units")
    rows = [
        (
            language,
            *(str(len(scores.decided(decision))) for decision in ("harmful", "helpful", "undecided")),
            f"{scores.provenance.units:,.0f}",
        )
        for language, scores in found.items()
    ]
    print_table(f"{len(runs)} runs merged", columns, rows)
    typer.echo(f"The scores are in {out}.")
