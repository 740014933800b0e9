"""Options that several commands share."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from headwise.errors import HeadwiseError

ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="Name on the hub, a folder, or a default (headwise ls models).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


@contextmanager
def named_as_options(plan: type[Any]) -> Iterator[None]:
    """Name the option in errors about a field of a plan: `batch_tokens: …` becomes `--batch-tokens: …`."""
    try:
        yield
    except HeadwiseError as error:
        name, colon, rest = str(error).partition(":")
        if not colon or name not in {field.name for field in dataclasses.fields(plan)}:
            raise
        raise HeadwiseError(f"--{name.replace('_', '-')}:{rest}") from None
