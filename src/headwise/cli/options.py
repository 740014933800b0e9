"""Options that several commands share."""

from typing import Annotated

import typer

ModelName = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Name on the hub, a folder, or a built-in model (see headwise ls models)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps; auto uses a GPU if there is one.")]
Dtype = Annotated[
    str, typer.Option("--dtype", help="Type of the weights: float32, bfloat16, float16, or auto (as they were saved).")
]
Split = Annotated[str, typer.Option("--split", help="Split of the data.")]
Units = Annotated[
    float,
    typer.Option("--budget", min=1, help="Maximum number of passes of one example through the model, per language."),
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", min=0, help="Maximum time in seconds, for all languages together.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the random draws.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of examples per language.")]
Bfloat16 = Annotated[
    bool, typer.Option("--bfloat16", help="Compute in bfloat16, which is faster on hardware that supports it.")
]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run code that comes with the model.")]


def show_device(device: str, dtype: str) -> None:
    """Print on standard error which device and dtype are used.

    Raises:
        HeadwiseError: This machine does not have the device, or one of the names is unknown.
    """
    from headwise.models.device import choose_device, choose_dtype  # imports torch, which --help does not need

    shown = "as saved" if choose_dtype(dtype) == "auto" else dtype
    typer.echo(f"headwise: device {choose_device(device).type}, dtype {shown}", err=True)
