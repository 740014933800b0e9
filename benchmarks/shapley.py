"""What a unit buys: the error of Shapley values by several methods, at equal numbers of passes through the model.

The model is e5-small-pos, the game the probability of the gold labels, the players its 144 heads, the estimand the full
Shapley value, which all of the methods can estimate. The truth is a long run of an unbiased method with a seed of its
own, or the mean of run folders of `headwise score` with other seeds (`--truth-from`); its own squared error is taken
off everybody's. A method that spent a little more or less than asked is compared at the same units by its error times
its units, as the error of an average falls. All methods are tried with `--budgets`; `--long` ones are for stars and
tmab alone, and the first of them for the best of the peers.

    python -m benchmarks.shapley [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--budgets 5000]
"""

import argparse
import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from headwise import HeadScores, find_heads
from headwise.data.opening import open_dataset
from headwise.engine import EngineSettings, encode_examples, players_of
from headwise.games import ProbabilityGame
from headwise.methods import Budget, Estimand, Method, Problem, find_method, score
from headwise.methods.peers import Captum, Shapiq
from headwise.methods.tmab import Tmab
from headwise.models import load_model, load_tokenizer
from headwise.results import load_scores
from headwise.stats import clear, sign_agreement
from headwise.tasks import find_task

SEED, TRUTH_SEED = 1, 999
PEERS: dict[str, Callable[..., Method]] = {
    "captum": Captum,
    "shapiq PermutationSamplingSV": partial(Shapiq, approximator="PermutationSamplingSV"),
    "shapiq KernelSHAP": partial(Shapiq, approximator="KernelSHAP"),
    "shapiq UnbiasedKernelSHAP": partial(Shapiq, approximator="UnbiasedKernelSHAP"),
    "shapiq SVARM": partial(Shapiq, approximator="SVARM"),
}
#: Ways to value a coalition that peers are tried with: the best of them counts.
WAYS = (("a new example each", 1, True), ("8 examples", 8, False))


@dataclass(frozen=True)
class Entry:
    """What one method came to within one budget."""

    method: str
    budget: float
    units: float
    seconds: float
    error: float
    signs: float

    @property
    def at_budget(self) -> float:
        """The squared error at exactly the budget."""
        return self.error * self.units / self.budget


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, small budgets: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr")
    parser.add_argument("--budgets", default="5000")
    parser.add_argument("--long", default="20000,60000")
    parser.add_argument("--truth", type=float, default=200_000, help="units of the truth")
    parser.add_argument("--truth-from", default="", help="run folders to take the truth from instead")
    parser.add_argument("--bfloat16", action="store_true", help="all methods value coalitions in bfloat16")
    parser.add_argument("--plot", type=Path, help="write a plot to this HTML file")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.budgets, options.long, options.truth = "zh", "1500", "", 3000.0
    budgets, long = ([float(each) for each in text.split(",") if each] for text in (options.budgets, options.long))
    entries: dict[str, list[Entry]] = {}
    for language in options.languages.split(","):
        problem = make_problem(options.data, language, options.bfloat16)
        truth = find_truth(problem, language, options.truth_from, options.truth)
        entries[language] = compare(problem, truth, budgets, long)
        show(language, problem, truth, entries[language])
    if options.plot is not None:
        draw_plot(entries, options.plot)
    print(json.dumps(summary(entries)))


def make_problem(data: str, language: str, bfloat16: bool = False) -> Problem:
    """The heads of e5-small-pos on the dev half of a language."""
    model, tokenizer = load_model("e5-small-pos"), load_tokenizer("e5-small-pos")
    heads = find_heads(model)
    examples = encode_examples(find_task("pos"), open_dataset(data, "pos").examples(language, "dev"), tokenizer)
    settings = EngineSettings(bfloat16=bfloat16)
    return Problem(
        model, heads, examples, players_of(heads), ProbabilityGame(), Estimand(), language, settings=settings
    )


def find_truth(problem: Problem, language: str, folders: str, units: float) -> HeadScores:
    """A long run of stars, or the mean of several that are there already."""
    if not folders:
        return score(find_method("stars"), problem, Budget(units), TRUTH_SEED)
    runs = [load_scores(folder)[language] for folder in folders.split(",")]
    if any(run.provenance.estimand != problem.estimand.name or run.provenance.seed == SEED for run in runs):
        raise SystemExit(f"--truth-from takes runs of the {problem.estimand.name} value with seeds other than {SEED}")
    errors = np.array([run.stderr for run in runs])  # (runs, players)
    weights = errors**-2 / (errors**-2).sum(0)
    value = (weights * np.array([run.value for run in runs])).sum(0)
    total = dataclasses.replace(runs[0].provenance, units=sum(run.provenance.units for run in runs))
    stderr = (errors**-2).sum(0) ** -0.5
    return dataclasses.replace(runs[0], value=tuple(value), stderr=tuple(stderr), provenance=total)


def compare(problem: Problem, truth: HeadScores, budgets: list[float], long: list[float]) -> list[Entry]:
    """Every method within every budget that it is tried with."""
    found: list[Entry] = []

    def note(name: str, budget: float, scores: HeadScores, seconds: float) -> None:
        found.append(measure(name, budget, scores, seconds, truth))
        print(f"{found[-1]}", flush=True)

    ours = {
        "stars": (find_method("stars"), budgets + long),
        "gradient-screen": (find_method("gradient-screen"), budgets),
        "permutation": (find_method("permutation"), budgets),
        "tmab": (find_method("tmab"), budgets + long),  # as in the paper, every coalition on up to 512 examples
        "tmab, 32 examples": (find_method("tmab", sample=32), budgets),
    }
    for name, (method, chosen) in ours.items():
        for budget, scores, seconds in snapshots(method, problem, chosen):
            note(name, budget, scores, seconds)
        if name == "tmab":
            print(tmab_cost(problem, truth, scores), flush=True)
    peers = {f"{name}, {way[0]}": (make, way) for (name, make), way in itertools.product(PEERS.items(), WAYS)}
    for budget in budgets + long[:1]:
        if budget in long:  # the best so far alone
            [best] = [min((e for e in found if e.method in peers and e.units > 0), key=lambda each: each.at_budget)]
            peers = {best.method: peers[best.method]}
        for name, (make, (_, examples, fresh)) in peers.items():
            start = time.monotonic()
            peer: Method = make(units=budget, examples_per_coalition=examples, fresh=fresh)
            note(name, budget, score(peer, problem, Budget(budget), seed=SEED), time.monotonic() - start)
    return found


def tmab_cost(problem: Problem, truth: HeadScores, scores: HeadScores) -> str:
    """What tmab would cost to the end: from its own variances, the true values and its bound, not measured."""
    method = Tmab()
    odds = np.log(3 / method.error_rate)
    variance = np.array(scores.stderr) ** 2 * np.array(scores.count)
    slow = np.sqrt(2 * odds * np.where(np.isfinite(variance), variance, np.nanmedian(variance)))
    size, fast = np.abs(truth.values()), 3 * method.value_range * odds
    walks = ((slow + np.sqrt(slow**2 + 4 * fast * size)) / (2 * size)) ** 2  # where slow/√t + fast/t falls to size
    units = walks * min(method.sample, len(problem.examples))
    half, most = np.median(walks), np.quantile(walks, 0.9)
    return (
        f"tmab to the end (extrapolated): {half:,.0f} permutations for half of the players, {most:,.0f} for 90%; "
        f"{units[walks <= most].sum():.1e} units for these"
    )


def snapshots(method: Method, problem: Problem, budgets: Sequence[float]) -> list[tuple[float, HeadScores, float]]:
    """One run of a method, looked at when each budget is spent: (budget, scores, seconds)."""
    rounds, units, drawn, start, found = method.start(problem, SEED), 0.0, 0, time.monotonic(), []
    for budget in budgets:
        while not rounds.done and units + rounds.next_units <= budget:
            arrays, count = rounds.draw(drawn)
            rounds.absorb(arrays)
            units, drawn = units + float(arrays["units"]), drawn + count
        found.append((budget, rounds.scores(units, SEED), time.monotonic() - start))
    return found


def measure(name: str, budget: float, scores: HeadScores, seconds: float, truth: HeadScores) -> Entry:
    """The mean squared error of scores, and the share of right signs where the truth is clear."""
    error = float(np.mean((scores.values() - truth.values()) ** 2 - np.array(truth.stderr) ** 2))
    where = clear(truth.values(), np.array(truth.stderr))
    signs = sign_agreement(scores.values(), truth.values(), where).share
    return Entry(name, budget, scores.provenance.units, seconds, error, signs)


def show(language: str, problem: Problem, truth: HeadScores, entries: Sequence[Entry]) -> None:
    """One table."""
    values, errors = truth.values(), np.array(truth.stderr)
    print(
        f"\n{language}: {len(problem.examples)} sentences, truth by stars, {truth.provenance.units:,.0f} units: ",
        end="",
    )
    print(f"values of mean square {np.mean(values**2):.2e}, standard errors {np.mean(errors**2):.1e} squared, ", end="")
    print(f"{int(clear(values, errors).sum())} of 144 clear, {int((values < 0).sum())} negative")
    print(f"{'method':>48} {'budget':>8} {'units':>9} {'seconds':>8} {'squared error':>14} {'right signs':>12}")
    for each in entries:
        print(
            f"{each.method:>48} {each.budget:8,.0f} {each.units:9,.0f} {each.seconds:8.0f} {each.error:14.2e} "
            f"{each.signs:12.1%}"
        )


def summary(entries: dict[str, list[Entry]]) -> dict[str, float | None]:
    """How many times the error of stars others have, at the largest budget of both: the least favourable language."""
    to_tmab, to_peer, signs = [], [], []
    for found in entries.values():
        errors = {(each.method, each.budget): each.at_budget for each in found if each.units > 0}
        stars = {budget: error for (name, budget), error in errors.items() if name == "stars"}
        peers = [key for key in errors if key[0].startswith(("shapiq", "captum"))]
        most = max(budget for _, budget in peers)
        to_peer.append(min(errors[key] for key in peers if key[1] == most) / stars[most])
        # Only where tmab had the units for a permutation at all.
        walked = [budget for name, budget in errors if name == "tmab" and np.isfinite(errors[name, budget])]
        to_tmab += [errors["tmab", max(walked)] / stars[max(walked)]] if walked else []
        signs += [each.signs for each in found if each.method == "stars" and each.budget == 60_000]
    return {
        "error_ratio_to_tmab": round(min(to_tmab), 1) if to_tmab else None,
        "error_ratio_to_best_peer": round(min(to_peer), 1),
        "sign_agreement_60k": min(signs) if signs else None,
    }


def draw_plot(entries: dict[str, list[Entry]], path: Path) -> None:
    """Error against units, one line for each method, one panel for each language."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(entries), subplot_titles=list(entries), shared_yaxes=True)
    for column, found in enumerate(entries.values(), start=1):
        for name in dict.fromkeys(each.method for each in found):
            line = [each for each in found if each.method == name and each.units > 0 and each.error > 0]
            figure.add_trace(
                go.Scatter(
                    x=[each.units for each in line], y=[each.error for each in line], name=name, mode="lines+markers"
                ),
                row=1,
                col=column,
            )
    figure.update_xaxes(type="log", title="units")
    figure.update_yaxes(type="log", title="mean squared error")
    figure.write_html(path, include_plotlyjs=True)


if __name__ == "__main__":
    main()
