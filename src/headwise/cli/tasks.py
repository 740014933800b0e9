"""`headwise eval` and `headwise tune`."""

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from headwise.cli.options import AsJson, Device, Dtype, ModelName, TrustRemoteCode, show_device
from headwise.cli.progress import show_progress, show_resumable
from headwise.cli.tables import print_table
from headwise.cli.targets import check_target
from headwise.data.choosing import language_codes
from headwise.data.dataset import Dataset
from headwise.data.examples import Example
from headwise.data.opening import open_dataset
from headwise.errors import HeadwiseError
from headwise.files import new_folder
from headwise.gates import gated
from headwise.heads import PRUNED_ATTRIBUTE, find_heads
from headwise.masks import HeadMask
from headwise.models import add_head, choose_device, choose_dtype, is_default, load_model, load_tokenizer
from headwise.models.adapted import find_adapter
from headwise.models.defaults import default_folder_of
from headwise.pruning import save_pruned
from headwise.scores import number
from headwise.tasks import Task, find_task, labels_of
from headwise.tasks.dispatch import TEXT_TASKS, Measurement, check_tokenizer, fit_to, measure, task_of
from headwise.tasks.protocol import AnyTask
from headwise.tasks.task import TASKS, Piece
from headwise.tasks.tuning import TuneSettings, tune

TaskName = Annotated[str, typer.Option("--task", help=f"One of {', '.join(TASKS)}.")]
Data = Annotated[str, typer.Option("--data", help="A folder, 'phrasebook', 'commands', 'hub:NAME' or a YAML file.")]
Languages = Annotated[
    str, typer.Option("--languages", help="Comma-separated codes (for translation pairs: en-de), or 'all'.")
]
MaskFile = Annotated[Path | None, typer.Option("--mask", help="Run under this mask.")]
OtherWeights = Annotated[
    bool, typer.Option("--other-weights", help="The mask was made for other weights of the same shape.")
]
Pieces = Annotated[str, typer.Option("--piece", help="Which piece of a word carries its label: text or first.")]
Window = Annotated[
    int | None,
    typer.Option("--window", min=1, help="Tokens that a causal model reads at a time (lm); 512 unless told."),
]


def _folder(value: str) -> Path:
    """The folder that an option names; an empty name would be the current folder."""
    if not value.strip():
        raise typer.BadParameter("the name of the folder is empty")
    return Path(value)


def evaluate_command(
    model: ModelName,
    task: TaskName,
    data: Data,
    languages: Languages = "all",
    split: Annotated[str, typer.Option("--split", help="Which part of the data.")] = "test",
    mask: MaskFile = None,
    other_weights: OtherWeights = False,
    piece: Pieces = "text",
    beams: Annotated[
        int | None, typer.Option("--beams", min=1, help="Beams of the search (translation); 1 unless told.")
    ] = None,
    window: Window = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Measure a model on a task, language by language."""
    show_device(device, dtype)
    with _stoppable():
        dataset = open_dataset(data, task)
        _check_used(task, beams, window)
        side, wanted = _piece(piece), _mask(mask)
        examples = _examples(dataset, language_codes(languages, dataset), split)
        loaded = load_model(model, trust_remote_code, device=device, dtype=dtype)
        tokenizer = _tokenizer(model, trust_remote_code)
        chosen = task_of(loaded, task, side, beams or 1, window)
        check_tokenizer(chosen, tokenizer)
        with _under(loaded, wanted, other_weights):
            results = _measure_each(loaded, chosen, examples, tokenizer)
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
        str, typer.Option("--train-languages", help="Languages to learn from (for translation pairs: en-de).")
    ] = "en",
    mask: MaskFile = None,
    other_weights: OtherWeights = False,
    piece: Pieces = "text",
    window: Window = None,
    epochs: Annotated[int, typer.Option("--epochs", min=1)] = 3,
    learning_rate: Annotated[float, typer.Option("--learning-rate", min=0.0)] = 2e-5,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", min=16)] = 1024,
    train_embeddings: Annotated[bool, typer.Option("--train-embeddings", help="Tune the embeddings too.")] = False,
    bfloat16: Annotated[bool, typer.Option("--bfloat16", help="Compute in bfloat16.")] = False,
    patience: Annotated[
        int, typer.Option("--patience", min=0, help="Stop after so many epochs without gain; 0 never stops.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1)] = 0,
    device: Device = "auto",
    dtype: Dtype = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace all that is in the folder.")] = False,
    as_json: AsJson = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Tune a model on a task and save it as an ordinary checkpoint; the same command goes on where it stopped."""
    target = check_target(out, {"the model": Path(model), "the data": Path(data), "the mask": mask}, overwrite)
    _check_used(task, None, window)
    show_device(device, dtype)
    settings = TuneSettings(
        epochs=epochs,
        learning_rate=learning_rate,
        batch_tokens=batch_tokens,
        freeze_embeddings=not train_embeddings,
        bfloat16=bfloat16,
        patience=patience,
        seed=seed,
    )
    with show_resumable("tuning") as advance:
        side, wanted = _piece(piece), _mask(mask)
        train, dev = _to_learn_from(open_dataset(data, task), train_languages)
        torch.manual_seed(seed)  # a new head is drawn: the same when the run goes on
        loaded, chosen = _to_tune(model, task, labels_of(train), side, window, trust_remote_code, dtype)
        loaded.to(choose_device(device))
        tokenizer = _tokenizer(model, trust_remote_code)
        check_tokenizer(chosen, tokenizer)
        state = target.with_name(f".{target.name}.tuning")
        with _under(loaded, wanted, other_weights):
            result = tune(loaded, chosen, train, dev, tokenizer, settings, state, advance, wanted)
        _save(loaded, tokenizer, target, overwrite)
        shutil.rmtree(state, ignore_errors=True)
    if as_json:
        typer.echo(json.dumps({"out": str(out), **dataclasses.asdict(result)}))
    else:
        typer.echo(f"{out}: {result.metric} {result.best_value:.2f} on dev after epoch {result.best_epoch}")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C ends the body with a word, and leaves nothing to go on from."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("headwise: stopped", err=True)
        raise typer.Exit(130) from None


def _check_used(task: str, beams: int | None, window: int | None) -> None:
    """See that the task heeds the options that were given."""
    for option, value, only in (("--beams", beams, "translation"), ("--window", window, "lm")):
        if value is not None and task != only:
            raise HeadwiseError(f"{option} is for the task {only}, and {task} does not heed it: leave it out")


def _examples(dataset: Dataset, codes: Sequence[str], split: str) -> dict[str, tuple[Example, ...]]:
    """The examples of each language."""
    unknown_first = sorted(codes, key=lambda code: code in dataset.languages)  # they fail before others are read
    found = {code: dataset.examples(code, split) for code in unknown_first}
    return {code: found[code] for code in codes}


def _to_learn_from(dataset: Dataset, languages: str) -> tuple[list[Example], list[Example]]:
    """Examples for training and for dev, of all languages."""
    codes = language_codes(languages, dataset, "--train-languages")
    train, dev = (_examples(dataset, codes, split) for split in ("train", "dev"))
    return list(chain(*train.values())), list(chain(*dev.values()))


def _mask(file: Path | None) -> HeadMask | None:
    return None if file is None else HeadMask.load(file)


@contextmanager
def _under(model: Any, mask: HeadMask | None, other_weights: bool) -> Iterator[None]:
    """The model under a mask that was made for it, or on purpose under one of other weights."""
    heads = find_heads(model)
    if mask is not None and other_weights:
        mask = mask.moved_to(heads)
    with gated(model, HeadMask.full(heads) if mask is None else mask, heads=heads):
        yield


def _measure_each(
    model: Any, task: AnyTask, examples: Mapping[str, Sequence[Example]], tokenizer: Any
) -> dict[str, Measurement]:
    results: dict[str, Measurement] = {}
    with show_progress("evaluating") as advance:
        for done, (language, each) in enumerate(examples.items()):
            advance(done, len(examples), language)
            results[language] = measure(model, task, each, tokenizer, language)
        advance(len(examples), len(examples), "")
    return results


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
    model: str,
    task: str,
    labels: tuple[str, ...],
    piece: Piece,
    window: int | None,
    trust_remote_code: bool,
    dtype: str,
) -> tuple[Any, AnyTask]:
    """The model to tune and its task: an encoder gets a new head, a model for text is tuned as it is."""
    if task in TEXT_TASKS:
        loaded = load_model(model, trust_remote_code, dtype=dtype)
        return loaded, task_of(loaded, task, piece, window=window)
    chosen = find_task(task, labels, piece)
    loaded = _with_head(model, chosen, trust_remote_code, dtype)
    return loaded, fit_to(chosen, loaded)


def _with_head(model: str, task: Task, trust_remote_code: bool, dtype: str) -> Any:
    """An encoder with a new head for the task."""
    if is_default(model):
        return add_head(default_folder_of(model), task.kind, task.labels, dtype=choose_dtype(dtype))
    if (adapter := find_adapter(model)) is not None:
        raise HeadwiseError(f"{model}: an adapter is tuned already: tune its base {adapter.base} instead")
    weights = choose_dtype(dtype)
    return add_head(model, task.kind, task.labels, trust_remote_code=trust_remote_code, dtype=weights)


def _save(model: Any, tokenizer: Any, out: Path, overwrite: bool) -> None:
    """Write an ordinary checkpoint, or a pruned one if heads have been cut out of the model."""
    if getattr(model.config, PRUNED_ATTRIBUTE, None):
        save_pruned(model, out, tokenizer, overwrite=overwrite)
        return
    with new_folder(out, overwrite) as draft:
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


def _row(measurement: Measurement) -> dict[str, Any]:
    """One language in JSON: the main metric's figures, and all metrics by name."""
    figures = {
        r.metric: {"value": number(r.value), "low": number(r.low), "high": number(r.high)} for r in measurement.results
    }
    first = measurement.results[0]
    row = {**figures[first.metric], "examples": first.examples, "cut": first.cut, "metrics": figures}
    return {**row, "signatures": measurement.signatures} if measurement.signatures else row
