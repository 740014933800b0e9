"""`headwise eval` and `headwise tune`."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from headwise.cli.options import AsJson, ModelName, TrustRemoteCode
from headwise.cli.progress import show_progress
from headwise.data.dataset import Dataset
from headwise.data.opening import open_dataset
from headwise.errors import HeadwiseError
from headwise.files import new_folder
from headwise.gates import gated
from headwise.heads import find_heads
from headwise.masks import HeadMask
from headwise.models import add_head, is_default, load_model, load_tokenizer
from headwise.models.defaults import default_folder_of
from headwise.tasks import Evaluation, Task, evaluate, find_task, labels_of
from headwise.tasks.task import Piece
from headwise.tasks.tuning import TuneSettings, tune

TaskName = Annotated[str, typer.Option("--task", help="pos, ner, nli, intents, slots.")]
Data = Annotated[str, typer.Option("--data", help="A folder, 'phrasebook', 'commands', 'hub:NAME' or a YAML file.")]
Languages = Annotated[str, typer.Option("--languages", help="Comma-separated codes, or 'all'.")]
MaskFile = Annotated[Path | None, typer.Option("--mask", help="Run under this mask.")]
Pieces = Annotated[str, typer.Option("--piece", help="Which piece of a word carries its label: text or first.")]


def evaluate_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    languages: Languages = "all",
    split: Annotated[str, typer.Option("--split", help="Which part of the data.")] = "test",
    mask: MaskFile = None,
    piece: Pieces = "text",
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Measure a model on a task, language by language."""
    dataset = open_dataset(data, task)
    loaded, tokenizer = load_model(model, trust_remote_code), _tokenizer(model, trust_remote_code)
    chosen = _task_of(loaded, task, piece)
    heads = find_heads(loaded)
    gates = HeadMask.full(heads) if mask is None else HeadMask.load(mask)
    codes = _codes(languages, dataset)
    results: dict[str, Evaluation] = {}
    with gated(loaded, gates, heads=heads), show_progress("evaluating") as advance:
        for done, language in enumerate(codes):
            advance(done, len(codes), language)
            results[language] = evaluate(loaded, chosen, dataset.examples(language, split), tokenizer)
        advance(len(codes), len(codes), "")
    _print_evaluations(model, dataset, split, results, as_json)


def tune_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    out: Annotated[Path, typer.Option("--out", help="Folder for the tuned model.")],
    train_languages: Annotated[str, typer.Option("--train-languages", help="Languages to learn from.")] = "en",
    mask: MaskFile = None,
    piece: Pieces = "text",
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
    codes = _codes(train_languages, dataset)
    train = [example for code in codes for example in dataset.examples(code, "train")]
    dev = [example for code in codes for example in dataset.examples(code, "dev")]
    chosen = find_task(task, labels_of(train), _piece(piece))
    loaded = _with_head(model, chosen, trust_remote_code)
    tokenizer = _tokenizer(model, trust_remote_code)
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
    with new_folder(out, overwrite=True) as draft:
        loaded.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **dataclasses.asdict(result)}))
    else:
        typer.echo(f"{out}: {chosen.metric.name} {result.best_value:.2f} on dev after epoch {result.best_epoch}")


def _codes(languages: str, dataset: Dataset) -> list[str]:
    """The languages of a comma-separated list; `all` is every plain code."""
    if languages == "all":
        return [code for code in dataset.languages if "_" not in code]
    return [code.strip() for code in languages.split(",") if code.strip()]


def _piece(name: str) -> Piece:
    if name not in ("text", "first"):
        raise HeadwiseError(f"--piece is 'text' or 'first', not {name!r}")
    return "text" if name == "text" else "first"


def _task_of(model: Any, task: str, piece: str) -> Task:
    """The task with the labels of the model's classifier."""
    names = getattr(model.config, "id2label", None) or {}
    labels = tuple(names[index] for index in sorted(names))
    found = find_task(task, labels, _piece(piece))
    if set(found.labels) != set(labels):
        raise HeadwiseError(
            f"the model's classifier has {len(labels)} labels ({', '.join(labels[:4])} …), not those of {task}: "
            f"tune it first (headwise tune … --task {task})"
        )
    return dataclasses.replace(found, labels=labels)


def _tokenizer(model: str, trust_remote_code: bool) -> Any:
    tokenizer = load_tokenizer(model, trust_remote_code)
    if tokenizer is None:
        raise HeadwiseError(f"{model}: comes without a tokenizer")
    return tokenizer


def _with_head(model: str, task: Task, trust_remote_code: bool) -> Any:
    """An encoder with a new head for the task."""
    if is_default(model):
        return add_head(default_folder_of(model), task.kind, task.labels, mean_pooling=True)
    return add_head(model, task.kind, task.labels, trust_remote_code=trust_remote_code)


def _print_evaluations(model: str, dataset: Dataset, split: str, results: dict[str, Evaluation], as_json: bool) -> None:
    rows = {
        language: {"value": r.value, "low": r.low, "high": r.high, "examples": r.examples, "cut": r.cut}
        for language, r in results.items()
    }
    metric = next(iter(results.values())).metric
    mean = sum(r.value for r in results.values()) / len(results)
    if as_json:
        summary = {"model": model, "data": dataset.name, "split": split, "metric": metric, "mean": mean}
        typer.echo(json.dumps({**summary, "note": dataset.note, "languages": rows}))
        return
    table = Table("language", metric, "95% interval", "examples", "cut", title=f"{model} on {dataset.name}, {split}")
    for language, r in results.items():
        table.add_row(language, f"{r.value:.2f}", f"{r.low:.2f} to {r.high:.2f}", str(r.examples), str(r.cut or ""))
    table.add_section()
    table.add_row("mean", f"{mean:.2f}", "", "", "")
    Console().print(table)
    if dataset.note:
        typer.echo(dataset.note)
