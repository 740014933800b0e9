"""`headwise roles`."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import AsJson, Device, Dtype, Limit, ModelName, Split, TrustRemoteCode, show_device
from headwise.cli.progress import show_resumable
from headwise.cli.tables import print_table
from headwise.cli.tasks import Data, Languages
from headwise.data.task_names import TASKS

if TYPE_CHECKING:
    from headwise.roles import HeadRoles

#: Relations of the table of best heads, those of Voita et al. (2019).
_RELATIONS = ("nsubj", "obj", "amod", "advmod")


def roles_command(
    model: ModelName,
    data: Data = "phrasebook",
    languages: Languages = "all",
    task: Annotated[
        str, typer.Option("--task", help=f"Read this task's data, one of {', '.join(TASKS)}.  [default: treebanks]")
    ] = "",
    split: Split = "dev",
    limit: Limit = None,
    scores: Annotated[
        Path | None, typer.Option("--scores", help="Run folder of headwise score, to compare harmful and other heads.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder.  [default: runs/MODEL-roles]")] = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Measure what heads attend to in every language: positions, syntactic relations, rare words, separators.

    The same command resumes an interrupted run.
    """
    folder = Path("runs", f"{Path(model).name}-roles") if out is None else out
    with show_resumable("measuring roles", "examples") as advance:
        from headwise.models import load_model, load_tokenizer
        from headwise.roles import roles
        from headwise.scoring.run_folder import load_scores

        scored = None if scores is None else load_scores(scores)  # before the long work, because it may fail
        show_device(device, dtype)
        loaded = load_model(model, trust_remote_code, device=device, dtype=dtype)
        found = roles(
            loaded, load_tokenizer(model, trust_remote_code), data, task=task, languages=languages, split=split,
            limit=limit, out=folder, progress=advance,
        )  # fmt: skip
    summary = _summary(found, scored)
    if as_json:
        from headwise.scores import number

        plain = json.loads(json.dumps({"out": str(folder), **summary}), parse_constant=lambda _: None)
        typer.echo(json.dumps(plain, default=number))
    else:
        _print(model, folder, found, summary)


def _summary(found: "HeadRoles", scored: Any) -> dict[str, Any]:
    """The roles of heads by language, the best heads of relations and, with scores, their comparison."""
    from headwise.roles import best_heads, label_heads, role_stability, separator_test, shared_heads

    labels = label_heads(found)
    summary: dict[str, Any] = {
        "notes": found.about["notes"],
        "languages": {
            language: {
                "examples": each.examples,
                "cut": each.cut,
                "labels": [dataclasses.asdict(label) for label in labels if label.language == language],
                "best_heads": [dataclasses.asdict(best) for best in best_heads(each)],
            }
            for language, each in found.items()
        },
        "stability": [dataclasses.asdict(each) for each in role_stability(found)],
    }
    if scored is not None:
        shared = shared_heads(found, scored)
        summary["separators"] = [dataclasses.asdict(each) for each in separator_test(found, scored)]
        summary["shared_heads"] = [
            {**vars(each), "roles": {role: sorted(where) for role, where in each.roles.items()}} for each in shared
        ]
    return summary


def _print(model: str, folder: Path, found: "HeadRoles", summary: dict[str, Any]) -> None:
    columns, rows = found.summary()
    print_table(f"{model}: number of heads with each role", columns, rows)
    _print_relations(summary)
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
