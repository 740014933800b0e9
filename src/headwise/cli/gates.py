"""`headwise gates`."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.architectures import PLAYERS
from headwise.cli.options import (
    AsJson,
    Bfloat16,
    Device,
    Dtype,
    Limit,
    ModelName,
    Seconds,
    Seed,
    Split,
    TrustRemoteCode,
    Units,
    show_device,
)
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.cli.tasks import Data, Languages, Pieces, TaskName
from headwise.errors import FieldError

if TYPE_CHECKING:
    from headwise.scoring import LanguageScores, ScoringRun


def gates_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    languages: Languages = "all",
    split: Split = "dev",
    l1: Annotated[
        str | None,
        typer.Option(
            "--l1", help="Weights of the penalty |gate - 1|, comma-separated; the best one is chosen.  [default: 0]"
        ),
    ] = None,
    l0: Annotated[
        float | None, typer.Option("--l0", help="Penalty for each gate that is not 0, to remove heads.  [default: 0]")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="Learning rate of Adam.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Maximum number of epochs.")] = None,
    patience: Annotated[
        int | None, typer.Option("--patience", min=1, help="Stop after this number of epochs without better gates.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Number of examples in a minibatch.")] = None,
    held_out: Annotated[
        float | None, typer.Option("--held-out", help="Share of the examples that gates are chosen on.")
    ] = None,
    smallest: Annotated[float | None, typer.Option("--smallest", help="The smallest gate.")] = None,
    largest: Annotated[float | None, typer.Option("--largest", help="The largest gate.")] = None,
    budget: Units = 60_000,
    seconds: Seconds = None,
    players: Annotated[str, typer.Option("--players", help=f"What to gate: one of {', '.join(PLAYERS)}.")] = "heads",
    seed: Seed = 0,
    limit: Limit = None,
    piece: Pieces = "text",
    bfloat16: Bfloat16 = False,
    device: Device = "auto",
    dtype: Dtype = "float32",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder.  [default: runs/MODEL-TASK-soft]")] = None,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Learn a real gate for every head in every language, with the weights of the model frozen.

    Gates are trained on one part of the examples and chosen on the other. The same command resumes an interrupted run.
    """
    options = {
        "l1": None if l1 is None else _numbers(l1), "l0": l0, "learning_rate": learning_rate, "epochs": epochs,
        "patience": patience, "batch": batch, "held_out": held_out, "smallest": smallest, "largest": largest,
    }  # fmt: skip
    with show_resumable("learning gates", "units", seconds) as advance:
        from headwise.scoring import ScoringPlan, run_scoring

        plan = ScoringPlan(
            model=model,
            task=task,
            data=data,
            languages=languages,
            split=split,
            method="soft",
            options={name: value for name, value in options.items() if value is not None},
            budget=budget,
            game="log-likelihood",
            players=players,
            seed=seed,
            limit=limit,
            piece=piece,
            bfloat16=bfloat16,
            device=device,
            dtype=dtype,
        )
        show_device(device, dtype)
        found = run_scoring(plan, out, seconds, trust_remote_code, advance)
    _print_gates(found, as_json)


def _numbers(text: str) -> tuple[float, ...]:
    """The numbers of a comma-separated list."""
    try:
        return tuple(float(each) for each in text.split(","))
    except ValueError:
        raise FieldError("l1", f"must be numbers separated by commas, such as 0.1,0.01,0, not {text!r}") from None


def _print_gates(found: "ScoringRun", as_json: bool) -> None:
    """Print a line per language, and how to use the masks."""
    from headwise.scoring.run_folder import SOFT

    rows = {language: _row(each) for language, each in found.languages.items()}
    use = shlex.join(
        ["headwise", "prune", str(found.folder), "--language", next(iter(rows)), "--soft", "--out", "FOLDER"]
    )
    if as_json:
        about = {"out": str(found.folder), "notes": found.notes, "next": [use]}
        gates = {
            language: dict(zip(each.scores.players, each.scores.value, strict=True))
            for language, each in found.languages.items()
        }
        languages = {language: {**row, "gates": gates[language]} for language, row in rows.items()}
        typer.echo(json.dumps({**about, "languages": languages}))
        return
    cells = (
        (language, *(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in list(row.values())[:-2]))
        for language, row in rows.items()
    )
    print_table(f"{found.folder}: soft masks", ("language", *list(next(iter(rows.values())))[:-2]), cells)
    for language, each in found.languages.items():
        typer.echo(f"{language}: {each.status}.")
    for line in found.notes:
        typer.echo(line)
    if not all(each.finished for each in found.languages.values()):
        typer.echo("The time limit was reached before the end: repeat the command to continue.")
    assert found.folder is not None
    typer.echo(f"Masks are in {found.folder / SOFT}; evaluate them on other examples. To use one: {use}")


def _row(found: "LanguageScores") -> dict[str, Any]:
    gates = found.scores.value
    return {
        "smallest": min(gates),
        "largest": max(gates),
        "below 0.5": sum(gate < 0.5 for gate in gates),
        "examples": found.examples,
        "units": found.scores.provenance.units,
        "seconds": found.seconds,
        "finished": found.finished,
        "status": found.status,
    }
