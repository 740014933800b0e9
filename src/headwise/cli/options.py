"""Options that several commands share."""

from typing import Annotated

import typer

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name on the hub, a folder, or a default (headwise ls models).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]
