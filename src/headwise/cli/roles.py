"""`headwise roles`."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import (
    AsJson,
    ClusterAddress,
    Device,
    Dtype,
    Limit,
    ModelName,
    Split,
    TrustRemoteCode,
    Workers,
    show_device,
    use_workers,
)
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.cli.tasks import Data
from headwise.data.task_names import TASKS
from headwise.errors import FieldError
from headwise.files import check_page

if TYPE_CHECKING:
    from headwise.roles import HeadRoles, Joined

#: Relations of the table of best heads, those of Voita et al. (2019).
_RELATIONS = ("nsubj", "obj", "amod", "advmod")


def roles_command(
    model: ModelName,
    data: Data = "phrasebook",
    languages: Annotated[
        str | None,
        typer.Option(
            "--languages", help="Comma-separated language codes, or 'all'.  [default: all; none with --pairs]"
        ),
    ] = None,
    pairs: Annotated[
        str,
        typer.Option(
            "--pairs", help="Comma-separated pairs of languages, such as en-de,en-zh, to find alignment heads."
        ),
    ] = "",
    task: Annotated[
        str, typer.Option("--task", help=f"Read this task's data, one of {', '.join(TASKS)}.  [default: treebanks]")
    ] = "",
    split: Split = "dev",
    limit: Limit = None,
    frequencies: Annotated[
        str, typer.Option("--frequencies", help="Which words are rare: data (tokens of the examples) or wordfreq.")
    ] = "data",
    scores: Annotated[
        Path | None, typer.Option("--scores", help="Run folder of headwise score, to compare harmful and other heads.")
    ] = None,
    mean_scores: Annotated[
        Path | None,
        typer.Option("--mean-scores", help="Run folder with --baseline mean: which roles mean ablation hurts."),
    ] = None,
    masks: Annotated[
        list[Path] | None,
        typer.Option("--masks", help="Mask file, or a folder of them: which roles survive. Can be repeated."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option("--compare", help="Run folder of headwise roles: how stable roles are.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write tables and plots as a page of Markdown with this name.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder.  [default: runs/MODEL-roles]")] = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    workers: Workers = None,
    cluster: ClusterAddress = None,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Measure what heads attend to in every language: positions, relations, rare words, separators, translations.

    The same command resumes an interrupted run.
    """
    folder = Path("runs", f"{Path(model).name}-roles") if out is None else out
    with show_resumable("measuring roles", "examples") as advance:
        from headwise.models import load_model, load_tokenizer
        from headwise.roles import roles, write_page

        if markdown is not None:
            check_page(markdown, ".md")
        joined = _joined(scores, mean_scores, masks or [], compare)  # before the long work, because it may fail
        show_device(device, dtype)
        with use_workers(workers, cluster, device) as (make_engine, here):
            loaded = load_model(model, trust_remote_code, device=here, dtype=dtype)
            found = roles(
                loaded, load_tokenizer(model, trust_remote_code), data, task=task, languages=languages, pairs=pairs,
                frequencies=frequencies, split=split, limit=limit, out=folder, progress=advance,
                make_engine=make_engine,
            )  # fmt: skip
    named = replace(found, about={**found.about, "model": Path(model).name})
    if markdown is not None:
        write_page(named, markdown, joined)
    summary = _summary(found, joined)
    if as_json:
        from headwise.scores import number

        plain = json.loads(json.dumps({"out": str(folder), **summary}), parse_constant=lambda _: None)
        typer.echo(json.dumps(plain, default=number))
    else:
        _print(model, folder, found, summary)


def _joined(scores: Path | None, mean_scores: Path | None, masks: list[Path], compare: Path | None) -> "Joined":
    """What the options ask to compare roles with."""
    from headwise.masks import HeadMask
    from headwise.roles import HeadRoles, Joined
    from headwise.scoring.run_folder import load_scores

    files = [file for path in masks for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    means = {} if mean_scores is None else load_scores(mean_scores)
    if any(each.provenance.baseline != "mean" for each in means.values()):
        raise FieldError("mean_scores", f"{mean_scores} has scores of another baseline: score with --baseline mean")
    if masks and not files:
        raise FieldError("masks", f"{masks[0]} has no mask files (*.json)")
    if compare is not None and not (compare / "roles.json").is_file():
        raise FieldError("compare", f"{compare} has no roles.json: give a finished run folder of headwise roles")
    return Joined(
        scores={} if scores is None else load_scores(scores),
        mean_scores=means,
        masks=[HeadMask.load(file) for file in files],
        other=None if compare is None else HeadRoles.load(compare / "roles.json"),
    )


def _summary(found: "HeadRoles", joined: "Joined") -> dict[str, Any]:
    """The roles of heads by language, the best heads of relations and the comparisons that were asked for."""
    from headwise.roles import alignment_heads, best_heads, compare_roles, label_heads, retained_roles, role_stability

    labels = label_heads(found)
    summary: dict[str, Any] = {
        "notes": found.about["notes"],
        "languages": {
            language: {
                "examples": each.examples,
                "cut": each.cut,
                "labels": [asdict(label) for label in labels if label.language == language],
                "best_heads": [asdict(best) for best in best_heads(each)],
            }
            for language, each in found.items()
        },
        "stability": [asdict(each) for each in role_stability(found)],
        "alignment_heads": [asdict(each) for each in alignment_heads(found)],
    }
    if joined.masks:
        summary["retained"] = [asdict(each) for each in retained_roles(found, joined.masks)]
    if joined.other is not None:
        summary["compared"] = [
            {**asdict(each), "median_correlation": each.median_correlation}
            for each in compare_roles(found, joined.other)
        ]
    return summary | _score_summary(found, joined)


def _score_summary(found: "HeadRoles", joined: "Joined") -> dict[str, Any]:
    from headwise.roles import role_values, separator_test, shared_heads

    given = [each for each in (joined.scores, joined.mean_scores) if each]
    summary: dict[str, Any] = {"values": [asdict(row) for each in given for row in role_values(found, each)]}
    if joined.scores:
        summary["separators"] = [asdict(each) for each in separator_test(found, joined.scores)]
        summary["shared_heads"] = [
            {**vars(each), "roles": {role: sorted(where) for role, where in each.roles.items()}}
            for each in shared_heads(found, joined.scores)
        ]
    return summary


def _print(model: str, folder: Path, found: "HeadRoles", summary: dict[str, Any]) -> None:
    columns, rows = found.summary()
    print_table(f"{model}: number of heads with each role", columns, rows)
    _print_relations(summary)
    _print_joined(summary)
    if "separators" in summary:
        print_table(
            "attention to separators (Mann-Whitney U test)",
            ("language", "harmful heads", "other heads", "harmful mean", "other mean", "p-value", "significant"),
            (
                (row["language"], str(row["harmful"]), str(row["others"]), f"{row['harmful_mean']:.3f}",
                 f"{row['others_mean']:.3f}", f"{row['p_value']:.3g}", "yes" if row["significant"] else "no")
                for row in summary["separators"]
            ),
        )  # fmt: skip
        for row in summary["shared_heads"]:
            where = f" to {row['language']}" if row["language"] else ""
            typer.echo(f"{row['head']} is language-{row['kind']}{where}; roles: {', '.join(row['roles']) or 'none'}.")
    for line in summary["notes"]:
        typer.echo(line)
    typer.echo(f"The table is in {folder / 'roles.csv'}, also as .parquet and .json.")


def _print_joined(summary: dict[str, Any]) -> None:
    """Alignment heads, the values of roles, the roles that masks keep, and the comparison with another run."""
    tables = {
        "alignment_heads": (
            "alignment heads",
            {"pair": "", "direction": "", "head": "", "link": ".0%", "baseline": ".0%", "weight": ".3f",
             "shuffled": ".3f", "count": "d", "heads": "d"},
        ),
        "values": (
            "values of heads with a role and of others (Mann-Whitney U test)",
            {"language": "", "baseline": "", "role": "", "heads": "d", "value": ".3g", "others_value": ".3g",
             "p_value": ".3g", "significant": ""},
        ),
        "compared": (
            "compared with the other run", {"language": "", "same": ".0%", "median_correlation": ".2f"}
        ),
    }  # fmt: skip
    for key, (title, columns) in tables.items():
        if summary.get(key):
            rows = [[format(row[name], style) for name, style in columns.items()] for row in summary[key]]
            print_table(title, [name.replace("_", " ") for name in columns], rows)
    if "retained" in summary:
        names = list(dict.fromkeys(role for row in summary["retained"] for role in row["roles"]))
        print_table(
            "roles of the heads that masks keep",
            ("language", "heads kept", *names, "no role"),
            (
                (row["language"], str(row["kept"]), *(str(row["roles"].get(role, 0)) for role in names),
                 str(row["none"]))
                for row in summary["retained"]
            ),
        )  # fmt: skip


def _print_relations(summary: dict[str, Any]) -> None:
    """Best head and baseline of the main relations in every language, in percent."""
    languages = summary["languages"]
    best = {
        (row["relation"], row["direction"], language): row
        for language, each in languages.items()
        for row in each["best_heads"]
    }
    rows = []
    for relation in _RELATIONS:
        for direction, shown in (("dependent", f"head → {relation}"), ("head", f"{relation} → head")):
            cells = [best.get((relation, direction, language)) for language in languages]
            if any(cells):
                rows.append(
                    (shown, *(f"{100 * c['value']:.0f} / {100 * c['baseline']:.0f}" if c else "" for c in cells))
                )
    if rows:
        print_table("best head / most frequent offset, %", ("relation", *languages), rows)
