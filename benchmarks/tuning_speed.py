"""Training tokens per second: headwise against transformers' Trainer, on the same sentences and machine.

multilingual-e5-small is tuned for parts of speech on the first sentences of UD_English-EWT, or of the phrasebook if
there is no data folder. Each side runs in a separate process, alternating, so that peak memory is measured separately.
The Trainer pads each batch to its longest sentence and tunes all weights. headwise packs sentences of similar length
and by default does not tune the embeddings. `same work` is headwise with tuned embeddings.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from transformers import AutoTokenizer, DataCollatorForTokenClassification, Trainer, TrainingArguments

from headwise.data.examples import Example
from headwise.data.folders import default_folder, open_folder
from headwise.data.phrasebook import open_phrasebook
from headwise.models import add_head
from headwise.models.e5 import e5_small_folder
from headwise.tasks import find_task
from headwise.tuning import TuningSettings, train_model

SIDES = ("trainer", "headwise", "same work")


def examples(count: int) -> list[Example]:
    folder = default_folder()
    found = (
        open_folder(folder, "pos").examples("en_ewt", "train")
        if folder
        else open_phrasebook("pos").examples("en", "all")
    )
    return list(found[:count])


def run_trainer(model: Any, tokenizer: Any, sentences: list[Example]) -> float:
    """Time of one epoch of the Trainer, in seconds."""
    task = find_task("pos")
    rows = []
    for item in task.encode(sentences, tokenizer)[0]:
        labels = [-100] * len(item.ids)
        for position, gold in zip(item.positions, item.gold, strict=True):
            labels[position] = gold
        rows.append({"input_ids": list(item.ids), "attention_mask": [1] * len(item.ids), "labels": labels})
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=1, per_device_train_batch_size=32, learning_rate=2e-5, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        trainer = Trainer(model, arguments, DataCollatorForTokenClassification(tokenizer), rows)
        start = time.perf_counter()
        trainer.train()
        return time.perf_counter() - start


def run_headwise(model: Any, tokenizer: Any, sentences: list[Example], freeze: bool) -> float:
    """Time of one epoch of headwise in seconds, including a dev evaluation on one sentence."""
    settings = TuningSettings(epochs=1, batch_tokens=1024, freeze_embeddings=freeze)
    start = time.perf_counter()
    train_model(model, find_task("pos"), sentences, sentences[:1], tokenizer, settings)
    return time.perf_counter() - start


def measure(side: str, count: int) -> dict[str, float]:
    """Measure one side in this process: tokens per second without padding, and peak memory in megabytes."""
    sentences = examples(count)
    tokenizer = AutoTokenizer.from_pretrained(e5_small_folder())
    task = find_task("pos")
    tokens = sum(len(item.ids) for item in task.encode(sentences, tokenizer)[0])
    model = add_head(e5_small_folder(), task.kind, task.labels)
    if side == "trainer":
        seconds = run_trainer(model, tokenizer, sentences)
    else:
        seconds = run_headwise(model, tokenizer, sentences, freeze=side == "headwise")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tokens_per_second": tokens / seconds, "peak_megabytes": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sentences: under 2 minutes")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--sentences", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.sentences)))
        return
    count, rounds = (64, 1) if options.quick else (256, 3)
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            command = [sys.executable, "-m", "benchmarks.tuning_speed", "--side", side, "--sentences", str(count)]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found[side].append(json.loads(shown.splitlines()[-1]))
            print(f"{side:>10}: {found[side][-1]['tokens_per_second']:.0f} tokens/s", flush=True)
    rate = {side: statistics.median(run["tokens_per_second"] for run in runs) for side, runs in found.items()}
    peak = {side: max(run["peak_megabytes"] for run in runs) for side, runs in found.items()}
    print(f"e5-small for parts of speech, {count} sentences, {rounds} alternating rounds, separate processes")
    for side in SIDES:
        print(f"{side:>10} {rate[side]:8.0f} tokens/s {peak[side]:8.0f} MB peak {rate[side] / rate['trainer']:6.2f}×")
    ratios = {
        "ratio_to_trainer": rate["headwise"] / rate["trainer"],
        "same_work_ratio": rate["same work"] / rate["trainer"],
    }
    memory = {"memory_ratio": peak["headwise"] / peak["trainer"]}
    print(json.dumps({name: round(value, 3) for name, value in (ratios | memory).items()}))


if __name__ == "__main__":
    main()
