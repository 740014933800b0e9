"""`headwise study`, `headwise report` and `headwise demo`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from headwise.cli.options import AsJson
from headwise.cli.progress import show_progress
from headwise.demo import demo_plan, run_demo
from headwise.report import write_report
from headwise.studies import LanguageOutcome, TargetedPlan, TargetedStudy, find_plan, run_targeted
from headwise.studies.reading import report_of
from headwise.studies.targeted import study_to_dict

#: A difference with a smaller P-value is marked.
_SIGNIFICANT = 0.05


def study_command(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A study (headwise ls studies) or a YAML file.")],
    out: Annotated[Path | None, typer.Option("--out", help="Run folder; runs/study-NAME unless told.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a study: scores on dev, masks, controls, and what they do on test; the same command goes on."""
    plan = find_plan(name)
    with show_progress("studying") as advance:
        study = run_targeted(plan, out or Path("runs") / f"study-{Path(name).stem}", advance)
    if as_json:
        typer.echo(json.dumps(study_to_dict(study)))
    else:
        print_study(study, plan)


def demo_command(
    fast: Annotated[bool, typer.Option("--fast", help="Three languages and less to spend: about two minutes.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder; runs/demo unless told.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the heads that hurt, remove them, and see the gain: offline, in minutes."""
    folder = out or Path("runs") / ("demo-fast" if fast else "demo")
    if not as_json:
        plan = demo_plan(fast).scoring
        typer.echo(f"Model: {plan.model}, tuned on English parts of speech; all else is zero-shot.")
        typer.echo(f"Data: the phrasebook, one half to score the heads on, the other to judge; results go to {folder}.")
    with show_progress("demo") as advance:
        study = run_demo(folder, fast, advance)
    if as_json:
        typer.echo(json.dumps(study_to_dict(study)))
        return
    print_study(study, demo_plan(fast))
    write_report(folder / "report.html", report_of(folder))
    typer.echo(f"All of it to look at: {folder / 'report.html'}")
    _print_next(study)


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of headwise score, study or demo.")],
    out: Annotated[Path | None, typer.Option("--out", help="The file; RUN/report.html unless told.")] = None,
) -> None:
    """Write one HTML page that shows a run: it needs no network and opens from disk."""
    path = out or run / "report.html"
    write_report(path, report_of(run))
    typer.echo(f"{path}: open it in a browser")


def print_study(study: TargetedStudy, plan: TargetedPlan) -> None:
    """The table of a study, and what it means."""
    kinds = [kind for kind in ("targeted", "michel", "zero-shot", "pooled") if _has(study, kind)]
    table = Table("", "none", "off", *kinds, f"random ×{plan.randoms}")
    table.title = f"{plan.scoring.model} on {plan.scoring.data}: {study.metric} on {plan.test_split}"
    for language, found in study.languages.items():
        removed = str(found.masks["targeted"].removed)
        cells = [_cell(found, kind) for kind in kinds]
        table.add_row(language, f"{found.base:.2f}", removed, *cells, _random(found))
    table.add_section()
    table.add_row("mean gain", "", "", *(_gain(study, kind) for kind in kinds), _random_gain(study))
    Console().print(table)
    typer.echo("none: no mask; off: heads that are harmful and go; the other masks have as many, or are shared by all.")
    typer.echo(f"+ and - mark what differs from no mask (P < {_SIGNIFICANT}, paired bootstrap).")
    for line in study.notes:
        typer.echo(line)


def _has(study: TargetedStudy, kind: str) -> bool:
    return any(kind in found.masks for found in study.languages.values())


def _cell(found: LanguageOutcome, kind: str) -> str:
    outcome = found.masks[kind]
    mark = ""
    if outcome.test.p_value < _SIGNIFICANT:
        mark = " +" if outcome.test.difference > 0 else " -"
    return f"{outcome.value:.2f}{mark}"


def _random(found: LanguageOutcome) -> str:
    return f"{np.mean(found.randoms):.2f} ± {np.std(found.randoms):.1f}" if found.randoms else ""


def _gain(study: TargetedStudy, kind: str) -> str:
    return _signed([found.masks[kind].value - found.base for found in study.languages.values()])


def _random_gain(study: TargetedStudy) -> str:
    return _signed([float(np.mean(found.randoms)) - found.base for found in study.languages.values() if found.randoms])


def _signed(gains: Sequence[float]) -> str:
    return f"{np.mean(gains):+.2f}" if gains else ""


def _print_next(study: TargetedStudy) -> None:
    """What to do with a model of one's own."""
    gains = {
        language: found.masks["targeted"].value - found.base
        for language, found in study.languages.items()
        if found.masks["targeted"].removed
    }
    best = max(gains, key=lambda language: gains[language], default=next(iter(study.languages)))
    typer.echo("\nOn your own model:")
    typer.echo("  headwise score MODEL --task pos --data FOLDER --languages sw,tr --out runs/mine")
    typer.echo("  headwise prune runs/mine --language sw --out smaller-model")
    typer.echo("  headwise eval smaller-model --task pos --data FOLDER --languages sw")
    typer.echo(f"On this one: headwise prune {study.folder / 'scoring'} --language {best} --out e5-small-pos-{best}")
