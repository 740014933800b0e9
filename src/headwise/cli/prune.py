"""`headwise refine` and `headwise prune`."""

import dataclasses
import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import AsJson, TrustRemoteCode
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.cli.targets import check_target
from headwise.errors import HeadwiseError
from headwise.files import new_folder

if TYPE_CHECKING:
    from headwise.masks import HeadMask
    from headwise.scores import HeadScores


class Export(StrEnum):
    """What `headwise prune` writes."""

    mask = "mask"
    folded = "folded"
    shrunk = "shrunk"


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
    language: Annotated[str | None, typer.Option("--language", help="The run's mask for this language.")] = None,
    refined: Annotated[
        bool, typer.Option("--refined", help="The run's mask that headwise refine, or a targeted study, has made.")
    ] = False,
    likely: Annotated[
        bool, typer.Option("--likely", help="All heads that are likely harmful, of which a tenth may not be.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=0, help="So many heads of the lowest values, decided or not.")
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", min=0, max=1, help="That share of the heads, lowest values first.")
    ] = None,
    export: Annotated[Export, typer.Option("--export", help="What to write.")] = Export.shrunk,
    other_weights: Annotated[
        bool, typer.Option("--other-weights", help="The mask was made for other weights of the same shape.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace all that is in the folder.")] = False,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Remove heads: as a mask beside the checkpoint, folded into its weights, or cut out of them."""
    from headwise.heads import find_heads
    from headwise.masks import HeadMask
    from headwise.models import load_model, load_tokenizer
    from headwise.scoring.run_folder import find_mask, model_of, scored_folder

    by_scores = sum((likely, count is not None, share is not None))
    if refined + by_scores > 1:
        raise HeadwiseError("--refined, --likely, --count and --share are four ways to choose: give one of them")
    if (refined or by_scores) and (mask is not None or language is None):
        raise HeadwiseError(
            "--refined, --likely, --count and --share are about a run: give its folder and --language, no --mask"
        )
    if by_scores:
        name, source = model_of(Path(model)), scored_folder(model) / "scores"
    else:
        name, source = find_mask(model, mask, language, refined)
    check_target(out, {**_models(name), "the run": Path(model), "what heads are chosen by": source}, overwrite)
    made = _scores_of(Path(model), language, other_weights) if by_scores else HeadMask.load(source)
    loaded = load_model(name, trust_remote_code)
    found = find_heads(loaded)
    chosen = made if isinstance(made, HeadMask) else _mask_by_scores(made, count, share)
    chosen = chosen.moved_to(found) if other_weights else chosen
    chosen.check(found)
    _export(loaded, chosen, load_tokenizer(name, trust_remote_code), out, export, overwrite)
    removed, total = len(chosen.off), len(chosen.players)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "export": export.value, "removed": removed, "of": total}))
    else:
        typer.echo(f"{out}: {export.value}, {removed} of {total} {chosen.kind} off")


def _models(name: str) -> dict[str, Path]:
    """Where a model is, and the base of an adapter, if they are on this disk."""
    from headwise.models.adapted import find_adapter

    adapter = find_adapter(name) if Path(name).is_dir() else None
    return {"the model": Path(name), **({"the base model": Path(adapter.base)} if adapter else {})}


def _scores_of(run: Path, language: str | None, other_weights: bool) -> "HeadScores":
    """A run's scores of a language, tied to no weights if others of that shape are meant."""
    from headwise.scoring.run_folder import load_scores

    scores = load_scores(run)
    if language is None or language not in scores:
        raise HeadwiseError(f"{run}: has no scores of --language {language}: it has {', '.join(scores)}")
    found = scores[language]
    if not other_weights:
        return found
    return dataclasses.replace(found, provenance=dataclasses.replace(found.provenance, fingerprint=None))


def _mask_by_scores(scores: "HeadScores", count: int | None, share: float | None) -> "HeadMask":
    """The mask that scores and one of the options make."""
    if count is None and share is None:
        return scores.mask("likely")
    return scores.mask(count=count, share=share)


def _export(model: Any, mask: "HeadMask", tokenizer: Any, out: Path, export: Export, overwrite: bool) -> None:
    from headwise.pruning import fold, save_pruned, shrink

    match export:
        case Export.shrunk:
            languages = (mask.language,) if mask.language else ()
            save_pruned(shrink(model, mask, inplace=True), out, tokenizer, languages, overwrite)
        case Export.folded:
            _save_folded(fold(model, mask, inplace=True), tokenizer, out, overwrite)
        case Export.mask:
            with new_folder(out, overwrite) as draft:
                mask.save(draft / "mask.json")


def _save_folded(model: Any, tokenizer: Any, out: Path, overwrite: bool) -> None:
    with new_folder(out, overwrite) as draft:
        try:
            model.save_pretrained(draft)
        except OSError as error:
            raise HeadwiseError(f"{out}: cannot be written: {error.strerror}") from None
        if tokenizer is not None:
            tokenizer.save_pretrained(draft)
