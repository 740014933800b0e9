"""`headwise eval` and `headwise tune`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from headwise.cli.options import AsJson, ModelName, TrustRemoteCode
from headwise.cli.progress import show_progress
from headwise.data.choosing import language_codes
from headwise.data.dataset import Dataset
from headwise.data.opening import open_dataset
from headwise.errors import HeadwiseError
from headwise.files import new_folder
from headwise.gates import gated
from headwise.heads import PRUNED_ATTRIBUTE, find_heads
from headwise.masks import HeadMask
from headwise.models import add_head, is_default, load_model, load_tokenizer
from headwise.models.adapted import find_adapter
from headwise.models.defaults import default_folder_of
from headwise.pruning import save_pruned
from headwise.tasks import Task, find_task, labels_of
from headwise.tasks.dispatch import TEXT_TASKS, Measurement, check_tokenizer, measure, task_of
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import TASKS, Piece
from headwise.tasks.tuning import TuneSettings, tune

TaskName = Annotated[str, typer.Option("--task", help=f"One of {', '.join(TASKS)}.")]
Data = Annotated[str, typer.Option("--data", help="A folder, 'phrasebook', 'commands', 'hub:NAME' or a YAML file.")]
Languages = Annotated[
    str, typer.Option("--languages", help="Comma-separated codes (for translation pairs: en-de), or 'all'.")
]
MaskFile = Annotated[Path | None, typer.Option("--mask", help="Run under this mask.")]
Pieces = Annotated[str, typer.Option("--piece", help="Which piece of a word carries its label: text or first.")]
Window = Annotated[
    int | None,
    typer.Option("--window", min=1, help="Tokens that a causal model reads at a time (lm); 512 unless told."),
]


def evaluate_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    languages: Languages = "all",
    split: Annotated[str, typer.Option("--split", help="Which part of the data.")] = "test",
    mask: MaskFile = None,
    piece: Pieces = "text",
    beams: Annotated[int, typer.Option("--beams", min=1, help="Beams of the search (translation).")] = 1,
    window: Window = None,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Measure a model on a task, language by language."""
    dataset = open_dataset(data, task)
    loaded, tokenizer = load_model(model, trust_remote_code), _tokenizer(model, trust_remote_code)
    chosen = task_of(loaded, task, _piece(piece), beams, window)
    check_tokenizer(chosen, tokenizer)
    heads = find_heads(loaded)
    gates = HeadMask.full(heads) if mask is None else HeadMask.load(mask)
    codes = language_codes(languages, dataset)
    results: dict[str, Measurement] = {}
    with gated(loaded, gates, heads=heads), show_progress("evaluating") as advance:
        for done, language in enumerate(codes):
            advance(done, len(codes), language)
            results[language] = measure(loaded, chosen, dataset.examples(language, split), tokenizer, language)
        advance(len(codes), len(codes), "")
    _print_evaluations(model, dataset, split, results, as_json)


def tune_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder for the tuned model.")],
    train_languages: Annotated[
        str, typer.Option("--train-languages", help="Languages to learn from (for translation pairs: en-de).")
    ] = "en",
    mask: MaskFile = None,
    piece: Pieces = "text",
    window: Window = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1)] = 3,
    learning_rate: Annotated[float, typer.Option("--learning-rate", min=0.0)] = 2e-5,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", min=16)] = 1024,
    train_embeddings: Annotated[bool, typer.Option("--train-embeddings", help="Tune the embeddings too.")] = False,
    bfloat16: Annotated[bool, typer.Option("--bfloat16", help="Compute in bfloat16.")] = False,
    patience: Annotated[int, typer.Option("--patience", help="Stop after so many epochs without gain.")] = 0,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Tune a model on a task and save it as an ordinary checkpoint; the same command goes on where it stopped."""
    dataset = open_dataset(data, task)
    codes = language_codes(train_languages, dataset, "--train-languages")
    train = [example for code in codes for example in dataset.examples(code, "train")]
    dev = [example for code in codes for example in dataset.examples(code, "dev")]
    loaded, chosen = _to_tune(model, task, labels_of(train), _piece(piece), window, trust_remote_code)
    tokenizer = _tokenizer(model, trust_remote_code)
    check_tokenizer(chosen, tokenizer)
    settings = TuneSettings(
        epochs=epochs,
        learning_rate=learning_rate,
        batch_tokens=batch_tokens,
        freeze_embeddings=not train_embeddings,
        bfloat16=bfloat16,
        patience=patience,
        seed=seed,
    )
    heads = find_heads(loaded)
    gates = HeadMask.full(heads) if mask is None else HeadMask.load(mask).moved_to(heads)
    state = out.with_name(f".{out.name}.tuning")
    with gated(loaded, gates, heads=heads), show_progress("tuning") as advance:
        result = tune(loaded, chosen, train, dev, tokenizer, settings, state, advance)
    _save(loaded, tokenizer, out)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **dataclasses.asdict(result)}))
    else:
        typer.echo(f"{out}: {result.metric} {result.best_value:.2f} on dev after epoch {result.best_epoch}")


def _piece(name: str) -> Piece:
    if name not in ("text", "first"):
        raise HeadwiseError(f"--piece is 'text' or 'first', not {name!r}")
    return "text" if name == "text" else "first"


def _tokenizer(model: str, trust_remote_code: bool) -> Any:
    tokenizer = load_tokenizer(model, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{model}: comes without a tokenizer")
    return tokenizer


def _to_tune(
    model: str, task: str, labels: tuple[str, ...], piece: Piece, window: int | None, trust_remote_code: bool
) -> tuple[Any, AnyTask]:
    """The model to tune and its task: an encoder gets a new head, a model that writes is taken as it is."""
    if task in TEXT_TASKS:
        loaded = load_model(model, trust_remote_code, dtype=torch.float32)
        return loaded, task_of(loaded, task, window=window)
    chosen = find_task(task, labels, piece)
    return _with_head(model, chosen, trust_remote_code), chosen


def _with_head(model: str, task: Task, trust_remote_code: bool) -> Any:
    """An encoder with a new head for the task."""
    if is_default(model):
        return add_head(default_folder_of(model), task.kind, task.labels, mean_pooling=True)
    if (adapter := find_adapter(model)) is not None:
        raise HeadwiseError(f"{model}: an adapter is tuned already: tune its base {adapter.base} instead")
    return add_head(model, task.kind, task.labels, trust_remote_code=trust_remote_code)


def _save(model: Any, tokenizer: Any, out: Path) -> None:
    """Write an ordinary checkpoint, or a pruned one if heads have been cut out of the model."""
    if getattr(model.config, PRUNED_ATTRIBUTE, None):
        save_pruned(model, out, tokenizer, overwrite=True)
        return
    with new_folder(out, overwrite=True) as draft:
        model.save_pretrained(draft)
        tokenizer.save_pretrained(draft)


def _print_evaluations(
    model: str, dataset: Dataset, split: str, measured: dict[str, Measurement], as_json: bool
) -> None:
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
            "mean": means[metrics[0]],
        }
        rows = {language: _row(each) for language, each in measured.items()}
        typer.echo(json.dumps({**summary, "means": means, "note": dataset.note, "languages": rows}))
        return
    columns = [column for metric in metrics for column in (metric, "95% interval")]
    table = Table("language", *columns, "examples", "cut", title=f"{model} on {dataset.name}, {split}")
    for language, each in measured.items():
        cells = [cell for r in each.results for cell in (f"{r.value:.2f}", f"{r.low:.2f} to {r.high:.2f}")]
        first = each.results[0]
        table.add_row(language, *cells, str(first.examples), str(first.cut or ""))
    table.add_section()
    table.add_row("mean", *(cell for mean in means.values() for cell in (f"{mean:.2f}", "")), "", "")
    Console().print(table)
    signatures = {f"{name}: {text}" for each in measured.values() for name, text in each.signatures.items()}
    for line in (*sorted(signatures), dataset.note):
        if line:
            typer.echo(line)


def _row(measurement: Measurement) -> dict[str, Any]:
    """One language in JSON: the main metric's figures, and all metrics by name."""
    figures = {r.metric: {"value": r.value, "low": r.low, "high": r.high} for r in measurement.results}
    first = measurement.results[0]
    row = {**figures[first.metric], "examples": first.examples, "cut": first.cut, "metrics": figures}
    return {**row, "signatures": measurement.signatures} if measurement.signatures else row
