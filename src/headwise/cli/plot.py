"""`headwise plot`."""

from pathlib import Path
from typing import Annotated

import typer

from headwise.studies.figure_kinds import FigureKind


def plot_command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder of headwise score, study, demo or, for roles, roles.")
    ],
    kind: Annotated[
        FigureKind,
        typer.Argument(
            help="maps: values of all heads; gains: of masks; curves: of iterative pruning and other studies; "
            "likeness: similarity of languages; layers: emptied layers; paths: L0 paths; roles: roles by layer."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Output file: a figure (.svg, .pdf, .png) or its table (.csv, .tex).")
    ],
) -> None:
    """Draw a figure of a run for a paper, or write its numbers as a table."""
    from headwise.studies.figures import save_plot

    save_plot(run, kind, out)
    typer.echo(str(out))
