"""`headwise plot`."""

from pathlib import Path
from typing import Annotated

import typer

from headwise.studies.figure_kinds import FigureKind


def plot_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of headwise score, study or demo.")],
    kind: Annotated[
        FigureKind,
        typer.Argument(
            help="Values of all heads, gains of masks, curves of iterative pruning, or similarity of languages."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Output file: .svg, .pdf or .png.")],
) -> None:
    """Draw a figure of a run for a paper."""
    from headwise.report.plots import check_format, save_figure
    from headwise.studies.figures import figure_of

    check_format(out)  # before the work, because it may fail
    save_figure(figure_of(run, kind), out)
    typer.echo(str(out))
