"""Repair of pruned models: accuracy on test data before and after, against tuning.

Heads of e5-small-pos are removed, the lowest ones by `stars` on dev data or random ones. The rows of the table:

- `zero`: the heads leave nothing, `mean`: their mean outputs go into the bias.
- `repaired`: output projections are refit by least squares on dev data without labels (`headwise prune --repair`).
- `tuned`: all weights but the embeddings are trained for one epoch on the labels of four fifths of the same dev data;
  the learning rate is chosen on the other fifth. `whole, tuned` is the same for the model with all heads.

Results are stored in `--out`, so the same command resumes after an interruption.

    python -m benchmarks.repair [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--seeds 0,1] [--budget 2400]
        [--out runs/repair]
"""

import argparse
import copy
import json
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np

from benchmarks.options import default_out, mask_parser
from benchmarks.scorers import Bench
from benchmarks.shapley import numbers
from headwise import HeadMask, HeadScores, HeadwiseError, shrink
from headwise.data.examples import Example
from headwise.engine.evaluation import MaskJudge
from headwise.heads import find_heads
from headwise.means import MeanOutputs
from headwise.methods import Problem
from headwise.methods.soft import split_examples
from headwise.runs import open_run
from headwise.scoring import load_setting
from headwise.scoring.repair import repair_model
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric
from headwise.tuning import TuningSettings, tune

SHARES = (0.25, 0.5, 0.75)
LEARNING_RATES = (5e-5, 2e-4, 5e-4)
RANKINGS = ("stars", "random")


def main() -> None:
    options = read_options()
    setting = load_setting("e5-small-pos", "pos", options.data)
    found: dict[str, dict[str, float]] = {}
    with open_run(options.out, {"seed": 0, "data": options.data, "limit": options.limit}) as run:
        zero, mean = (Bench(setting, options, name, run.journal) for name in ("zero", "mean"))
        problems, with_means = zero.problems(), mean.problems()
        judges = zero.judges(problems)
        for language in problems:
            baseline = cast(Any, with_means[language]).baseline
            for seed in options.seeds:
                case = Case(zero, problems[language], judges[language], baseline, seed)
                found |= case.measure()
    print(json.dumps(found))


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = mask_parser(__doc__, "repair", "zh,tr", 2400)
    options = parser.parse_args()
    options.shares = SHARES
    if options.quick:
        options.languages, options.seeds, options.shares = "tr", "0", (0.5,)
        options.budget, options.limit, options.limit_test = 300, 40, 40
    options.out, options.seeds = default_out(options, "repair"), numbers(options.seeds, int)
    return options


class Case:
    """One language and seed.

    Args:
        bench: The model and the journal.
        problem: The problem on dev data.
        judge: Measures models on test data.
        baseline: Mean outputs on dev data.
        seed: Seed of the ranking and of tuning.
    """

    def __init__(self, bench: Bench, problem: Problem, judge: MaskJudge, baseline: MeanOutputs, seed: int) -> None:
        self.bench, self.problem, self.judge, self.baseline, self.seed = bench, problem, judge, baseline, seed
        self.setting, self.language = bench.setting, judge.language
        self.dev = self.setting.examples([self.language], "dev", bench.options.limit).examples[self.language]
        self.metric = Judge(cast(Metric, judge.metric), 10_000)

    def measure(self) -> dict[str, dict[str, float]]:
        """The accuracies with the heads removed by every ranking, at every share."""
        whole = self.once("whole", lambda: self.setting.model)
        found = {"whole": self.show("whole", {"none": whole, "tuned": self.once("whole, tuned", self.tuned_whole)})}
        for ranking in RANKINGS:
            scores = self.bench.run(ranking, {}, self.problem, self.seed, self.bench.options.budget).scores
            for share in self.bench.options.shares:
                name = f"{ranking} {share:.0%}"
                found[name] = self.show(name, self.variants(name, scores, share))
        return {f"{self.language} {self.seed} {name}": values for name, values in found.items()}

    def variants(self, name: str, scores: HeadScores, share: float) -> dict[str, Any]:
        """The statistics of every variant of a pruned model."""
        ranked = scores.ranked()
        mask = scores.without(ranked[: round(share * len(ranked))])
        made: dict[str, Callable[[], Any]] = {
            "zero": lambda: shrink(self.setting.model, mask),
            "mean": lambda: shrink(self.setting.model, mask, baseline=self.baseline),
            "repaired": lambda: self.repaired(mask),
            "tuned": lambda: self.tuned(mask),
        }
        return {variant: self.once(f"{name}, {variant}", make) for variant, make in made.items()}

    def repaired(self, mask: HeadMask) -> Any:
        """A pruned model after its repair on dev data."""
        pruned = shrink(self.setting.model, mask)
        repair_model(pruned, self.setting, self.dev, self.language)
        return pruned

    def tuned_whole(self) -> Any:
        """The whole model after one epoch of tuning."""
        return self.tuned(HeadMask.full(self.setting.heads))

    def tuned(self, mask: HeadMask) -> Any:
        """A pruned model after one epoch of tuning, with the learning rate that is best on the rest of the dev data."""
        train, rest = (self.chosen(part) for part in split_examples(len(self.dev), 0.2, self.seed))
        candidates = []
        for rate in LEARNING_RATES:
            settings = TuningSettings(epochs=1, learning_rate=rate, batch_tokens=256, seed=self.seed)
            model = shrink(self.setting.model, mask) if mask.off else copy.deepcopy(self.setting.model)
            data = {"train": train, "dev": rest}
            candidates.append(tune(model, self.setting.tokenizer, data, self.setting.task, settings=settings))
        return max(candidates, key=lambda each: each.result.best_value).model

    def chosen(self, part: Iterable[int]) -> list[Example]:
        """Dev examples by their numbers."""
        return [self.dev[each] for each in part]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """The statistics of a model on test data, which are stored."""

        def compute() -> dict[str, Any]:
            model = make()
            heads = find_heads(model)
            judge = MaskJudge(
                model, heads, self.setting.task, self.judge.examples, self.setting.tokenizer, self.language
            )
            return {"values": judge.measure([HeadMask.full(heads)]).statistics[0]}

        stream = f"{self.language} {self.seed} {self.bench.options.budget} {len(self.judge.examples)} {name}"
        return self.bench.journal.once(stream, compute)["values"]

    def show(self, name: str, statistics: dict[str, Any]) -> dict[str, float]:
        """Print the accuracies of one row, with the 95% interval of the change by repair and by tuning."""
        values = {variant: round(self.metric.value(np.asarray(each)), 2) for variant, each in statistics.items()}
        first = next(iter(statistics))
        notes = []
        for variant in ("repaired", "tuned"):
            if variant in statistics:
                test = self.metric.compare(statistics[first], statistics[variant])
                notes.append(f"{variant} {test.difference:+.2f} ({test.low:+.2f} to {test.high:+.2f})")
        shown = ", ".join(f"{variant} {value:.2f}" for variant, value in values.items())
        print(f"{self.language} seed {self.seed}, {name}: {shown}; {'; '.join(notes)}", flush=True)
        return values


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
