"""`headwise score` and `headwise compare`."""

import dataclasses
import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.architectures import BASELINES, PLAYERS
from headwise.cli.options import (
    AsJson,
    Bfloat16,
    ClusterAddress,
    Device,
    Dtype,
    Limit,
    ModelName,
    Seconds,
    Seed,
    Split,
    TrustRemoteCode,
    Units,
    Workers,
    show_device,
    use_workers,
)
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.cli.tasks import Data, Languages, Pieces, TaskName
from headwise.errors import FieldError, HeadwiseError
from headwise.games import GAMES
from headwise.methods import METHODS

if TYPE_CHECKING:
    from headwise.scores import Comparison, HeadScores
    from headwise.scoring import LanguageScores, ScoringRun

#: Number of heads shown at each end of the ranking.
_SHOWN = 3
#: Maximum number of harmful heads named per language.
_NAMED = 12
#: Values that need more decimal places are shown in scientific notation.
_MOST_DECIMALS = 6

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of headwise score.")]


def score_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    languages: Languages = "all",
    split: Split = "dev",
    method: Annotated[str, typer.Option("--method", help=f"Scoring method: one of {', '.join(METHODS)}.")] = "stars",
    budget: Units = 60_000,
    seconds: Seconds = None,
    game: Annotated[
        str, typer.Option("--game", help=f"Value of an example: one of {', '.join(GAMES)}.")
    ] = "probability",
    estimand: Annotated[
        str, typer.Option("--estimand", help="full (Shapley values), truncated (at one half) or 'truncated(SHARE)'.")
    ] = "full",
    players: Annotated[str, typer.Option("--players", help=f"What to score: one of {', '.join(PLAYERS)}.")] = "heads",
    baseline: Annotated[
        str,
        typer.Option("--baseline", help=f"What replaces the output of a player that is off: {' or '.join(BASELINES)}."),
    ] = "zero",
    error_rate: Annotated[
        float | None,
        typer.Option(
            "--error-rate", help="Maximum probability of wrong decisions (stars, permutation, tmab).  [default: 0.1]"
        ),
    ] = None,
    confidence: Annotated[
        str | None,
        typer.Option(
            "--confidence", help="Bounds for the decisions of stars: asymptotic, or betting (strict, slower)."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="NAME=VALUE", help="An option of the method, such as rule=voita; may be repeated."
        ),
    ] = None,
    seed: Seed = 0,
    limit: Limit = None,
    piece: Pieces = "text",
    bfloat16: Bfloat16 = False,
    device: Device = "auto",
    dtype: Dtype = "float32",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder.  [default: runs/MODEL-TASK-METHOD]")] = None,
    workers: Workers = None,
    cluster: ClusterAddress = None,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Score every head in every language.

    The same command resumes an interrupted run; with a larger budget it extends a finished run.
    """
    named = {"error_rate": error_rate, "confidence": confidence}
    options = {name: value for name, value in named.items() if value is not None} | _options(option or ())
    with show_resumable("scoring", "units", seconds) as advance:
        from headwise.scoring import ScoringPlan, run_scoring

        plan = ScoringPlan(
            model=model,
            task=task,
            data=data,
            languages=languages,
            split=split,
            method=method,
            options=options,
            budget=budget,
            game=game,
            estimand=estimand,
            players=players,
            seed=seed,
            limit=limit,
            piece=piece,
            bfloat16=bfloat16,
            device=device,
            dtype=dtype,
            baseline=baseline,
        )
        show_device(device, dtype)
        with use_workers(workers, cluster, device) as (make_engine, here):
            plan = dataclasses.replace(plan, device=here)
            found = run_scoring(plan, out, seconds, trust_remote_code, advance, make_engine=make_engine)
    if as_json:
        typer.echo(json.dumps(_as_json(found)))
    else:
        _print_scores(found)


def _options(texts: Sequence[str]) -> dict[str, Any]:
    """The options of the method that are given as NAME=VALUE."""
    from headwise.support.typed import read_assignment

    try:
        return dict(map(read_assignment, texts))
    except HeadwiseError as error:
        raise FieldError("option", str(error)) from None


def compare_command(one: RunFolder, other: RunFolder, as_json: AsJson = False) -> None:
    """Compare the scores of two runs, language by language.

    Both runs must have the same players. The table shows ranks, signs, and the heads with opposite results.
    """
    from headwise.scoring.run_folder import compare_runs

    found = compare_runs(one, other)
    if as_json:
        languages = {language: each.to_dict() for language, each in found.items()}
        typer.echo(json.dumps({"runs": [str(one), str(other)], "languages": languages}))
        return
    columns = ("language", "Spearman", "95% interval", "same sign", "same clear sign", "harmful in common", "opposed")
    print_table(f"{one} and {other}", columns, [(language, *_agreement(each)) for language, each in found.items()])


def _agreement(found: "Comparison") -> tuple[str, ...]:
    """The cells that show how two runs agree in one language."""
    rank, clear = found.correlation, found.clear_signs
    return (
        f"{rank.rho:.3f}",
        f"{rank.low:.3f} to {rank.high:.3f}",
        f"{found.signs.share:.1%} of {found.signs.compared}",
        f"{clear.share:.1%} of {clear.compared}" if clear.compared else "none clear in both",
        f"{found.jaccard:.1%}",
        "\n".join(dict.fromkeys((*found.opposite_decisions, *found.opposite_signs))) or "none",
    )


def _as_json(found: "ScoringRun") -> dict[str, Any]:
    languages = {
        language: {
            "harmful": each.scores.decided("harmful"),
            "likely_harmful": _likely(each.scores),
            "helpful": each.scores.decided("helpful"),
            "undecided": each.scores.decided("undecided"),
            "units": each.scores.provenance.units,
            "seconds": each.seconds,
            "examples": each.examples,
            "cut": each.cut,
            "finished": each.finished,
            **each.scores.to_dict(),
        }
        for language, each in found.languages.items()
    }
    return {"out": str(found.folder), "notes": found.notes, "next": _next_commands(found), "languages": languages}


def _print_scores(found: "ScoringRun") -> None:
    first = next(iter(found.languages.values())).scores.provenance
    title = f"{first.model}: {first.estimand} values by {first.method}, game {first.game}"
    title += "" if first.baseline == "zero" else f", baseline {first.baseline}"
    columns = ("language", "harmful", "likely harmful", "helpful", "undecided", "examples", "units", "seconds")
    print_table(title, columns, [(language, *_counts(each)) for language, each in found.languages.items()])
    ends = [(language, *_ends(each.scores)) for language, each in found.languages.items()]
    print_table("", ("language", "lowest values", "highest values"), ends)
    for language, each in found.languages.items():
        typer.echo(f"{language}: {_harm(each.scores)}")
    rate = "" if first.error_rate is None else f" at an error rate of {first.error_rate:g}"
    typer.echo(f"Values ± standard errors; ? is undecided{rate}. All of them are in {found.folder}.")
    for line in found.notes:
        typer.echo(line)
    if not all(each.finished for each in found.languages.values()):
        typer.echo("The time limit was reached before the budget was spent: repeat the command to continue.")
    typer.echo("Next:")
    for command in _next_commands(found):
        typer.echo(f"  {command}")


def _counts(found: "LanguageScores") -> list[str]:
    harmful, helpful, undecided = (
        str(len(found.scores.decided(decision))) for decision in ("harmful", "helpful", "undecided")
    )
    likely = _likely(found.scores)
    counts = [harmful, "" if likely is None else str(len(likely)), helpful, undecided]
    return [*counts, str(found.examples), f"{found.scores.provenance.units:,.0f}", f"{found.seconds:,.1f}"]


def _likely(scores: "HeadScores") -> list[str] | None:
    """The likely harmful players, lowest values first; None if the rule does not apply to the method's values."""
    from headwise.scores.rules import likely_harmful, tells_likely

    if not tells_likely(scores):
        return None
    found = set(likely_harmful(scores))
    return [name for name in scores.ranked() if name in found]


def _harm(scores: "HeadScores") -> str:
    """One line with the harmful players."""
    from headwise.scores.rules import FALSE_SHARE

    proved, likely = scores.decided("harmful"), _likely(scores)
    parts = [f"{len(proved)} proved harmful{_names(proved)}"]
    if likely is not None:
        parts.append(f"{len(likely)} likely harmful (about {FALSE_SHARE:.0%} of them may not be){_names(likely)}")
    return "; ".join(parts)


def _names(names: Sequence[str]) -> str:
    """The first names, without a common prefix, and the number of the others."""
    if not names:
        return ""
    stacks = {name.partition(".")[0] for name in names}
    prefix = f"{stacks.pop()}." if len(stacks) == 1 else ""
    shown = ", ".join(name.removeprefix(prefix) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f": {prefix.rstrip('.')} {shown}{more}" if prefix else f": {shown}{more}"


def _next_commands(found: "ScoringRun") -> list[str]:
    """Suggested commands: prune the language with most harmful heads, refine, report."""
    harmful = {language: len(each.scores.decided("harmful")) for language, each in found.languages.items()}
    likely = {language: len(_likely(each.scores) or ()) for language, each in found.languages.items()}
    best = max(harmful, key=lambda language: (likely[language], harmful[language]))
    rule = ["--likely"] if likely[best] > harmful[best] else []
    run = str(found.folder)
    commands = [
        ["headwise", "prune", run, "--language", best, *rule, "--out", f"{run}-{best}"],
        ["headwise", "refine", run],
        ["headwise", "report", run],
    ]
    return [shlex.join(each) for each in commands]


def _ends(scores: "HeadScores") -> tuple[str, str]:
    """The lowest and the highest values."""
    ranked = scores.ranked()
    return _lines(scores, ranked[:_SHOWN]), _lines(scores, ranked[: -_SHOWN - 1 : -1])


def _lines(scores: "HeadScores", names: Sequence[str]) -> str:
    """A line for each of some players: name, value, standard error, and whether it is undecided."""
    places = [scores.players.index(name) for name in names]
    return "\n".join(
        f"{scores.players[place]} {show_estimate(float(scores.value[place]), float(scores.stderr[place]))}"
        + (" ?" if scores.decision[place] == "undecided" else "")
        for place in places
    )


def show_estimate(value: float, stderr: float) -> str:
    """A value and its standard error, both to the second significant digit of the standard error.

    Example:
        >>> show_estimate(-0.01234, 0.00456), show_estimate(-1.234e-06, 4.5e-07), show_estimate(0.5, math.nan)
        ('-0.0123 ± 0.0046', '-1.23e-06 ± 4.5e-07', '+0.5')
    """
    if not math.isfinite(stderr) or stderr <= 0:
        return f"{value:+.3g}"
    place = 1 - math.floor(math.log10(stderr))  # decimal places of the second significant digit
    if place <= _MOST_DECIMALS:
        return f"{value:+.{max(place, 0)}f} ± {stderr:.{max(place, 0)}f}"
    size = math.floor(math.log10(max(abs(value), stderr)))
    return f"{value:+.{max(place + size, 1)}e} ± {stderr:.1e}"
