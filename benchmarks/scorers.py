"""Every scorer on one model: its cost, its agreement with long-run Shapley values, and its pruning curves.

The model is e5-small-pos, and the players are its 144 heads. Heads are scored on dev data by the probability of the
gold labels, where a scorer has a choice, and curves are measured on test data by accuracy.

- Cost: units (passes of an example through the model) and seconds.
- Spearman: rank correlation with the Shapley values of long runs of stars, from `--truth` if it has them. Otherwise
  stars runs with two other seeds and `--truth-units` units in all.
- Lowest 10 and 20: the share of truly harmful heads among a scorer's lowest-ranked heads. A head is truly harmful if
  its true value is below 0 by more than three standard errors. Harmful missed: how many of them a screen did not keep.
- Areas: accuracy averaged over the share of heads removed, lowest-ranked first (higher is better) and highest-ranked
  first (lower is better), with 95% intervals by the bootstrap over test sentences.
- All figures are means over languages and seeds; `by seed` has the areas of single seeds. A scorer that draws nothing
  is run once.

Results of every scorer, language, seed and baseline are stored in the run folder `--out`, so the same command resumes
after an interruption, and more scorers, languages or seeds add to it.

    python -m benchmarks.scorers [--quick] [--data phrasebook|FOLDER] [--languages zh,tr,ar,th] [--scorers stars,michel]
        [--seeds 0,1] [--baselines zero,mean] [--budget 5000] [--limit-test 100] [--truth FILE] [--truth-units 60000]
        [--bfloat16] [--out runs/scorers] [--plot FILE]
"""

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks.curves import Array, PruningCurve, draw_curves, mean_area, measure_curve, points_of
from benchmarks.shapley import KNOWN, numbers
from benchmarks.truths import Truth, find_truth, pooled, truth_of
from headwise import HeadScores, HeadwiseError
from headwise.architectures import BASELINES
from headwise.engine import EngineSettings
from headwise.engine.evaluation import MaskJudge
from headwise.methods import METHODS, Budget, MethodRun, Problem, find_method, method_class, run_method
from headwise.runs import Journal, open_run
from headwise.scoring import ScoringPlan, Setting, load_setting, make_problems
from headwise.stats import clear, spearman

#: Not compared: too many players, and estimators of other libraries (see benchmarks/shapley.py).
EXCLUDED = ("exact", "shapiq", "captum")
#: Variants of scorers with their options, where the defaults do not fit or where there is more than one way.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "tmab": {"tmab": {"sample": 32}},
    "screened": {"screened": {}, "screened, by sensitivity": {"by": "sensitive"}},
    "gradient": {"gradient": {}, "gradient, of gates": {"of": "gate"}},
    "relevance": {f"relevance, {rule}": {"rule": rule} for rule in ("cp", "attnlrp", "voita")},
    "lahis": {"lahis": {}, "lahis, published": {"form": "published"}},
    "l0": {"l0": {"lam": 0.001, "learning_rate": 0.2, "batch": 16, "epochs": 8}},
    "chg": {"chg": {"learning_rate": 0.3, "batch": 16, "epochs": 3}},
    "soft": {"soft, not negative": {"epochs": 8, "patience": 3, "smallest": 0.0}},  # a negative gate is not a low rank
    "layers": {f"layers, {pattern}": {"pattern": pattern} for pattern in ("top", "bottom")},
}
#: Scorers that draw nothing: one seed is enough.
FIXED = ("gradient", "michel", "relevance", "layers", "confidence", "entropy", "hies", "lahis")
#: Seeds of random rankings, which differ more than those of other scorers.
RANDOM_SEEDS = (0, 1, 2)
#: Seeds of the runs of stars that give the true values, not used for anything else.
TRUTH_SEEDS = (101, 102)
QUICK = ("stars", "gradient", "michel", "random")


@dataclass(frozen=True)
class Result:
    """The result of one scorer in one language with one seed.

    Attributes:
        scorer: Its name in the table.
        language: The language.
        seed: The seed.
        units: Its cost in units.
        seconds: Its time.
        spearman: Rank correlation with the true values; NaN without true values, like the shares.
        lowest_10: Share of truly harmful heads among the lowest 10.
        lowest_20: The same among the lowest 20.
        missed: Number of truly harmful heads that the screen of `screened` did not keep; NaN for other scorers.
        curve: Its pruning curves.
    """

    scorer: str
    language: str
    seed: int
    units: float
    seconds: float
    spearman: float
    lowest_10: float
    lowest_20: float
    missed: float
    curve: PruningCurve


@dataclass(frozen=True)
class Row:
    """The result of one scorer over languages and seeds; areas are (value, low, high)."""

    scorer: str
    units: float
    seconds: float
    spearman: float
    lowest_10: float
    lowest_20: float
    missed: float
    lowest: tuple[float, float, float]
    highest: tuple[float, float, float]
    by_seed: tuple[float, ...]

    def figures(self) -> dict[str, float | None]:
        """One number per figure."""
        names = ("units", "seconds", "spearman", "lowest_10", "lowest_20", "missed")
        found = {name: getattr(self, name) for name in names}
        found |= {"area_lowest_first": self.lowest[0], "area_highest_first": self.highest[0]}
        return {name: None if np.isnan(value) else round(float(value), 4) for name, value in found.items()}


@dataclass(frozen=True)
class Bench:
    """What all results of a baseline have in common."""

    setting: Setting
    options: Any
    baseline: str
    journal: Journal

    def problems(self) -> Mapping[str, Problem]:
        """The problem of each language on dev data."""
        with_baseline: dict[str, Any] = {} if self.baseline == "zero" else {"baseline": self.baseline}
        options = self.options
        plan = ScoringPlan(
            "e5-small-pos", "pos", options.data, options.languages, limit=options.limit, bfloat16=options.bfloat16,
            **with_baseline,
        )  # fmt: skip
        return make_problems(plan, self.setting)[0]

    def judges(self, problems: Mapping[str, Problem]) -> dict[str, MaskJudge]:
        """What measures masks on the test data of each language."""
        tests = self.setting.examples(self.options.languages, "test", self.options.limit_test).examples
        if len(set(map(len, tests.values()))) > 1:
            raise HeadwiseError("languages have different numbers of test sentences: give a smaller --limit-test")
        found, setting = {}, self.setting
        for language, examples in tests.items():
            with_baseline = {} if self.baseline == "zero" else {"baseline": cast(Any, problems[language]).baseline}
            found[language] = MaskJudge(
                setting.model, setting.heads, setting.task, examples, setting.tokenizer, language,
                EngineSettings(bfloat16=self.options.bfloat16), **with_baseline,
            )  # fmt: skip
        return found

    def run(self, name: str, chosen: Mapping[str, Any], problem: Problem, seed: int, units: float) -> MethodRun:
        """Run a method, or continue it; its rounds are stored."""
        budget = {"units": units} if method_class(name).needs_units and "units" not in chosen else {}
        method = find_method(name, **chosen, **budget)
        stream = f"{self.baseline} {problem.language} {method} version {method.version} seed {seed}"
        return run_method(method, problem, Budget(units), seed, self.journal, stream)

    def curve(self, judge: MaskJudge, scores: HeadScores) -> PruningCurve:
        """The curves of a ranking, which are measured once."""
        ranking = hashlib.sha256(" ".join(scores.ranked()).encode()).hexdigest()[:16]
        stream = f"{self.baseline} {judge.language} curve {ranking} of {len(judge.examples)}"
        found = self.journal.once(stream, lambda: measure_curve(judge, scores))
        return PruningCurve(points_of(len(scores.players)), found["lowest"], found["highest"])

    def truth(self, problem: Problem) -> Truth | None:
        """The true values of a problem: stored ones, which are in bfloat16, or those of long runs of stars."""
        rounded = replace(problem, settings=EngineSettings(bfloat16=True))
        if self.baseline == "zero" and self.options.truth and (known := find_truth(self.options.truth, rounded)):
            return known
        if not self.options.truth_units:
            return None
        never = {"error_rate": 1e-300}  # never decides, so that it spends its whole budget
        units = self.options.truth_units / len(TRUTH_SEEDS)
        return pooled([truth_of(self.run("stars", never, problem, seed, units).scores) for seed in TRUTH_SEEDS])


def main() -> None:
    options = read_options()
    setting = load_setting("e5-small-pos", "pos", options.data)
    config = {"seed": 0, "data": options.data, "bfloat16": options.bfloat16, "limit": options.limit}
    tables: dict[str, list[Row]] = {}
    with open_run(options.out, config) as run:
        for baseline in options.baselines:
            bench = Bench(setting, options, baseline, run.journal)
            results = list(measure(bench))
            tables[baseline] = [summarise(found, bench) for found in by_scorer(results).values()]
            text = table(tables[baseline], baseline, options)
            print(f"\n{text}", flush=True)
            (run.folder / f"scorers-{baseline}.md").write_text(text, encoding="utf-8")
            if results:
                plot = options.plot if options.plot and baseline == "zero" else run.folder / f"scorers-{baseline}.png"
                curves = {name: [each.curve for each in found] for name, found in by_scorer(results).items()}
                draw_curves(curves, metric_of(bench), plot)
    first = tables[options.baselines[0]]
    best = max(first, key=lambda row: row.lowest[0]).scorer if first else None
    print(json.dumps({**{name: {row.scorer: row.figures() for row in rows} for name, rows in tables.items()},
                      "best_curve": best}))  # fmt: skip


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name in METHODS if name not in EXCLUDED]
    parser.add_argument("--quick", action="store_true", help="one language, few scorers and units: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr,ar,th")
    parser.add_argument("--scorers", default=",".join(known))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--baselines", default=",".join(BASELINES), help="what replaces a head that is off")
    parser.add_argument("--budget", type=float, default=5000, help="maximum number of units of a scorer per language")
    parser.add_argument("--limit", type=int, help="maximum number of dev sentences per language")
    parser.add_argument("--limit-test", type=int, help="maximum number of test sentences per language")
    parser.add_argument("--truth", type=Path, default=KNOWN, help="table with true values")
    parser.add_argument("--truth-units", type=float, default=60_000, help="units for true values that are not known")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/scorers, or runs/scorers-quick)")
    parser.add_argument("--plot", type=Path, help="write the plot to this PNG file (default: into the run folder)")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.scorers, options.seeds, options.baselines = "zh", ",".join(QUICK), "0", "zero"
        options.budget, options.limit_test, options.truth_units = 500, 12, 0
    options.out = options.out or Path("runs/scorers-quick" if options.quick else "runs/scorers")
    options.scorers, options.baselines = options.scorers.split(","), options.baselines.split(",")
    options.seeds = numbers(options.seeds, int)
    for name, given, possible in (("scorers", options.scorers, known), ("baselines", options.baselines, BASELINES)):
        if unknown := [each for each in given if each not in possible]:
            raise SystemExit(f"--{name}: there is no {unknown[0]!r}: choose from {', '.join(possible)}")
    return options


def measure(bench: Bench) -> Iterator[Result]:
    """The results of every scorer in every language with every seed; a line is printed for each."""
    problems = bench.problems()
    judges, options = bench.judges(problems), bench.options
    for language, problem in problems.items():
        truth = bench.truth(problem)
        for scorer in options.scorers:
            for label, chosen in VARIANTS.get(scorer, {scorer: {}}).items():
                for seed in seeds_of(scorer, options):
                    try:
                        run = bench.run(scorer, chosen, problem, seed, options.budget)
                    except HeadwiseError as error:
                        print(f"{bench.baseline} {language} {label}: {error}", flush=True)
                        break
                    if missing := len(problem.players) - len(run.scores.ranked()):
                        print(f"{bench.baseline} {language} {label}: {missing} heads have no value", flush=True)
                        break
                    found = result_of(label, language, run, truth, bench.curve(judges[language], run.scores))
                    show(found, bench)
                    yield found


def seeds_of(scorer: str, options: argparse.Namespace) -> Sequence[int]:
    """The seeds of a scorer."""
    if scorer in FIXED:
        return tuple(options.seeds[:1])
    return RANDOM_SEEDS if scorer == "random" and not options.quick else tuple(options.seeds)


def result_of(label: str, language: str, run: MethodRun, truth: Truth | None, curve: PruningCurve) -> Result:
    """The figures of one run."""
    scores, agreement, lowest_10, lowest_20, missed = run.scores, np.nan, np.nan, np.nan, np.nan
    if truth is not None:
        harmful = clear(truth.values, truth.stderr) & (truth.values < 0)
        agreement = spearman(scores.values(), truth.values).rho
        lowest = np.argsort(scores.values(), kind="stable")
        lowest_10, lowest_20 = (float(harmful[lowest[:count]].mean()) for count in (10, 20))
        if scores.provenance.method == "screened":
            missed = float((harmful & np.isnan(scores.stderr)).sum())
    return Result(label, language, run.seed, run.units, run.seconds, agreement, lowest_10, lowest_20, missed, curve)


def by_scorer(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each scorer."""
    found: dict[str, list[Result]] = {}
    for each in results:
        found.setdefault(each.scorer, []).append(each)
    return found


def metric_of(bench: Bench) -> Any:
    """The metric of summed statistics."""
    return cast(Any, bench.setting.task).metric.value


def summarise(results: Sequence[Result], bench: Bench) -> Row:
    """The mean over languages and seeds, with bootstrap intervals of the areas."""
    metric, removed = metric_of(bench), results[0].curve.removed

    def areas(side: str, found: Sequence[Result]) -> tuple[float, float, float]:
        return mean_area(removed, [cast(Array, getattr(each.curve, side)) for each in found], metric)

    def mean(name: str) -> float:
        values = np.array([getattr(each, name) for each in results])
        return float(np.mean(values[~np.isnan(values)])) if not np.isnan(values).all() else np.nan

    seeds = sorted({each.seed for each in results})
    names = ("units", "seconds", "spearman", "lowest_10", "lowest_20", "missed")
    return Row(
        scorer=results[0].scorer,
        **{name: mean(name) for name in names},
        lowest=areas("lowest", results),
        highest=areas("highest", results),
        by_seed=tuple(areas("lowest", [each for each in results if each.seed == seed])[0] for seed in seeds),
    )


def show(result: Result, bench: Bench) -> None:
    """Print one result."""
    row = summarise([result], bench)
    print(
        f"{bench.baseline} {result.language} seed {result.seed} {result.scorer:>24}: {result.units:7,.0f} units "
        f"{result.seconds:6.1f} s, Spearman {result.spearman:5.2f}, harmful among lowest 10 and 20 "
        f"{result.lowest_10:4.0%} {result.lowest_20:4.0%}, areas {row.lowest[0]:5.2f} {row.highest[0]:5.2f}",
        flush=True,
    )


def table(rows: Sequence[Row], baseline: str, options: argparse.Namespace) -> str:
    """The table of a baseline in Markdown, the best curve first."""
    lines = [
        f"Baseline `{baseline}`, {options.languages}, seeds {', '.join(map(str, options.seeds))}, "
        f"at most {options.budget:,.0f} units.",
        "",
        "| scorer | units | seconds | Spearman | lowest 10 | lowest 20 | harmful missed | lowest first | by seed |"
        " highest first |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row.lowest[0]):
        low, high = (f"{value:.2f} ({a:.2f} to {b:.2f})" for value, a, b in (row.lowest, row.highest))
        truths = [
            "" if np.isnan(value) else form.format(value)
            for value, form in ((row.spearman, "{:.2f}"), (row.lowest_10, "{:.0%}"), (row.lowest_20, "{:.0%}"))
        ]
        missed = "" if np.isnan(row.missed) else f"{row.missed:.1f}"
        seeds = ", ".join(f"{each:.2f}" for each in row.by_seed)
        cells = [row.scorer, f"{row.units:,.0f}", f"{row.seconds:.0f}", *truths, missed, low, seeds, high]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
