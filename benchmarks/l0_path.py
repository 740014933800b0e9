"""A path of L0 penalties against rankings: accuracy on test data with the same number of heads.

Hard Concrete gates of e5-small-pos are trained on dev data with the weights frozen, for growing penalties, each
starting from the gates of the one before. At the number of heads that each penalty keeps, the mask is compared with the
highest ranked heads of other scorers: their dev data and test data are the same. `random` is a mean over three
rankings. A difference is marked (* better than l0, - worse) if the 95% interval of the paired bootstrap over test
sentences excludes 0. Results are stored in `--out`, so the same command resumes after an interruption.

    python -m benchmarks.l0_path [--quick] [--languages zh,tr] [--seeds 0,1] [--lams 0.0003,0.001] [--epochs 8]
        [--budget 2400] [--out runs/l0-path]
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.options import default_out, mask_parser
from benchmarks.scorers import Bench
from benchmarks.shapley import numbers
from headwise import HeadMask, HeadwiseError
from headwise.engine.evaluation import MaskJudge
from headwise.files import hash_json
from headwise.methods import Problem
from headwise.methods.l0 import L0
from headwise.runs import open_run
from headwise.scoring import load_setting
from headwise.scoring.l0_path import l0_path
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric

LAMS = "0.0001,0.0003,0.001,0.002,0.004,0.008,0.016,0.032,0.064"
RIVALS = ("stars", "michel", "relevance", "random")
RANDOM_SEEDS = (0, 1, 2)


def main() -> None:
    options = read_options()
    setting = load_setting("e5-small-pos", "pos", options.data)
    found: dict[str, list[dict[str, Any]]] = {}
    with open_run(options.out, {"seed": 0, "data": options.data, "limit": options.limit}) as run:
        bench = Bench(setting, options, "zero", run.journal)
        problems = bench.problems()
        judges = bench.judges(problems)
        for language, problem in problems.items():
            for seed in options.seeds:
                found[f"{language} {seed}"] = compare(bench, problem, judges[language], seed)
    print(json.dumps(found))


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = mask_parser(__doc__, "l0-path", "zh,tr", 2400)
    parser.add_argument("--lams", default=LAMS, help="weights of the penalty, in ascending order")
    parser.add_argument("--epochs", type=int, default=8, help="number of passes over dev data for each penalty")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.seeds, options.lams, options.epochs = "tr", "0", "0.001,0.03", 4
        options.budget, options.limit, options.limit_test = 300, 32, 24
    options.out, options.seeds = default_out(options, "l0-path"), numbers(options.seeds, int)
    options.lams = numbers(options.lams, float)
    return options


def compare(bench: Bench, problem: Problem, judge: MaskJudge, seed: int) -> list[dict[str, Any]]:
    """The path of one language and seed, and the rankings with the same numbers of heads."""
    options, language = bench.options, problem.language
    method = L0(learning_rate=0.2, batch=16, epochs=options.epochs)
    out = Path(options.out) / "paths" / f"{language}-{seed}"
    points = l0_path(problem, options.lams, judge, method, seed=seed, out=out)
    for place, point in enumerate(points):
        point.mask.save(Path(options.out) / "masks" / f"{language}-{seed}" / f"{place}.json")
    off = [len(point.mask.off) for point in points]
    masks = {"l0": [[point.mask for point in points]], **rival_masks(bench, problem, seed, off)}
    values = {name: measure(bench, judge, each) for name, each in masks.items()}
    metric = Judge(cast(Metric, judge.metric), 10_000)
    print(f"\n{language}, seed {seed}: accuracy on test data\n\n| λ | heads | minutes | {' | '.join(masks)} |")
    print(f"|{'---|' * (3 + len(masks))}")
    rows = []
    for place, point in enumerate(points):
        row = {"lam": point.lam, "heads": len(point.mask.on) - off[place], "minutes": round(point.seconds / 60, 2)}
        shown = []
        for name, draws in values.items():
            row[name] = round(float(np.mean([metric.value(each[place]) for each in draws])), 2)
            tests = [metric.compare(values["l0"][0][place], each[place]) for each in draws]
            mark = "*" if all(test.low > 0 for test in tests) else "-" if all(test.high < 0 for test in tests) else ""
            shown.append(f"{row[name]:.2f}{mark}")
        print(f"| {point.lam:g} | {row['heads']} | {row['minutes']} | {' | '.join(shown)} |", flush=True)
        rows.append(row)
    return rows


def rival_masks(bench: Bench, problem: Problem, seed: int, off: Sequence[int]) -> dict[str, list[list[HeadMask]]]:
    """For every other scorer and draw, the masks without as many of its lowest heads as the path turned off."""
    found: dict[str, list[list[HeadMask]]] = {}
    for name in RIVALS:
        for draw in RANDOM_SEEDS if name == "random" else (seed,):
            scores = bench.run(name, {}, problem, draw, bench.options.budget).scores
            masks = [scores.without(scores.ranked()[:count]) for count in off]
            found.setdefault(name, []).append(masks)
    return found


def measure(bench: Bench, judge: MaskJudge, draws: Sequence[Sequence[HeadMask]]) -> list[list[Any]]:
    """The statistics of each mask on test data, which are stored."""

    def once(masks: Sequence[HeadMask]) -> list[Any]:
        stream = f"{judge.language} test {len(judge.examples)} {hash_json([sorted(mask.off) for mask in masks])}"
        stored = bench.journal.once(stream, lambda: {"values": np.stack(judge.measure(masks).statistics)})
        return list(stored["values"])

    return [once(masks) for masks in draws]


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
