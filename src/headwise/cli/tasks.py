"""`headwise eval` and `headwise tune`."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli.options import (
    AsJson,
    ClusterAddress,
    Device,
    Dtype,
    ModelName,
    Split,
    TrustRemoteCode,
    Workers,
    show_device,
    use_workers,
)
from headwise.cli.progress import show_progress, show_resumable
from headwise.cli.tables import print_table
from headwise.data.named import KINDS
from headwise.data.task_names import CAUSAL_TASKS, TASKS
from headwise.errors import HeadwiseError

if TYPE_CHECKING:
    from headwise.data.dataset import Dataset
    from headwise.data.examples import Example
    from headwise.engine import EngineFactory
    from headwise.engine.evaluation import MaskJudge, Measurement
    from headwise.heads import HeadMap
    from headwise.means import MeanOutputs
    from headwise.soft_masks import AnyMask
    from headwise.tasks.protocol import AnyTask
    from headwise.tasks.task import Piece

TaskName = Annotated[str, typer.Option("--task", help=f"One of {', '.join(TASKS)}.")]
Data = Annotated[str, typer.Option("--data", help=f"{KINDS[0].upper()}{KINDS[1:]}.")]
Languages = Annotated[
    str,
    typer.Option(
        "--languages", help="Comma-separated language codes (language pairs such as en-de for translation), or 'all'."
    ),
]
MaskFile = Annotated[Path | None, typer.Option("--mask", help="Apply this mask file, hard or soft, to the model.")]
OtherWeights = Annotated[
    bool, typer.Option("--other-weights", help="The mask was made for other weights of the same shape.")
]
Pieces = Annotated[
    str, typer.Option("--piece", help="Token that carries the label of a word: text (first token with text) or first.")
]
Window = Annotated[
    int | None,
    typer.Option("--window", min=1, help="Number of tokens that a causal model reads at a time (lm).  [default: 512]"),
]


def _folder(value: str) -> Path:
    """The folder of an option; an empty name is an error, since it would mean the current folder."""
    if not value.strip():
        raise typer.BadParameter("the name of the folder is empty")
    return Path(value)


def evaluate_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    languages: Languages = "all",
    split: Split = "test",
    mask: MaskFile = None,
    means: Annotated[
        Path | None, typer.Option("--means", help="Mean outputs that replace the heads that are off in the mask.")
    ] = None,
    other_weights: OtherWeights = False,
    piece: Pieces = "text",
    beams: Annotated[
        int | None, typer.Option("--beams", min=1, help="Number of beams (translation).  [default: 1]")
    ] = None,
    window: Window = None,
    wrong_language: Annotated[
        bool,
        typer.Option(
            "--wrong-language",
            help="Also show the share of generated texts in another language (translation, continuation, lm).",
        ),
    ] = False,
    device: Device = "auto",
    dtype: Dtype = "float32",
    workers: Workers = None,
    cluster: ClusterAddress = None,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Evaluate a model on a task, language by language."""
    show_device(device, dtype)
    with _stoppable():
        from headwise.data.catalog import open_dataset
        from headwise.data.selection import language_codes
        from headwise.models import load_model
        from headwise.tasks.dispatch import task_of

        dataset = open_dataset(data, task)
        _check_used(task, beams, window, wrong_language)
        side, wanted, baseline = _piece(piece), _mask(mask), _means(means)
        examples = _examples(dataset, language_codes(languages, dataset), split)
        distributed = workers is not None or cluster is not None
        loaded = load_model(model, trust_remote_code, device="cpu" if distributed else device, dtype=dtype)
        tokenizer = _tokenizer(model, trust_remote_code)
        chosen = task_of(loaded, task, side, beams or 1, window)
        if distributed:
            with use_workers(workers, cluster, device) as (make_engine, _):
                judge = _judge(loaded, chosen, tokenizer, baseline, make_engine)
                results = _judge_each(judge, _fitting(judge.heads, wanted, other_weights), examples)
        else:
            with _under(loaded, wanted, other_weights, baseline):
                results = _measure_each(loaded, chosen, examples, tokenizer, wrong_language)
    _print_evaluations(model, dataset, split, results, as_json)


def tune_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    out: Annotated[
        Path,
        typer.Option("--out", parser=_folder, metavar="PATH", help="Folder for the tuned model, new or empty."),
    ],
    train_languages: Annotated[
        str,
        typer.Option("--train-languages", help="Training languages (language pairs such as en-de for translation)."),
    ] = "en",
    mask: MaskFile = None,
    other_weights: OtherWeights = False,
    piece: Pieces = "text",
    window: Window = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Number of epochs.")] = 3,
    learning_rate: Annotated[float, typer.Option("--learning-rate", min=0.0, help="Peak learning rate.")] = 2e-5,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", min=16, help="Maximum number of tokens per batch.")
    ] = 1024,
    train_embeddings: Annotated[bool, typer.Option("--train-embeddings", help="Also tune the embeddings.")] = False,
    bfloat16: Annotated[bool, typer.Option("--bfloat16", help="Compute in bfloat16.")] = False,
    patience: Annotated[
        int,
        typer.Option(
            "--patience",
            min=0,
            help="Stop after this number of epochs without a better dev value; 0 disables early stopping.",
        ),
    ] = 0,
    lora_rank: Annotated[
        int,
        typer.Option(
            "--lora-rank", min=0, help="Train LoRA adapters of this rank and merge them; 0 trains all weights."
        ),
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the random draws.")] = 0,
    device: Device = "auto",
    dtype: Dtype = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a tuned model.")] = False,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Tune a model on a task and save it as a checkpoint.

    The same command resumes an interrupted run.
    """
    with show_resumable("tuning", "steps") as advance:
        from headwise.tuning import TuningPlan, run_tuning

        plan = TuningPlan(
            model=model,
            task=task,
            data=data,
            train_languages=train_languages,
            mask=None if mask is None else str(mask),
            other_weights=other_weights,
            piece=piece,
            window=window,
            epochs=epochs,
            learning_rate=learning_rate,
            batch_tokens=batch_tokens,
            train_embeddings=train_embeddings,
            bfloat16=bfloat16,
            patience=patience,
            lora_rank=lora_rank,
            seed=seed,
            device=device,
            dtype=dtype,
        )
        show_device(device, dtype)
        result = run_tuning(plan, out, overwrite, trust_remote_code, advance)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **dataclasses.asdict(result)}))
    else:
        typer.echo(f"{out}: {result.metric} {result.best_value:.2f} on dev after epoch {result.best_epoch}")


@contextmanager
def _stoppable() -> Iterator[None]:
    """On Ctrl-C, print one line and exit; the work cannot be resumed."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("headwise: stopped", err=True)
        raise typer.Exit(130) from None


def _check_used(task: str, beams: int | None, window: int | None, wrong_language: bool) -> None:
    """Raise an error for an option that the task does not use."""
    for option, value, only in (
        ("--beams", beams, ("translation",)),
        ("--window", window, CAUSAL_TASKS),
        ("--wrong-language", wrong_language or None, ("translation", "continuation", "lm")),
    ):
        if value is not None and task not in only:
            raise HeadwiseError(f"{option} is for the task {' or '.join(only)}, and {task} does not use it: omit it")


def _examples(dataset: "Dataset", codes: Sequence[str], split: str) -> "dict[str, tuple[Example, ...]]":
    """The examples of each language."""
    unknown_first = sorted(
        codes, key=lambda code: code in dataset.languages
    )  # so that they fail before other files are read
    found = {code: dataset.examples(code, split) for code in unknown_first}
    return {code: found[code] for code in codes}


def _mask(file: Path | None) -> "AnyMask | None":
    from headwise.soft_masks import load_mask

    return None if file is None else load_mask(file)


def _means(file: Path | None) -> "MeanOutputs | None":
    from headwise.means import MeanOutputs

    return None if file is None else MeanOutputs.load(file)


@contextmanager
def _under(
    model: Any, mask: "AnyMask | None", other_weights: bool, baseline: "MeanOutputs | None" = None
) -> Iterator[None]:
    """Apply a mask to the model; with `other_weights`, the mask may be made for other weights."""
    from headwise.gates import gated
    from headwise.heads import find_heads

    heads = find_heads(model)
    with gated(model, _fitting(heads, mask, other_weights), heads=heads, baseline=baseline):
        yield


def _fitting(heads: "HeadMap", mask: "AnyMask | None", other_weights: bool) -> "AnyMask":
    """The mask to apply; with `other_weights`, it may be made for other weights."""
    from headwise.masks import HeadMask

    if mask is None:
        return HeadMask.full(heads)
    return mask.moved_to(heads) if other_weights else mask


def _judge(
    model: Any, task: "AnyTask", tokenizer: Any, baseline: "MeanOutputs | None", make_engine: "EngineFactory"
) -> "MaskJudge":
    """A judge without examples that measures with workers."""
    from headwise.engine.evaluation import MaskJudge
    from headwise.heads import find_heads
    from headwise.tasks import Task

    if not isinstance(task, Task):
        raise HeadwiseError(f"{task.name} is evaluated in this process: omit --workers and --cluster")
    return MaskJudge(model, find_heads(model), task, (), tokenizer, baseline=baseline, make_engine=make_engine)


def _judge_each(
    judge: "MaskJudge", mask: "AnyMask", examples: "Mapping[str, Sequence[Example]]"
) -> "dict[str, Measurement]":
    """The results of each language under a mask."""
    from headwise.engine.evaluation import Measurement

    results: dict[str, Measurement] = {}
    done, total = 0, sum(map(len, examples.values()))
    with show_progress("evaluating", "examples") as progress:
        for language, each in examples.items():
            progress(done, total, language)
            found = dataclasses.replace(judge, examples=each, language=language).evaluate(mask)
            results[language] = Measurement((found,))
            done += len(each)
            progress(done, total, language)
    return results


def _measure_each(
    model: Any,
    task: "AnyTask",
    examples: "Mapping[str, Sequence[Example]]",
    tokenizer: Any,
    wrong_language: bool = False,
) -> "dict[str, Measurement]":
    from headwise.engine.evaluation import measure

    results: dict[str, Measurement] = {}
    done, total = 0, sum(map(len, examples.values()))
    with show_progress("evaluating", "examples") as progress:
        for language, each in examples.items():

            def advance(count: int, language: str = language) -> None:
                nonlocal done
                done += count
                progress(done, total, language)

            progress(done, total, language)
            results[language] = measure(model, task, each, tokenizer, language, advance, wrong_language)
    return results


def _piece(name: str) -> "Piece":
    if name not in ("text", "first"):
        raise HeadwiseError(f"--piece is 'text' or 'first', not {name!r}")
    return "text" if name == "text" else "first"


def _tokenizer(model: str, trust_remote_code: bool) -> Any:
    from headwise.models import load_tokenizer

    tokenizer = load_tokenizer(model, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{model}: the model has no tokenizer")
    return tokenizer


def _print_evaluations(
    model: str, dataset: "Dataset", split: str, measured: "dict[str, Measurement]", as_json: bool
) -> None:
    from headwise.scores import number

    metrics = [result.metric for result in next(iter(measured.values())).results]
    means = {
        metric: sum(each.results[place].value for each in measured.values()) / len(measured)
        for place, metric in enumerate(metrics)
    }
    if as_json:
        summary = {
            "model": model,
            "data": dataset.name,
            "split": split,
            "metric": metrics[0],
            "mean": number(means[metrics[0]]),
        }
        shown = {metric: number(mean) for metric, mean in means.items()}
        rows = {language: _row(each) for language, each in measured.items()}
        typer.echo(json.dumps({**summary, "means": shown, "note": dataset.note, "languages": rows}))
        return
    columns = [column for metric in metrics for column in (metric, "95% interval")]
    lines: list[list[str]] = []
    for language, each in measured.items():
        cells = [cell for r in each.results for cell in (f"{r.value:.2f}", f"{r.low:.2f} to {r.high:.2f}")]
        first = each.results[0]
        lines.append([language, *cells, str(first.examples), str(first.cut or "")])
    mean_row = ["mean", *(cell for mean in means.values() for cell in (f"{mean:.2f}", "")), "", ""]
    title = f"{model} on {dataset.name}, {split}"
    print_table(title, ["language", *columns, "examples", "cut"], [*lines, [], mean_row])
    signatures = {f"{name}: {text}" for each in measured.values() for name, text in each.signatures.items()}
    for line in (*sorted(signatures), dataset.note):
        if line:
            typer.echo(line)


def _row(measurement: "Measurement") -> dict[str, Any]:
    """One language as JSON: the values of the main metric, and all metrics by name."""
    from headwise.scores import number

    figures = {
        r.metric: {"value": number(r.value), "low": number(r.low), "high": number(r.high)} for r in measurement.results
    }
    first = measurement.results[0]
    row = {**figures[first.metric], "examples": first.examples, "cut": first.cut, "metrics": figures}
    return {**row, "signatures": measurement.signatures} if measurement.signatures else row
