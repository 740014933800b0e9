"""Soft masks on test data: the gain over the model without a mask, language by language and seed by seed.

For each language of a task, gates are learned on dev with the weights frozen, and judged on test by the paired
bootstrap; at most 512 dev examples are used, as for refining. `soft + hard` is the same mask with small gates set to 0,
so that their heads can be removed: the threshold is chosen on the dev examples that gates were not trained on, the
largest of equally good ones. Hard masks of the same tasks and test examples are in docs/results/pos.md and gains.md.
Results are stored in `--out`, so the same command resumes after an interruption. The data folder (HEADWISE_DATA) is
needed, except with `--quick`.

    python -m benchmarks.soft_masks [--quick] [--tasks pos,intents,nli] [--seeds 0,1] [--out runs/soft-masks]
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import cast

from headwise import HeadMask, HeadwiseError
from headwise.data.folders import default_folder
from headwise.engine.evaluation import MaskJudge
from headwise.files import write_json
from headwise.methods.soft import Soft, soft_mask, split_examples
from headwise.scoring import ScoringPlan, Setting, load_setting, run_scoring
from headwise.soft_masks import SoftMask
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric

#: Model and languages of each task.
TASKS = {
    "pos": ("e5-small-pos", "zh,tr,ja,hi,ar,ko,de,fr"),
    "intents": ("e5-small-intents", "zh,ja,tr,sw,hi,de"),
    "nli": ("e5-small-nli", "zh,tr,sw"),
}
#: Maximum number of dev examples, as for refining masks, and of test examples, as in docs/results/gains.md.
DEV_EXAMPLES, TEST_EXAMPLES = 512, {"intents": 1000}
#: Gates with a smaller absolute value may become 0.
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


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
        threshold: Gates below it are 0 in `soft + hard`.
        removed: Number of these gates.
        hybrid_gain: The difference that `soft + hard` makes.
        hybrid_low: Lower end of its 95% interval.
        hybrid_high: Upper end.
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
    threshold: float
    removed: int
    hybrid_gain: float
    hybrid_low: float
    hybrid_high: float


def with_zeros(setting: Setting, language: str, gates: SoftMask, seed: int, limit: int) -> tuple[float, SoftMask]:
    """Set small gates to 0; the threshold is chosen on the dev examples that gates were not trained on."""
    dev = setting.examples([language], "dev", limit).examples[language]
    held_out = split_examples(len(dev), Soft().held_out, seed)[1]
    judging = MaskJudge(
        setting.model, setting.heads, setting.task, [dev[each] for each in held_out], setting.tokenizer, language
    )
    masks = [gates.sparse(threshold) for threshold in THRESHOLDS]
    judge = Judge(cast(Metric, judging.metric), 1)
    values = [judge.value(each) for each in judging.measure(masks).statistics]
    best = max(range(len(masks)), key=lambda place: (values[place], place))
    return THRESHOLDS[best], masks[best]


def judge_language(setting: Setting, language: str, seed: int, out: Path, epochs: int, limit: int) -> Row:
    """Learn gates on dev and judge them on test."""
    learning = {"epochs": epochs, "patience": 2}
    plan = ScoringPlan(
        setting.name, setting.task.name, setting.dataset.name, language, method="soft", game="log-likelihood",
        seed=seed, limit=limit, options=learning,
    )  # fmt: skip
    found = run_scoring(plan, out, setting=setting).languages[language]
    gates, minutes = soft_mask(found.scores), found.seconds / 60
    most = limit if limit < DEV_EXAMPLES else TEST_EXAMPLES.get(setting.task.name)
    examples = setting.examples([language], "test", most).examples[language]
    judging = MaskJudge(setting.model, setting.heads, setting.task, examples, setting.tokenizer, language)
    threshold, hybrid = with_zeros(setting, language, gates, seed, limit)
    base, soft, both = judging.measure([HeadMask.full(setting.heads), gates, hybrid]).statistics
    judge = Judge(cast(Metric, judging.metric), 10_000)
    tests = judge.compare(base, soft), judge.compare(base, both)
    return Row(
        setting.task.name, language, seed, judge.value(base), tests[0].difference, tests[0].low, tests[0].high,
        (min(gates.gates), max(gates.gates)), minutes, threshold, len(hybrid.off),
        tests[1].difference, tests[1].low, tests[1].high,
    )  # fmt: skip


def summary(rows: Sequence[Row]) -> dict[str, object]:
    """Mean gains by task, and the languages that are significantly worse."""
    tasks = sorted({row.task for row in rows})
    gains = {f"{task}_gain": round(mean(row.gain for row in rows if row.task == task), 2) for task in tasks}
    gains |= {f"{task}_hybrid": round(mean(row.hybrid_gain for row in rows if row.task == task), 2) for task in tasks}
    return {**gains, "worse": [f"{row.task} {row.language} {row.seed}" for row in rows if row.high < 0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Turkish of the phrasebook, few examples: under 2 minutes")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--epochs", type=int, default=6, help="maximum number of epochs")
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
                    limit = 40 if options.quick else DEV_EXAMPLES
                    run = file.with_suffix("")
                    row = judge_language(setting, language, seed, run, options.epochs, limit)
                    write_json(file, asdict(row))
                row = Row(**json.loads(file.read_text(encoding="utf-8")))
                rows.append(row)
                print(
                    f"{task} {language}, seed {seed}: {row.base:.2f} {row.gain:+.2f} "
                    f"({row.low:+.2f} to {row.high:+.2f}), gates {row.gates[0]:.2f} to {row.gates[1]:.2f}, "
                    f"{row.minutes:.1f} min; with {row.removed} zeros {row.hybrid_gain:+.2f} "
                    f"({row.hybrid_low:+.2f} to {row.hybrid_high:+.2f})",
                    flush=True,
                )
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
