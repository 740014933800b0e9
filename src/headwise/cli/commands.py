"""The commands, each a thin layer over one function of the library."""

import dataclasses
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headwise import __version__
from headwise.architectures import FAMILIES
from headwise.cli.data import data_command
from headwise.cli.explore import explore_command
from headwise.cli.gates import gates_command
from headwise.cli.merge import merge_command
from headwise.cli.options import AsJson, ModelName, TrustRemoteCode
from headwise.cli.plot import plot_command
from headwise.cli.prune import prune_command, refine_command
from headwise.cli.roles import roles_command
from headwise.cli.score import compare_command, score_command
from headwise.cli.study import demo_command, report_command, study_command
from headwise.cli.tables import print_table
from headwise.cli.tasks import evaluate_command, tune_command
from headwise.data.task_names import TASKS
from headwise.games import GAMES
from headwise.methods import METHODS
from headwise.models import default_names
from headwise.studies import plan_names

if TYPE_CHECKING:
    from headwise.heads import HeadMap


class _Commands(TyperGroup):
    """The group of all commands: Ctrl-C ends a command with one line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was chosen."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("headwise: stopped", err=True)
            raise typer.Exit(130) from None


# Plain help: importing rich takes as long as importing everything else.
app = typer.Typer(cls=_Commands, rich_markup_mode=None, no_args_is_help=True, pretty_exceptions_enable=False)

app.command(name="data")(data_command)
app.command(name="eval")(evaluate_command)
app.command(name="tune")(tune_command)
app.command(name="score")(score_command)
app.command(name="gates")(gates_command)
app.command(name="refine")(refine_command)
app.command(name="prune")(prune_command)
app.command(name="compare")(compare_command)
app.command(name="merge")(merge_command)
app.command(name="roles")(roles_command)
app.command(name="study")(study_command)
app.command(name="report")(report_command)
app.command(name="explore")(explore_command)
app.command(name="plot")(plot_command)
app.command(name="demo")(demo_command)


class Listing(StrEnum):
    """What `headwise ls` can list."""

    architectures = "architectures"
    models = "models"
    tasks = "tasks"
    methods = "methods"
    games = "games"
    studies = "studies"
    data = "data"
    runs = "runs"


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Find the attention heads that hurt a language, prove it, and remove them."""
    if version:
        typer.echo(f"headwise {__version__}")
        raise typer.Exit


@app.command()
def heads(model: ModelName, as_json: AsJson = False, trust_remote_code: TrustRemoteCode = False) -> None:
    """Show the attention modules of a model and their heads."""
    from headwise.heads import find_heads
    from headwise.models import load_skeleton

    found = find_heads(load_skeleton(model, trust_remote_code))
    if as_json:
        typer.echo(json.dumps({"model": model, "family": found.family.name, "sites": _site_rows(found)}))
        return
    columns = ("site", "heads", "head width", "key-value heads", "output projection")
    title = f"{model}: {len(found.players())} heads in {len(found.sites)} sites ({found.family.name})"
    print_table(title, columns, [[str(cell) for cell in site.values()] for site in _site_rows(found)])


@app.command(name="ls")
def list_things(what: Annotated[Listing, typer.Argument(help="What to list.")], as_json: AsJson = False) -> None:
    """List available models, methods, studies and so on, or your runs."""
    match what:
        case Listing.architectures:
            _list_architectures(as_json)
        case Listing.data:
            _list_data(as_json)
        case Listing.runs:
            _list_runs(as_json)
        case _:
            known = {
                "models": default_names(),
                "tasks": TASKS,
                "methods": METHODS,
                "games": GAMES,
                "studies": plan_names(),
            }
            names = known[what.value]
            typer.echo(json.dumps({what.value: names}) if as_json else "\n".join(names))


def _list_architectures(as_json: bool) -> None:
    rows = [{"family": family.name, "model_types": list(family.model_types)} for family in FAMILIES]
    if as_json:
        typer.echo(json.dumps({"architectures": rows}))
        return
    cells = (
        (family.name, ", ".join(family.model_types), ", ".join(dict.fromkeys(site.stack for site in family.sites)))
        for family in FAMILIES
    )
    print_table("architectures", ("family", "model types", "stacks"), cells)


def _list_data(as_json: bool) -> None:
    from headwise.data.named import named_sets

    found = named_sets()
    if as_json:
        typer.echo(json.dumps({"data": [dataclasses.asdict(each) for each in found]}))
        return
    rows = ((each.name, ", ".join(each.tasks), str(each.languages), each.about) for each in found)
    print_table("data sets", ("name", "tasks", "languages", "about"), rows)
    typer.echo("--data also accepts your own folder or YAML file.")


def _list_runs(as_json: bool) -> None:
    from headwise.scoring.run_folder import list_runs

    found = list_runs()
    if as_json:
        typer.echo(json.dumps({"runs": found}))
        return
    columns = ("model", "task", "method", "languages", "budget", "seed")
    rows = (
        (folder, *(", ".join(map(str, cell)) if isinstance(cell, list) else str(cell) for cell in cells))
        for folder, cells in ((folder, [config.get(name, "") for name in columns]) for folder, config in found.items())
    )
    print_table("runs", ("run", *columns), rows)
    for config in found.values():
        if "error" in config:
            typer.echo(f"headwise: {config['error']}", err=True)


def _site_rows(found: "HeadMap") -> list[dict[str, Any]]:
    return [
        {
            "site": site.name,
            "heads": len(site.heads),
            "head_width": site.head_width,
            "kv_heads": site.kv_heads,
            "output": site.output,
        }
        for site in found.sites
    ]
