"""`headwise study`, `headwise report` and `headwise demo`."""

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.options import AsJson, ClusterAddress, Workers, use_workers
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table

if TYPE_CHECKING:
    from headwise.engine import EngineFactory
    from headwise.studies import Study

#: Changes of the plan `demo` for `demo --fast`.
_FAST = ("languages=en,zh,th", "budget=2500", "refine=4", "randoms=3")


def study_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="Name of a study (see headwise ls studies) or a YAML file.")
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Run folder.  [default: runs/study-NAME]")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Change a field of the plan, such as --set languages=zh,tr; may be repeated.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="PATTERN", help="Measure only the cells whose label matches, such as 'multi*zh'."
        ),
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Measure only the I-th of N shares of the cells.")
    ] = None,
    parts: Annotated[
        list[Path] | None,
        typer.Option("--part", metavar="RUN", help="Use the cells of a run with --only or --shard; may be repeated."),
    ] = None,
    workers: Workers = None,
    cluster: ClusterAddress = None,
    as_json: AsJson = False,
) -> None:
    """Run a study: score heads on dev and judge masks on test.

    The same command resumes an interrupted study. With --only or --shard, several machines measure one study, each in
    its own run folder; --part merges these folders and finishes the study.
    """
    folder = out or Path("runs") / f"study-{Path(name).stem}{_part_name(only, shard)}"
    if only or shard:
        if parts:
            raise typer.BadParameter("leave it out with --only and --shard", param_hint="--part")
        with use_workers(workers, cluster, "auto") as (make_engine, _):
            _run_part(name, folder, changes or [], only, shard, make_engine)
        return
    with show_resumable("studying") as advance:
        from headwise.runs.config import read_config
        from headwise.studies import find_plan, run_study

        plan = find_plan(name, changes or ())
        with use_workers(workers, cluster, "auto") as (make_engine, _):
            study = run_study(plan, folder, advance, make_engine, parts or ())
    if as_json:
        typer.echo(json.dumps(study.to_dict()))
        return
    config = read_config(folder)
    print_study(study, f"{config.get('model')} on {config.get('data')}")
    typer.echo(f"CSV tables are in {folder}; to make a report: headwise report {folder}")
    _draw_plots(study)


def _draw_plots(study: "Study") -> None:
    """Draw the plots of a study, if it has any; without matplotlib, say how to get it."""
    from headwise.errors import MissingPackageError
    from headwise.studies.plots import PlottedStudy, save_plots

    if not isinstance(study, PlottedStudy):
        return
    try:
        files = save_plots(study, study.folder)
    except MissingPackageError as error:
        typer.echo(f"Plots are not drawn: {error}")
        return
    if files:
        typer.echo(f"Plots: {', '.join(path.name for path in files)}")


def _part_name(only: str | None, shard: str | None) -> str:
    """The end of the default folder of a part."""
    words = "-".join(filter(None, (only, shard and f"shard {shard.replace('/', ' of ')}")))
    return f"-{re.sub(r'[^A-Za-z0-9]+', '-', words).strip('-')}" if words else ""


def _run_part(
    name: str,
    folder: Path,
    changes: list[str],
    only: str | None,
    shard: str | None,
    make_engine: "EngineFactory",
) -> None:
    """Measure a part of a study, and print how to go on."""
    with show_resumable("studying", "cells") as advance:
        from headwise.studies import find_plan
        from headwise.studies.kinds import run_part
        from headwise.studies.parts import Part

        part = Part.read(only, shard)
        assert part is not None
        found = run_part(find_plan(name, changes), folder, part, advance, make_engine)
    typer.echo(f"{found.measured} of {found.cells} cells are measured in {folder}.")
    command = shlex.join(["headwise", "study", name, *(word for each in changes for word in ("--set", each))])
    typer.echo(f"When all parts are done: {command} --part {shlex.quote(str(folder))} --part … --out DIR")


def demo_command(
    fast: Annotated[
        bool, typer.Option("--fast", help="Three languages and a smaller budget: about two minutes.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Run folder.  [default: runs/demo, or runs/demo-fast with --fast]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find harmful heads, remove them and measure the gain, offline."""
    from headwise.report import write_report
    from headwise.studies import find_plan, report_of, run_study

    folder = out or Path("runs") / ("demo-fast" if fast else "demo")
    plan = find_plan("demo", _FAST if fast else ())
    if not as_json:
        typer.echo(f"Model: {plan.scoring.model}, tuned on English parts of speech; other languages are zero-shot.")
        typer.echo(f"Data: the phrasebook; one half to score heads, the other to judge masks. Results are in {folder}.")
    with show_resumable("demo") as advance:
        study = run_study(plan, folder, advance)
    if as_json:
        typer.echo(json.dumps(study.to_dict()))
        return
    print_study(study, "The phrasebook")
    write_report(folder / "report.html", report_of(folder))
    typer.echo(f"Report: {folder / 'report.html'}")
    _print_next(study)


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of headwise score, study or demo.")],
    out: Annotated[Path | None, typer.Option("--out", help="Output file.  [default: RUN/report.html]")] = None,
    roles: Annotated[
        Path | None, typer.Option("--roles", metavar="RUN", help="Also show the roles of a run of headwise roles.")
    ] = None,
) -> None:
    """Write a self-contained HTML report of a run."""
    from headwise.report import write_report
    from headwise.studies import report_of

    path = out or run / "report.html"
    write_report(path, report_of(run, roles))
    typer.echo(f"{path}: open it in a browser")


def print_study(study: "Study", about: str) -> None:
    """Print the tables of a study with their notes."""
    from rich.box import SIMPLE_HEAD

    from headwise.studies.tables import show_cell

    for found in (each for each in study.tables() if each.printed):
        cells = [[show_cell(cell) for cell in row] for row in found.rows]
        # Without frames, so that eight columns fit a narrow terminal.
        style = {"box": SIMPLE_HEAD, "collapse_padding": True, "pad_edge": False}
        print_table(f"{about}: {found.title}", found.columns, cells, **style)
        if found.note:
            typer.echo(found.note)
    for line in study.notes:
        typer.echo(line)


def _print_next(study: "Study") -> None:
    """Print the commands for the user's own model."""
    from headwise.studies import TargetedStudy

    assert isinstance(study, TargetedStudy)
    gains = {
        language: found.masks.get("refined", found.masks["targeted"]).value - found.base
        for language, found in study.languages.items()
    }
    best = max(gains, key=lambda language: gains[language])
    typer.echo("\nOn your own model:")
    typer.echo("  headwise score MODEL --task pos --data FOLDER --languages sw,tr --out runs/mine")
    typer.echo("  headwise prune runs/mine --language sw --out smaller-model")
    typer.echo("  headwise eval smaller-model --task pos --data FOLDER --languages sw")
    typer.echo(f"On this model: headwise prune {study.folder} --language {best} --refined --out e5-small-pos-{best}")
