"""Options that several commands share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headwise.engine import EngineFactory

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
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Compute on a number of workers: processes of this machine, or of the Ray cluster of --cluster.",
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="ADDRESS", help="Compute on a running Ray cluster, such as 10.0.0.1:6379 or auto."
    ),
]
CellCpus = Annotated[
    int, typer.Option("--cell-cpus", min=1, help="CPUs, and threads, of each tuned cell, with --workers or --cluster.")
]
CellGpus = Annotated[
    float | None,
    typer.Option(
        "--cell-gpus", min=0, help="GPUs of each tuned cell on a cluster, such as 0.5.  [default: 1 if it has GPUs]"
    ),
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


@contextmanager
def use_workers(
    workers: int | None, cluster: str | None, device: str, cell_cpus: int = 1, cell_gpus: float | None = None
) -> Iterator[tuple["EngineFactory", str]]:
    """What creates engines, and the device of the model in this process: the CPU if workers compute.

    Args:
        workers: Value of `--workers`.
        cluster: Value of `--cluster`.
        device: Value of `--device`, which is about the workers if there are any.
        cell_cpus: Value of `--cell-cpus`.
        cell_gpus: Value of `--cell-gpus`.
    """
    if workers is None and cluster is None:
        from headwise.engine import LocalEngine

        yield LocalEngine, device
        return
    from headwise.engine.cluster import Cluster, ClusterSettings

    settings = ClusterSettings(workers, cluster, device, cell_cpus=cell_cpus, cell_gpus=cell_gpus)
    with Cluster(settings) as found:
        name = "GPU" if found.gpu else "CPU"
        typer.echo(f"headwise: {found.workers} workers, one {name} each", err=True)
        yield found.make_engine, "cpu"
        if found.answered:
            typer.echo(f"headwise: workers had no work in {found.idle_share:.0%} of the time", err=True)
