"""Zero and mean ablation side by side: which harmful heads stay harmful, and what removing them gives.

The heads of e5-small-pos are scored on dev data of the phrasebook with `stars` twice: a head that is off is replaced by
zero, or by its mean output over the dev data. Two sets of heads are compared: those decided harmful, and those that are
likely harmful (at most a tenth of them expected not to be). Each set is removed under both baselines, and judged on
test data by the paired bootstrap. Results are stored in `--out`, so the same command resumes after an interruption.
The scores are written as run folders (`zero-0` for the first seed), which `headwise roles --scores` reads.

    python -m benchmarks.mean_ablation [--quick] [--languages zh,tr,ar,th,ja,sw] [--seeds 0,1] [--budget 4000]
        [--out runs/mean-ablation]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.options import default_out, mask_parser
from benchmarks.scorers import Bench
from benchmarks.shapley import numbers
from headwise import HeadMask, HeadScores, HeadwiseError
from headwise.architectures import BASELINES
from headwise.engine.evaluation import MaskJudge
from headwise.files import hash_json
from headwise.runs import open_run
from headwise.runs.config import write_config
from headwise.scoring import load_setting
from headwise.studies.judge import Judge
from headwise.tasks.metrics import Metric

RULES = ("harmful", "likely")


def main() -> None:
    options = read_options()
    setting = load_setting("e5-small-pos", "pos", options.data)
    rows: list[dict[str, Any]] = []
    with open_run(options.out, {"seed": 0, "data": options.data, "limit": options.limit}) as run:
        benches = {name: Bench(setting, options, name, run.journal) for name in BASELINES}
        problems = {name: bench.problems() for name, bench in benches.items()}
        judges = {name: bench.judges(problems[name]) for name, bench in benches.items()}
        for language in problems[BASELINES[0]]:
            for seed in options.seeds:
                scores = {
                    name: bench.run("stars", {}, problems[name][language], seed, options.budget).scores
                    for name, bench in benches.items()
                }
                for name, found in scores.items():
                    save(options.out / f"{name}-{seed}", name, seed, found)
                rows += compare(benches, scores, {name: judges[name][language] for name in judges}, seed)
    print(table(rows))
    print(json.dumps(summary(rows)))


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = mask_parser(__doc__, "mean-ablation", "zh,tr,ar,th,ja,sw", 4000)
    options = parser.parse_args()
    if options.quick:
        options.languages, options.seeds, options.budget, options.limit_test = "sw", "0", 600, 40
    options.out, options.seeds = default_out(options, "mean-ablation"), numbers(options.seeds, int)
    return options


def save(folder: Path, baseline: str, seed: int, scores: HeadScores) -> None:
    """Write the scores of a language as those of a run."""
    (folder / "scores").mkdir(parents=True, exist_ok=True)
    write_config(folder, {"seed": seed, "baseline": baseline})
    scores.save(folder / "scores" / f"{scores.provenance.language}.json")


def compare(
    benches: Mapping[str, Bench], scores: Mapping[str, HeadScores], judges: Mapping[str, MaskJudge], seed: int
) -> list[dict[str, Any]]:
    """One row per rule: the overlap of both sets of heads, and the gain of removing each under each baseline."""
    zero, mean = scores["zero"], scores["mean"]
    decisions = dict(zip(mean.players, mean.decision, strict=True))
    rows = []
    for rule in RULES:
        masks = {name: found.mask(cast(Any, rule)) for name, found in scores.items()}
        chosen = set(masks["zero"].off)
        row: dict[str, Any] = {"language": judges["zero"].language, "seed": seed, "rule": rule, "zero": len(chosen)}
        row |= {"mean": len(masks["mean"].off), "both": len(chosen & set(masks["mean"].off))}
        row["decided helpful under mean"] = sum(decisions[name] == "helpful" for name in chosen)
        row["below 0 under mean"] = sum(
            mean.value[place] < 0 for place, name in enumerate(zero.players) if name in chosen
        )
        for judged, judge in judges.items():
            for made, mask in masks.items():
                row[f"{made} heads, {judged} ablation"] = gain(benches[judged], judge, mask)
        rows.append(row)
    return rows


def gain(bench: Bench, judge: MaskJudge, mask: HeadMask) -> list[float]:
    """The gain of a mask on test data with its 95% interval."""

    def measure() -> dict[str, Any]:
        return {"values": np.stack(judge.measure([HeadMask.full(bench.setting.heads), mask]).statistics)}

    stream = f"{bench.baseline} {judge.language} test {len(judge.examples)} {hash_json(sorted(mask.off))}"
    base, other = bench.journal.once(stream, measure)["values"]
    test = Judge(cast(Metric, judge.metric), 10_000).compare(base, other)
    return [round(test.difference, 2), round(test.low, 2), round(test.high, 2)]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows in Markdown; significant gains are marked."""
    lines = [f"| {' | '.join(rows[0])} |", f"|{'---|' * len(rows[0])}"]
    for row in rows:
        cells = [_shown(value) for value in row.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return f"{value[0]:+.2f}{' +' if value[1] > 0 else ' -' if value[2] < 0 else ''}"


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """For every rule, the share of heads that stay, and mean gains."""
    found: dict[str, Any] = {}
    for rule in RULES:
        chosen = [row for row in rows if row["rule"] == rule]
        removed = sum(row["zero"] for row in chosen)
        found[f"{rule}_also_under_mean"] = round(sum(row["both"] for row in chosen) / removed, 3) if removed else None
        for name in (key for key in chosen[0] if "ablation" in key):
            found[f"{rule}: {name}"] = round(float(np.mean([row[name][0] for row in chosen])), 2)
    return found


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
