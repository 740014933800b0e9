"""Soft masks on test data: the gain over the model without a mask, language by language and seed by seed.

For each language of a task, gates are learned on dev with the weights frozen, and judged on test by the paired
bootstrap. Refined hard masks of the same tasks are in docs/results/gains.md. Results are kept in `--out`, so the same
command continues after an interruption. The data folder (HEADWISE_DATA) is needed, except with `--quick`.

    python -m benchmarks.soft_masks [--quick] [--tasks pos,intents,nli] [--seeds 0,1] [--out runs/soft-masks]
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import cast

import headwise as hw
from headwise import HeadMask, HeadwiseError
from headwise.data.folders import default_folder
from headwise.engine.evaluation import MaskJudge
from headwise.files import write_json
from headwise.scoring import Setting, load_setting
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric

#: Model and languages of each task.
TASKS = {
    "pos": ("e5-small-pos", "zh,tr,ja,hi,ar,ko,de,fr"),
    "intents": ("e5-small-intents", "zh-CN,ja-JP,tr-TR,sw-KE,hi-IN,de-DE"),
    "nli": ("e5-small-nli", "zh,tr,sw"),
}


@dataclass(frozen=True)
class Row:
    """The result of one language and seed.

    Attributes:
        task: The task.
        language: The language.
        seed: Seed of the gates.
        base: The metric without a mask, in percent.
        gain: The difference that the soft mask makes.
        low: Lower end of its 95% interval.
        high: Upper end.
        gates: The smallest and the largest gate.
        minutes: Time of learning.
    """

    task: str
    language: str
    seed: int
    base: float
    gain: float
    low: float
    high: float
    gates: tuple[float, float]
    minutes: float


def judge_language(setting: Setting, language: str, seed: int, out: Path, epochs: int, limit: int | None) -> Row:
    """Learn gates on dev and judge them on test."""
    start = time.monotonic()
    gates = hw.learn_gates(
        setting.model, setting.tokenizer, setting.dataset, task=setting.task.name, languages=[language], seed=seed,
        out=out, epochs=epochs, limit=limit,
    )[language]  # fmt: skip
    minutes = (time.monotonic() - start) / 60
    examples = setting.examples([language], "test", 1000 if limit is None else limit).examples[language]
    judging = MaskJudge(setting.model, setting.heads, setting.task, examples, setting.tokenizer, language)
    base, soft = judging.measure([HeadMask.full(setting.heads), gates]).statistics
    judge = Judge(cast(Metric, judging.metric), 10_000)
    test = judge.compare(base, soft)
    return Row(
        setting.task.name, language, seed, judge.value(base), test.difference, test.low, test.high,
        (min(gates.gates), max(gates.gates)), minutes,
    )  # fmt: skip


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Mean gains by task, and the languages that are significantly worse."""
    tasks = sorted({row.task for row in rows})
    gains = {f"{task}_gain": round(mean(row.gain for row in rows if row.task == task), 2) for task in tasks}
    return {**gains, "worse": [f"{row.task} {row.language} {row.seed}" for row in rows if row.high < 0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Turkish of the phrasebook, few examples: under 2 minutes")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--epochs", type=int, default=12, help="maximum number of epochs")
    parser.add_argument("--out", type=Path, default=Path("runs/soft-masks"))
    options = parser.parse_args()
    if options.quick:
        options.tasks, options.seeds, options.epochs, options.out = "pos", "0", 2, options.out / "quick"
    data = "phrasebook" if options.quick else default_folder()
    if data is None:
        raise HeadwiseError("set HEADWISE_DATA to the data folder, or use --quick")
    rows = []
    for seed in map(int, options.seeds.split(",")):
        for task in options.tasks.split(","):
            model, languages = TASKS[task]
            setting = load_setting(model, task, str(data))
            for language in ["tr"] if options.quick else languages.split(","):
                file = options.out / f"{task}-{language}-{seed}.json"
                if not file.exists():
                    limit = 40 if options.quick else None
                    run = file.with_suffix("")
                    row = judge_language(setting, language, seed, run, options.epochs, limit)
                    write_json(file, asdict(row))
                row = Row(**json.loads(file.read_text(encoding="utf-8")))
                rows.append(row)
                print(
                    f"{task} {language}, seed {seed}: {row.base:.2f} {row.gain:+.2f} "
                    f"({row.low:+.2f} to {row.high:+.2f}), {row.gates[0]:.2f} to {row.gates[1]:.2f}, "
                    f"{row.minutes:.1f} min",
                    flush=True,
                )
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
