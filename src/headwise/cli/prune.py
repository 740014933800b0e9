"""`headwise refine` and `headwise prune`."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import AsJson, ClusterAddress, Seed, TrustRemoteCode, Workers, use_workers
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.errors import HeadwiseError
from headwise.outputs import check_target
from headwise.pruning.kinds import ExportKind
from headwise.support.display import shorten

if TYPE_CHECKING:
    from headwise.pruning import Exported
    from headwise.scoring import BestMask, Repaired, SafeMask
    from headwise.scoring.choose import MaskChoice

#: Descriptions of the rules.
_RULES = {
    "likely": "likely harmful (--likely)",
    "harmful": "decided harmful (--harmful)",
    "refined": "the refined mask (--refined)",
    "count": "the lowest values, a given number (--count)",
    "share": "the lowest values, a given share (--share)",
    "soft": "the soft mask (--soft)",
    "safe": "harmful on average, and no language loses more than the margin (--safe)",
    "best": "the best kind of mask on the examples of the run (--mask best)",
    "mask file": "the mask file (--mask)",
}


def refine_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of headwise score or study.")],
    languages: Annotated[
        str, typer.Option("--languages", help="Comma-separated language codes of the run, or 'all'.")
    ] = "all",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Maximum number of passes over the examples.")] = 12,
    width: Annotated[
        int, typer.Option("--width", min=1, help="Maximum number of heads changed in the first step.")
    ] = 8,
    examples: Annotated[int, typer.Option("--examples", min=2, help="Maximum number of examples per language.")] = 512,
    seed: Seed = 0,
    workers: Workers = None,
    cluster: ClusterAddress = None,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Improve the masks of a run step by step.

    Start from the mask without the harmful heads. Remove heads that are harmful under it, and restore heads that help.
    """
    codes = [code.strip() for code in languages.split(",") if code.strip()]
    if not codes:
        raise HeadwiseError("--languages names no language: give codes such as zh,tr or 'all'")
    with show_resumable("refining") as advance:
        from headwise.scoring import RefinementPlan, refine_run
        from headwise.scoring.run_folder import REFINED, scored_folder

        folder = scored_folder(run)
        plan, chosen = RefinementPlan(rounds, width, examples, seed), () if codes == ["all"] else codes
        with use_workers(workers, cluster, "auto") as (make_engine, _):
            found = refine_run(folder, chosen, plan, advance, trust_remote_code, make_engine=make_engine)
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
    typer.echo("The values are on the examples that the masks were chosen on: evaluate the masks on other examples.")
    typer.echo(f"Masks are in {folder / REFINED}; to use one: {use}")


def prune_command(
    model: Annotated[
        str, typer.Argument(metavar="MODEL|RUN", help="A model, or a run folder of headwise score or study.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Output folder, new or empty.")],
    mask: Annotated[
        Path | None,
        typer.Option(
            "--mask",
            metavar="FILE|best",
            help="Apply this mask file: remove the heads that are off, or scale them (soft mask). 'best', for a run: "
            "compare all kinds of masks on its examples and use the best one, or none. This is the default for a run.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", help="Choose the heads by the scores of this language in the run.")
    ] = None,
    likely: Annotated[
        bool,
        typer.Option("--likely", help="Remove likely harmful heads, of which 10% may be harmless."),
    ] = False,
    harmful: Annotated[
        bool, typer.Option("--harmful", help="Remove heads that are decided harmful at the error rate of the run.")
    ] = False,
    refined: Annotated[
        bool, typer.Option("--refined", help="Use the mask made by headwise refine or a targeted study.")
    ] = False,
    soft: Annotated[bool, typer.Option("--soft", help="Use the soft mask made by headwise gates.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=0, help="Remove this number of heads, lowest values first.")
    ] = None,
    share: Annotated[
        float | None, typer.Option("--share", min=0, max=1, help="Remove this share of the heads, lowest values first.")
    ] = None,
    safe: Annotated[
        bool,
        typer.Option(
            "--safe",
            help="One mask for all languages of the run: no language loses more than --margin (no --language).",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option("--margin", min=0, help="With --safe: the largest loss in points of the metric.  [default: 0.5]"),
    ] = None,
    kind: Annotated[
        ExportKind | None,
        typer.Option(
            "--export",
            help="What to write: a mask file, folded weights, or a smaller model.  "
            "[default: shrunk; folded for a soft mask without gates of 0]",
        ),
    ] = None,
    means: Annotated[
        Path | None,
        typer.Option(
            "--means", help="With --mask: mean outputs that replace removed heads (a file of score --baseline mean)."
        ),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Refit the output projections by least squares on the examples of the run."),
    ] = False,
    other_weights: Annotated[
        bool, typer.Option("--other-weights", help="The mask was made for other weights of the same shape.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a pruned model.")] = False,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Remove heads from a model and save it.

    The result is the model with a mask file, with the mask folded into its weights, or with fewer weights.
    """
    from headwise.heads import find_heads
    from headwise.means import MeanOutputs
    from headwise.models import load_model, load_tokenizer
    from headwise.pruning import export
    from headwise.pruning.checkpoint import PRUNED
    from headwise.scoring.choose import choose_mask

    flags = {"likely": likely, "harmful": harmful, "refined": refined, "soft": soft, "safe": safe}
    rules, best = [name for name, given in flags.items() if given], str(mask) == "best"
    numbered = count is not None or share is not None
    _check_rules(rules, best, numbered, language, mask, margin, repair)
    found: BestMask | SafeMask | None = None
    choice: MaskChoice | None = None
    compared = safe or best or (language is not None and mask is None and not rules and not numbered)
    mask = None if compared else mask
    _check_options(mask, means, repair, kind)
    if compared:  # takes long, so that the folder is checked before
        check_target(out, {**_model_of_run(model), "the run": Path(model)}, PRUNED, overwrite)
    if safe:
        found, choice = _find_safe(model, 0.5 if margin is None else margin, trust_remote_code)
    elif compared:
        found, choice = _find_best(model, str(language), trust_remote_code, best)
    if choice is None:
        choice = choose_mask(model, mask, language=language, rule=rules[0] if rules else None, count=count, share=share)
    file = means or choice.means
    baseline = None if file is None else MeanOutputs.load(file)
    kept = {**_models(choice.model), "the run": Path(model), "the source of the mask": choice.source}
    check_target(out, kept, PRUNED, overwrite)
    loaded = load_model(choice.model, trust_remote_code)
    heads = find_heads(loaded)
    chosen = choice.mask.moved_to(heads) if other_weights else choice.mask
    chosen.check(heads)
    kind = kind or (ExportKind.shrunk if chosen.off else ExportKind.folded)
    tokenizer, repaired = load_tokenizer(choice.model, trust_remote_code), []

    def refit(pruned: Any) -> bool:
        from headwise.scoring.repair import examples_of_run, repair_model

        setting, examples = examples_of_run(model, str(language), loaded, tokenizer)
        repaired.append(repair_model(pruned, setting, examples, str(language)))
        return repaired[-1].kept

    facts = _facts(model, language, choice)
    written = export(loaded, chosen, tokenizer, out, kind, overwrite, baseline, refit if repair else None, facts)
    _print_exported(choice.rule, written, baseline is not None, repaired[0] if repaired else None, as_json, found)


def _check_rules(
    rules: list[str],
    best: bool,
    numbered: bool,
    language: str | None,
    mask: Path | None,
    margin: float | None,
    repair: bool,
) -> None:
    """Check that a call chooses heads in one way."""
    safe = "safe" in rules
    if len(rules) > 1:
        raise HeadwiseError(
            "--likely, --harmful, --refined, --soft and --safe are different ways to choose heads: give one of them"
        )
    if margin is not None and not safe:
        raise HeadwiseError("--margin is for --safe: give both, or none of them")
    if safe and (language is not None or mask is not None or numbered or repair):
        raise HeadwiseError("--safe is about all languages of a run: give no --language, mask, number or --repair")
    if best and (language is None or rules or numbered):
        raise HeadwiseError(
            "--mask best chooses the heads of a run: give its folder and --language, and no other rule, number or share"
        )


def _find_safe(run: str, margin: float, trust_remote_code: bool) -> "tuple[SafeMask, MaskChoice]":
    """The mask for all languages of a run."""
    from headwise.scoring.best_run import safe_mask_of_run
    from headwise.scoring.choose import safe_choice

    with show_resumable("testing masks") as advance:
        found = safe_mask_of_run(run, margin, progress=advance, trust_remote_code=trust_remote_code)
    typer.echo(str(found), err=True)
    return found, safe_choice(run, found)


def _find_best(
    run: str, language: str, trust_remote_code: bool, named: bool
) -> "tuple[BestMask, MaskChoice] | tuple[None, None]":
    """The best mask of a run; None if its masks cannot be compared and nobody asked for it, which is printed."""
    from headwise.scoring.best_run import best_of_run
    from headwise.scoring.choose import best_choice

    try:
        with show_resumable("comparing masks") as advance:
            found = best_of_run(run, language, None, advance, trust_remote_code)
    except HeadwiseError as error:
        if named:
            raise
        typer.echo(f"headwise: masks cannot be compared ({error}), so likely harmful heads are removed", err=True)
        return None, None
    typer.echo(str(found), err=True)
    return found, best_choice(run, found)


def _facts(run: str, language: str | None, choice: "MaskChoice") -> list[str]:
    """Sentences for the model card: the run that the heads were chosen by, and this command."""
    facts: list[str] = []
    if language is not None:
        from headwise.studies.card_facts import facts_of_run

        facts += facts_of_run(run, language, choice.mask, choice.rule)
    return [*facts, f"Command of this model: `{shlex.join(['headwise', *sys.argv[1:]])}`."]


def _check_options(mask: Path | None, means: Path | None, repair: bool, kind: ExportKind | None) -> None:
    """Raise an error for options that do not fit each other."""
    if repair and (mask is not None or kind is ExportKind.mask):
        raise HeadwiseError(
            "--repair needs the examples of a run and writes weights: give a run folder and --language, and "
            "--export shrunk or folded"
        )
    if means is not None and mask is None:
        raise HeadwiseError("--means is for --mask: a run has its own mean outputs, which are used without it")


def _model_of_run(run: str) -> dict[str, Path]:
    """The folders of the model of a run; none if there is no run, which is an error later."""
    from headwise.scoring.plan import plan_of
    from headwise.scoring.run_folder import scored_folder

    try:
        return _models(plan_of(scored_folder(run)).model)
    except HeadwiseError:
        return {}


def _models(name: str) -> dict[str, Path]:
    """The folders of a model and of the base model of an adapter."""
    from headwise.models.adapted import find_adapter

    adapter = find_adapter(name) if Path(name).is_dir() else None
    return {"the model": Path(name), **({"the base model": Path(adapter.base)} if adapter else {})}


def _print_exported(
    rule: str,
    found: "Exported",
    means: bool,
    repaired: "Repaired | None",
    as_json: bool,
    compared: "BestMask | SafeMask | None" = None,
) -> None:
    """Print the rule, the removed heads, and the size of a shrunk model."""
    from headwise.soft_masks import SoftMask

    off, total, (before, after) = found.mask.off, len(found.mask.players), found.parameters
    gates = found.mask.gates if isinstance(found.mask, SoftMask) else ()
    if as_json:
        about: dict[str, Any] = {
            "out": str(found.folder),
            "export": found.kind.value,
            "rule": rule,
            "removed": len(off),
            "of": total,
        }
        about["baseline"] = "mean" if means else "zero"
        if compared is not None:
            about["safe" if rule == "safe" else "best"] = compared.to_dict()
        if repaired is not None:
            about["repair"] = repaired.to_dict()
        scaled = {"gates": dict(zip(found.mask.players, gates, strict=True))} if gates else {}
        typer.echo(json.dumps({**about, "heads": off, **scaled, "parameters": {"before": before, "after": after}}))
        return
    typer.echo(f"{found.folder}: {found.kind.value}, {len(off)} of {total} {found.mask.kind} off")
    typer.echo(f"Chosen by: {_RULES.get(rule, rule)}.")
    if gates:
        typer.echo(f"Gates: from {min(gates):g} to {max(gates):g}.")
    if off:
        typer.echo(f"Removed: {shorten(off)}.")
    if means:
        typer.echo("Removed heads are replaced by their mean outputs.")
    if repaired is not None:
        verdict = "kept" if repaired.kept else "worse, so the weights were left as they were"
        typer.echo(
            f"Repair: {repaired.metric} {repaired.before:.2f} before, {repaired.after:.2f} after, on the examples of "
            f"the run ({verdict})."
        )
    if found.kind is ExportKind.shrunk:
        typer.echo(f"Parameters: {before:,} before, {after:,} after ({after / before - 1:+.1%}).")
