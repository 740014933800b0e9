"""`headwise explore`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.cli.options import Device, Dtype
from headwise.cli.tasks import MaskFile
from headwise.data.named import KINDS
from headwise.data.task_names import TASKS
from headwise.errors import FieldError


def explore_command(
    model: Annotated[
        str, typer.Argument(metavar="RUN|MODEL", help="A run folder of headwise score or study, or a model.")
    ],
    data: Annotated[
        str, typer.Option("--data", help=f"{KINDS[0].upper()}{KINDS[1:]}.  [default: that of the run]")
    ] = "",
    task: Annotated[str, typer.Option("--task", help=f"One of {', '.join(TASKS)}.  [default: that of the run]")] = "",
    languages: Annotated[
        str,
        typer.Option("--languages", help="Comma-separated language codes, or 'all'.  [default: those of the run]"),
    ] = "",
    split: Annotated[str, typer.Option("--split", help="Split of the data.  [default: that of the run, or dev]")] = "",
    limit: Annotated[int, typer.Option("--limit", min=2, help="Maximum number of examples per language.")] = 40,
    mask: MaskFile = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for saved masks.")] = Path("masks"),
    export_dir: Annotated[
        Path | None, typer.Option("--export-dir", help="Folder for the pruned model, new or empty.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for a free one.")] = 0,
    public: Annotated[
        bool, typer.Option("--i-know-it-is-public", help="Allow a --host that other machines can reach.")
    ] = False,
    device: Device = "auto",
    dtype: Dtype = "float32",
) -> None:
    """Switch heads off on a page, and see the metric and the attention change.

    The page runs on this machine until Ctrl-C. It saves masks and exports the pruned model.
    """
    if not Path(model, "config.yaml").is_file():
        for option, given in (("task", task), ("data", data)):
            if not given:
                raise FieldError(option, f"{model} is not a run folder, so the explorer needs --task and --data")
    from headwise.explorer import explore
    from headwise.masks import HeadMask

    start = None if mask is None else HeadMask.load(mask)
    options: dict[str, Any] = {"task": task, "languages": languages, "split": split, "limit": limit, "mask": start}
    options |= {"out": out, "export_dir": export_dir, "host": host, "port": port, "public": public}
    with explore(model, None, data, device=device, dtype=dtype, **options) as explorer:
        try:
            typer.echo(f"headwise: open {explorer.url}\nheadwise: Ctrl-C ends the explorer", err=True)
            explorer.wait()
        except KeyboardInterrupt:
            typer.echo("headwise: the explorer has ended", err=True)
