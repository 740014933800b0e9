"""`headwise refine` and `headwise prune`."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwise.cli.options import AsJson, TrustRemoteCode
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.errors import HeadwiseError
from headwise.files import check_target
from headwise.pruning.kinds import ExportKind
from headwise.support.display import shorten

if TYPE_CHECKING:
    from headwise.pruning import Exported

#: The rules in words.
_RULES = {
    "likely": "likely harmful (--likely)",
    "harmful": "decided harmful (--harmful)",
    "refined": "the refined mask (--refined)",
    "count": "the lowest values, a given number (--count)",
    "share": "the lowest values, a given share (--share)",
    "mask file": "the mask file (--mask)",
}


def refine_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of headwise score or study.")],
    languages: Annotated[
        str, typer.Option("--languages", help="Comma-separated codes of the run's, or 'all'.")
    ] = "all",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Passes over the examples, at most.")] = 12,
    width: Annotated[int, typer.Option("--width", min=1, help="Heads flipped at once, at first.")] = 8,
    examples: Annotated[int, typer.Option("--examples", min=2, help="At most so many examples a language.")] = 512,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Refine a run's masks: what hurts given that the harmful heads are off goes too, what is missed comes back."""
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    if not codes:
        raise HeadwiseError("--languages names no language: give codes such as zh,tr or 'all'")
    with show_resumable("refining") as advance:
        from headwise.scoring import RefinementPlan, refine_run
        from headwise.scoring.run_folder import REFINED, scored_folder

        folder = scored_folder(run)
        plan, chosen = RefinementPlan(rounds, width, examples, seed), () if codes == ["all"] else codes
        found = refine_run(folder, chosen, plan, advance, trust_remote_code)
    rows = {
        language: {
            "verdict": each.verdict,
            "off before": each.steps[0].removed,
            "off": each.step.removed,
            "value before": each.steps[0].value,
            "value": each.step.value,
            "units": each.units,
        }
        for language, each in found.items()
    }
    if as_json:
        typer.echo(json.dumps({"out": str(folder / REFINED), "languages": rows}))
        return
    cells = (
        (language, *(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row.values()))
        for language, row in rows.items()
    )
    print_table(f"{folder}: refined masks", ("language", *next(iter(rows.values()))), cells)
    use = shlex.join(["headwise", "prune", str(folder), "--language", next(iter(rows)), "--refined", "--out", "FOLDER"])
    typer.echo("Values are of the examples that were chosen on: judge on others.")
    typer.echo(f"Masks are in {folder / REFINED}; to use one: {use}")


def prune_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL|RUN", help="A model, or a run folder of headwise score or study.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder to write, new or empty.")],
    mask: Annotated[Path | None, typer.Option("--mask", help="A mask file: which heads stay.")] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Choose heads by the run's scores of this language.")
    ] = None,
    likely: Annotated[
        bool,
        typer.Option("--likely", help="Heads that are likely harmful; a tenth may not be. This is the default."),
    ] = False,
    harmful: Annotated[
        bool, typer.Option("--harmful", help="Heads that are decided harmful, at the error rate of the run.")
    ] = False,
    refined: Annotated[
        bool, typer.Option("--refined", help="The mask that headwise refine or a targeted study has made.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=0, help="This number of heads, those with the lowest values.")
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", min=0, max=1, help="This share of the heads, lowest values first.")
    ] = None,
    kind: Annotated[ExportKind, typer.Option("--export", help="What to write.")] = ExportKind.shrunk,
    other_weights: Annotated[
        bool, typer.Option("--other-weights", help="The mask was made for other weights of the same shape.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is in the folder.")] = False,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Remove heads: as a mask beside the checkpoint, folded into its weights, or cut out of them."""
    from headwise.heads import find_heads
    from headwise.models import load_model, load_tokenizer
    from headwise.pruning import export
    from headwise.scoring.choose import choose_mask

    rules = [name for name, given in (("likely", likely), ("harmful", harmful), ("refined", refined)) if given]
    if len(rules) > 1:
        raise HeadwiseError("--likely, --harmful and --refined are different ways to choose heads: give one of them")
    choice = choose_mask(model, mask, language=language, rule=rules[0] if rules else None, count=count, share=share)
    kept = {**_models(choice.model), "the run": Path(model), "what heads are chosen by": choice.source}
    check_target(out, kept, overwrite)
    loaded = load_model(choice.model, trust_remote_code)
    heads = find_heads(loaded)
    chosen = choice.mask.moved_to(heads) if other_weights else choice.mask
    chosen.check(heads)
    found = export(loaded, chosen, load_tokenizer(choice.model, trust_remote_code), out, kind, overwrite)
    _print_exported(choice.rule, found, as_json)


def _models(name: str) -> dict[str, Path]:
    """Where a model is, and the base of an adapter, if they are on this disk."""
    from headwise.models.adapted import find_adapter

    adapter = find_adapter(name) if Path(name).is_dir() else None
    return {"the model": Path(name), **({"the base model": Path(adapter.base)} if adapter else {})}


def _print_exported(rule: str, found: "Exported", as_json: bool) -> None:
    """The rule, the heads that were removed, and the size of a shrunk model."""
    off, total, (before, after) = found.mask.off, len(found.mask.players), found.parameters
    if as_json:
        about = {"out": str(found.folder), "export": found.kind.value, "rule": rule, "removed": len(off), "of": total}
        typer.echo(json.dumps({**about, "heads": off, "parameters": {"before": before, "after": after}}))
        return
    typer.echo(f"{found.folder}: {found.kind.value}, {len(off)} of {total} {found.mask.kind} off")
    typer.echo(f"Chosen by: {_RULES.get(rule, rule)}.")
    typer.echo(f"Removed: {shorten(off)}.")
    if found.kind is ExportKind.shrunk:
        typer.echo(f"Parameters: {before:,} before, {after:,} after ({after / before - 1:+.1%}).")
