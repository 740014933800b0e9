"""Masks against tuning: LoRA, biases and soft gates on the same dev examples, judged on the same test examples.

For each task and language, every alternative is made from at most 512 dev examples, and judged on test by the paired
bootstrap: LoRA of ranks 1, 2, 4 and 8, biases only, soft gates, likely and refined masks, and LoRA of rank 4 after the
likely harmful heads were removed. Tuning and gates choose their best epoch on a fifth of the dev examples and train on
the others. A row has the gain with its 95% interval, what is trained, bytes to store for the language, cost, and the
change in the other languages if they use the same model. A unit is an example through the whole model once; gradients
count two. Minutes are those of this machine.

Results are stored in `--out`, so the same command resumes after an interruption. The data folder (HEADWISE_DATA) is
needed, except with `--quick`.

    python -m benchmarks.alternatives [--quick] [--tasks pos,intents] [--languages zh,tr] [--out runs/alternatives]
"""

import argparse
import copy
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from headwise import HeadMask, HeadwiseError, find_heads
from headwise.data.folders import default_folder
from headwise.engine import EngineSettings
from headwise.engine.evaluation import MaskJudge
from headwise.files import write_json
from headwise.methods.soft import Soft, soft_mask, split_examples
from headwise.pruning import shrink
from headwise.scoring import RefinementPlan, ScoringPlan, Setting, load_setting, run_scoring
from headwise.scoring.refine import refine_run
from headwise.soft_masks import AnyMask
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric
from headwise.tuning import TuningSettings, encode_training_set, train_encoded
from headwise.tuning.biases import only_biases
from headwise.tuning.lora import lora_adapters

#: Model and default languages of each task.
TASKS = {"pos": ("e5-small-pos", "zh,tr,ja,hi,de,ar"), "intents": ("e5-small-intents", "zh,tr,ja,hi,de,sw")}
#: Rank of the adapters of each kind of LoRA.
RANKS = {f"lora-{rank}": rank for rank in (1, 2, 4, 8)}
#: LoRA of this kind after likely harmful heads were removed.
BOTH, BOTH_RANK = "likely-lora-4", 4
KINDS = (*RANKS, "biases", "gates", "likely", "refined", BOTH)
#: Maximum number of dev examples.
DEV_EXAMPLES = 512


@dataclass(frozen=True)
class Row:
    """The result of one alternative in one language.

    Attributes:
        task: The task.
        language: The language.
        kind: The alternative.
        base: The metric on test of the untouched model, in percent.
        gain: The difference that the alternative makes.
        low: Lower end of its 95% interval.
        high: Upper end.
        p_value: Two-sided p-value of the paired bootstrap.
        parameters: Number of trained parameters; for hard masks, of heads that may be off.
        bytes: Bytes that a language needs beside the model.
        units: Cost in units.
        minutes: Time.
        others: The difference in each other language.
    """

    task: str
    language: str
    kind: str
    base: float
    gain: float
    low: float
    high: float
    p_value: float
    parameters: int
    bytes: int
    units: float
    minutes: float
    others: dict[str, float]


@dataclass(frozen=True)
class Made:
    """An alternative: a model under a mask, and what it costs."""

    model: Any
    mask: AnyMask
    parameters: int
    bytes: int
    units: float
    minutes: float


@dataclass
class Bench:
    """One task with its options; the examples of each language are encoded once."""

    setting: Setting
    options: argparse.Namespace
    languages: list[str]
    _judges: dict[str, tuple[MaskJudge, NDArray[np.float64]]] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        """The folder of the task."""
        return Path(self.options.out) / self.setting.task.name

    def test(self, language: str) -> tuple[MaskJudge, NDArray[np.float64]]:
        """What measures the test examples of a language, and their statistics with the untouched model."""
        if language not in self._judges:
            setting = self.setting
            examples = setting.examples([language], "test", self.options.limit_test).examples[language]
            judge = MaskJudge(
                setting.model, setting.heads, setting.task, examples, setting.tokenizer, language,
                settings=EngineSettings(bfloat16=self.options.bfloat16),
            )  # fmt: skip
            self._judges[language] = judge, judge.measure([HeadMask.full(setting.heads)]).statistics[0]
        return self._judges[language]

    def row(self, language: str, kind: str) -> Row:
        """Make an alternative on dev, and judge it on test."""
        made = self.make(language, kind)
        judge = Judge(cast(Metric, self.test(language)[0].metric), 10_000)
        measured = {}
        for code in dict.fromkeys([language, *self.languages, *filter(None, self.options.others.split(","))]):
            judging, base = self.test(code)
            changed = judging.changed(model=made.model, heads=find_heads(made.model))
            measured[code] = base, changed.measure([made.mask]).statistics[0]
        found = judge.compare(*measured[language])
        others = {
            code: judge.value(after) - judge.value(before)
            for code, (before, after) in measured.items()
            if code != language
        }
        return Row(
            self.setting.task.name, language, kind, judge.value(measured[language][0]), found.difference, found.low,
            found.high, found.p_value, made.parameters, made.bytes, made.units, made.minutes, others,
        )  # fmt: skip

    def make(self, language: str, kind: str) -> Made:
        """An alternative, made from the dev examples of a language."""
        if kind in RANKS or kind == "biases":
            return self._tuned(language, kind)
        if kind == BOTH:
            return self._both(language)
        return self._gates(language) if kind == "gates" else self._masked(language, kind)

    def _both(self, language: str) -> Made:
        """A copy of the model without likely harmful heads, tuned in part."""
        masked = self._masked(language, "likely")
        assert isinstance(masked.mask, HeadMask)
        tuned = self._tuned(language, BOTH, shrink(self.setting.model, masked.mask))
        return replace(
            tuned, bytes=tuned.bytes + masked.bytes, units=tuned.units + masked.units,
            minutes=tuned.minutes + masked.minutes,
        )  # fmt: skip

    def _tuned(self, language: str, kind: str, model: Any = None) -> Made:
        """A copy of the model, tuned in part; the classifier is trained too.

        Args:
            language: The language.
            kind: LoRA of a rank, or biases.
            model: The model to tune; by default a copy of the untouched one.
        """
        setting, options = self.setting, self.options
        dev = setting.examples([language], "dev", options.limit).examples[language]
        parts = split_examples(len(dev), Soft().held_out, options.seed)
        train, held_out = ([dev[each] for each in part] for part in parts)
        settings = TuningSettings(
            epochs=options.epochs, learning_rate=options.rate, patience=2, seed=options.seed,
            batch_tokens=options.batch_tokens, biases_only=kind == "biases", bfloat16=options.bfloat16,
            lora_rank=BOTH_RANK if kind == BOTH else RANKS.get(kind, 0),
        )  # fmt: skip
        model = copy.deepcopy(setting.model) if model is None else model
        parameters = count_trained(model, settings)
        data = encode_training_set(setting.task, train, held_out, setting.tokenizer)
        found = train_encoded(model, data, settings, self.out / "states" / f"{language}-{kind}")
        units = float(len(found.history) * (2 * len(train) + len(held_out)))
        full = HeadMask.full(find_heads(model))
        return Made(model, full, parameters, 4 * parameters, units, found.seconds / 60)

    def _plan(self, method: str, **changes: Any) -> ScoringPlan:
        setting, options = self.setting, self.options
        return ScoringPlan(
            setting.name, setting.task.name, setting.dataset.source, method=method, budget=options.budget,
            limit=options.limit, seed=options.seed, bfloat16=options.bfloat16, **changes,
        )  # fmt: skip

    def _gates(self, language: str) -> Made:
        learning = {"epochs": self.options.epochs, "patience": 2}
        plan = self._plan("soft", languages=language, game="log-likelihood", options=learning)
        plan = replace(plan, budget=1e9)  # epochs and patience end the training
        found = run_scoring(plan, self.out / "gates" / language, setting=self.setting).languages[language]
        mask, units = soft_mask(found.scores), found.scores.provenance.units
        return Made(self.setting.model, mask, len(mask.gates), 4 * len(mask.gates), units, found.seconds / 60)

    def _masked(self, language: str, kind: str) -> Made:
        run, plan = self.out / "scores", self._plan("stars", languages=",".join(self.languages))
        found = run_scoring(plan, run, setting=self.setting).languages[language]
        mask, units, began = found.scores.mask("likely"), found.scores.provenance.units, time.monotonic()
        if kind == "refined":
            how = RefinementPlan(self.options.rounds, cross_fit=True)
            refined = refine_run(run, [language], how, setting=self.setting)[language]
            mask, units = refined.mask, units + refined.units
        heads, minutes = len(mask.players), (found.seconds + time.monotonic() - began) / 60
        return Made(self.setting.model, mask, heads, -(-heads // 8), units, minutes)


def count_trained(model: Any, settings: TuningSettings) -> int:
    """The number of parameters that LoRA or biases only train, with the classifier; the model stays as it is."""
    part = (
        only_biases(model, True)
        if settings.biases_only
        else lora_adapters(model, settings.lora_rank, settings.seed, True)
    )
    with part:
        return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def summary(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """For each task and kind: means over languages, numbers of better and worse languages, the worst other change.

    Example:
        >>> row = Row("pos", "zh", "biases", 70.0, 2.0, 1.0, 3.0, 0.01, 9, 36, 50.0, 1.5, {"tr": -1.0, "de": 0.5})
        >>> summary([row])["pos"]["biases"]["others_worst"]
        -1.0
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for task in dict.fromkeys(row.task for row in rows):
        found[task] = {}
        for kind in dict.fromkeys(row.kind for row in rows if row.task == task):
            own = [row for row in rows if (row.task, row.kind) == (task, kind)]
            others = [change for row in own for change in row.others.values()]
            better, worse = (sum(sign * row.gain > 0 and row.p_value < 0.05 for row in own) for sign in (1, -1))
            found[task][kind] = {
                "gain": round(mean(row.gain for row in own), 2),
                "better": better,
                "worse": worse,
                "of": len(own),
                "parameters": round(mean(row.parameters for row in own)),
                "bytes": round(mean(row.bytes for row in own)),
                "units": round(mean(row.units for row in own)),
                "minutes": round(mean(row.minutes for row in own), 2),
            }
            if others:
                found[task][kind] |= {"others_mean": round(mean(others), 2), "others_worst": round(min(others), 2)}
    return found


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Turkish of the phrasebook, few examples: under 2 minutes")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--languages", default="", help="codes separated by commas (default: six of each task)")
    parser.add_argument("--others", default="", help="further languages in which every alternative is measured")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--budget", type=float, default=6000, help="maximum number of units of a language's scores")
    parser.add_argument("--epochs", type=int, default=6, help="maximum number of epochs of tuning and gates")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate of LoRA and of biases")
    parser.add_argument("--batch-tokens", type=int, default=512, help="number of tokens in a batch of tuning")
    parser.add_argument("--limit", type=int, default=DEV_EXAMPLES, help="maximum number of dev examples of a language")
    parser.add_argument("--limit-test", type=int, help="maximum number of test examples of a language")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="run folder (default: runs/alternatives, or runs/alternatives-quick)")
    parser.set_defaults(rounds=12)
    options = parser.parse_args()
    options.out = options.out or Path("runs/alternatives-quick" if options.quick else "runs/alternatives")
    if options.quick:
        options.tasks, options.languages, options.kinds = "pos", "tr,de", f"lora-1,biases,gates,likely,refined,{BOTH}"
        options.budget, options.epochs, options.rounds, options.limit, options.limit_test = 500, 3, 3, 20, 20
        options.batch_tokens, options.rate = 64, 0.01
    for name, known in (("tasks", TASKS), ("kinds", KINDS)):
        if unknown := [each for each in getattr(options, name).split(",") if each not in known]:
            parser.error(f"--{name}: {unknown[0]} does not exist, choose from {', '.join(known)}")
    return options


def main() -> None:
    options = parse()
    data = "phrasebook" if options.quick else default_folder()
    if data is None:
        raise HeadwiseError("set HEADWISE_DATA to the data folder, or use --quick")
    rows = []
    for task in options.tasks.split(","):
        model, languages = TASKS[task]
        codes = (options.languages or languages).split(",")
        bench = Bench(load_setting(model, task, str(data)), options, codes)
        for language in codes[:1] if options.quick else codes:
            for kind in options.kinds.split(","):
                file = bench.out / "rows" / f"{language}-{kind}.json"
                if not file.exists():
                    write_json(file, asdict(bench.row(language, kind)))
                row = Row(**json.loads(file.read_text(encoding="utf-8")))
                rows.append(row)
                others = ", ".join(f"{code} {change:+.2f}" for code, change in row.others.items())
                print(
                    f"{task} {language} {kind}: {row.base:.2f} {row.gain:+.2f} ({row.low:+.2f} to {row.high:+.2f}), "
                    f"{row.parameters:,} parameters, {row.bytes:,} bytes, {row.units:,.0f} units, "
                    f"{row.minutes:.1f} min; others: {others}",
                    flush=True,
                )
    print(json.dumps(summary(rows)))


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
