"""What a unit buys: the error of Shapley values by several methods, at equal numbers of passes through the model.

The model is e5-small-pos, the game the probability of the gold labels, the players its 144 heads, the estimand the full
Shapley value, which all of the methods can estimate. The truth is a long run of an unbiased method with a seed of its
own, or the mean of run folders of `headwise score` with other seeds (`--truth-from`); its own squared error is taken
off everybody's. A method that spent a little more or less than asked is compared at the same units by its error times
its units, as the error of an average falls. All methods are tried with `--budgets`: peers value coalitions in several
ways within the first, and go on with what was best for them. `--long` budgets are for our own methods and for the best
of the peers, with fewer and with more examples. Where a permutation of tmab's whole sample does not fit into any of
them, it gets the units for two. With `--out` what was measured is kept, the truth too, and the same command goes on.

    python -m benchmarks.shapley [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--budgets 5000,20000]
        [--long 60000] [--truth-from RUN,RUN] [--out RUN] [--plot FILE]
"""

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise import HeadScores, HeadwiseError, find_heads
from headwise.data.opening import open_dataset
from headwise.engine import EngineSettings, encode_examples, players_of
from headwise.games import ProbabilityGame
from headwise.methods import Budget, Estimand, Method, Problem, find_method, score, version_of
from headwise.methods.peers import Captum, Shapiq
from headwise.methods.tmab import Tmab
from headwise.models import load_model, load_tokenizer
from headwise.results import load_scores
from headwise.runs import Journal, open_run
from headwise.stats import clear, sign_agreement
from headwise.tasks import find_task

Array = NDArray[np.float64]
SEED, TRUTH_SEED = 1, 999
PEERS: dict[str, Callable[..., Method]] = {
    "captum": Captum,
    "shapiq PermutationSamplingSV": partial(Shapiq, approximator="PermutationSamplingSV"),
    "shapiq KernelSHAP": partial(Shapiq, approximator="KernelSHAP"),
    "shapiq UnbiasedKernelSHAP": partial(Shapiq, approximator="UnbiasedKernelSHAP"),
    "shapiq SVARM": partial(Shapiq, approximator="SVARM"),
}
#: Ways to value a coalition: the best of them counts.
WAYS: dict[str, dict[str, Any]] = {
    "a new example each": {"examples_per_coalition": 1, "fresh": True},
    "8 examples": {"examples_per_coalition": 8},
    "32 examples": {"examples_per_coalition": 32},
}
#: What peers are tried with in the first budget.
FIRST_WAYS = ("a new example each", "8 examples")
#: What the best of them is tried with in larger ones, in which 8 examples may be too few to stand for all.
LONG_WAYS = ("8 examples", "32 examples")


@dataclass(frozen=True)
class Truth:
    """What all methods are compared with: values and standard errors, (players,) each, and what they cost."""

    values: Array
    stderr: Array
    units: Array


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
    def per_unit(self) -> float:
        """The squared error of one unit, as that of an average falls: what methods are compared by."""
        return self.error * self.units


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, small budgets: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr")
    parser.add_argument("--budgets", default="5000,20000", help="units that all methods are tried with")
    parser.add_argument("--long", default="60000", help="units for our own methods and the best of the peers")
    parser.add_argument("--truth", type=float, default=200_000, help="units of the truth")
    parser.add_argument("--truth-from", default="", help="run folders to take the truth from instead")
    parser.add_argument("--bfloat16", action="store_true", help="all methods value coalitions in bfloat16")
    parser.add_argument("--out", type=Path, help="keep what is measured in this run folder, and go on from there")
    parser.add_argument("--plot", type=Path, help="write a plot to this HTML file")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.budgets, options.long, options.truth = "zh", "1500", "", 3000.0
    budgets, long = ([float(each) for each in text.split(",") if each] for text in (options.budgets, options.long))
    entries: dict[str, list[Entry]] = {}
    config = {"seed": SEED, **{name: getattr(options, name) for name in ("data", "truth", "truth_from", "bfloat16")}}
    with tempfile.TemporaryDirectory() as draft, open_run(options.out or draft, config) as run:
        for language in options.languages.split(","):
            problem = make_problem(options.data, language, options.bfloat16)
            # Kept with what is compared with it: a run that is extended meanwhile does not change half of the table.
            truth = Truth(
                **run.journal.once(f"{language} truth", partial(find_truth, problem, options.truth_from, options.truth))
            )
            entries[language] = compare(problem, truth, budgets, long, run.journal)
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


def find_truth(problem: Problem, folders: str, units: float) -> dict[str, Array]:
    """The fields of the truth: of a long run of stars, or of the mean of several that are there already."""
    if not folders:
        runs = [score(find_method("stars"), problem, Budget(units), TRUTH_SEED)]
    else:
        known = [load_scores(folder) for folder in folders.split(",")]
        runs = [scores[problem.language] for scores in known if problem.language in scores]
    if not runs:
        raise SystemExit(f"--truth-from {folders}: none of these runs has scores of {problem.language}")
    asked = (problem.game.name, problem.estimand.name, problem.heads.fingerprint)
    if any((run.provenance.game, run.provenance.estimand, run.provenance.fingerprint) != asked for run in runs):
        raise SystemExit(
            f"--truth-from takes runs of this model, the {problem.game.name} game and the {asked[1]} value"
        )
    seeds = [SEED, *(run.provenance.seed for run in runs)]
    if len(set(seeds)) < len(seeds):
        raise SystemExit(f"--truth-from takes runs with seeds of their own, none of them {SEED}")
    errors = np.array([run.stderr for run in runs])  # (runs, players)
    weights = errors**-2 / (errors**-2).sum(0)
    return {
        "values": (weights * np.array([run.value for run in runs])).sum(0),
        "stderr": (errors**-2).sum(0) ** -0.5,
        "units": np.array(sum(run.provenance.units for run in runs)),
    }


def compare(problem: Problem, truth: Truth, budgets: list[float], long: list[float], journal: Journal) -> list[Entry]:
    """Every method within every budget that it is tried with."""
    found: list[Entry] = []

    def note(name: str, method: Method, chosen: Sequence[float], stretch: float = 1.0) -> Entry:
        kept = journal.once(
            f"{problem.language} {name} version {version_of(method)} {chosen}",
            lambda: measure(snapshots(method, problem, [stretch * budget for budget in chosen]), truth),
        )
        for budget, row in zip(chosen, kept["rows"].tolist(), strict=True):
            found.append(Entry(name, budget, *row))
            print(f"{found[-1]}", flush=True)
        if name == "tmab":
            print(tmab_cost(problem, truth, kept["variance"]), flush=True)
        return found[-1]

    tmab = find_method("tmab")  # as in the paper, every coalition on up to 512 examples
    note("stars", find_method("stars"), budgets + long)
    note("gradient-screen", find_method("gradient-screen"), budgets + long)
    note("permutation", find_method("permutation"), budgets + long)
    note("tmab", tmab, budgets + with_two_walks(long, tmab.start(problem, SEED).next_units))
    note("tmab, 32 examples", find_method("tmab", sample=32), budgets)
    first, *further = budgets
    best: dict[str, tuple[str, Entry]] = {}  # of every peer, its best way
    for peer, make in PEERS.items():
        tried = {way: note(f"{peer}, {way}", make(units=first, **WAYS[way]), [first]) for way in FIRST_WAYS}
        best[peer] = min(tried.items(), key=lambda each: each[1].per_unit)
    winner = min(best, key=lambda peer: best[peer][1].per_unit)
    for budget, (peer, (way, entry)) in itertools.product(further + long, best.items()):
        if budget in long and peer != winner:
            continue
        # Peers plan for whole passes, but the engine shares work between coalitions.
        stretch = entry.budget / entry.units
        for chosen in LONG_WAYS if peer == winner else (way,):
            note(f"{peer}, {chosen}", PEERS[peer](units=stretch * budget, **WAYS[chosen]), [budget], stretch)
    return found


def with_two_walks(budgets: list[float], walk: float) -> list[float]:
    """The budgets, and one more for two permutations where not even one is within them."""
    return [*budgets, 2 * walk] if budgets and walk > max(budgets) else budgets


def tmab_cost(problem: Problem, truth: Truth, variance: Array) -> str:
    """What tmab would cost to the end: from its own variances, the true values and its bound, not measured."""
    known = np.isfinite(variance)
    if not known.any():
        return "tmab to the end: it takes two permutations to tell"
    method = Tmab()
    odds = np.log(3 / method.error_rate)
    slow = np.sqrt(2 * odds * np.where(known, variance, np.median(variance[known])))
    size, fast = np.abs(truth.values), 3 * method.value_range * odds
    walks = ((slow + np.sqrt(slow**2 + 4 * fast * size)) / (2 * size)) ** 2  # where slow/√t + fast/t falls to size
    units = walks * min(method.sample, len(problem.examples))
    half, most = np.median(walks), np.quantile(walks, 0.9)
    return (
        f"tmab to the end (extrapolated): {half:,.0f} permutations for half of the players, {most:,.0f} for 90%; "
        f"{units[walks <= most].sum():.1e} units for these"
    )


def snapshots(method: Method, problem: Problem, budgets: Sequence[float]) -> list[tuple[HeadScores, float]]:
    """One run of a method, looked at when each budget is spent: scores and seconds."""
    rounds, units, drawn, start, found = method.start(problem, SEED), 0.0, 0, time.monotonic(), []
    for budget in budgets:
        while not rounds.done and units + rounds.next_units <= budget:
            arrays, count = rounds.draw(drawn)
            rounds.absorb(arrays)
            units, drawn = units + float(arrays["units"]), drawn + count
        found.append((rounds.scores(units, SEED), time.monotonic() - start))
    return found


def measure(looks: Sequence[tuple[HeadScores, float]], truth: Truth) -> dict[str, Array]:
    """The mean squared error of scores, and the share of right signs where the truth is clear.

    Returns:
        `rows`, an entry each without method and budget, and `variance` of a single observation of every player.
    """
    where = clear(truth.values, truth.stderr)
    rows = []
    for scores, seconds in looks:
        error = float(np.mean((scores.values() - truth.values) ** 2 - truth.stderr**2))
        signs = sign_agreement(scores.values(), truth.values, where).share
        rows.append((scores.provenance.units, seconds, error, signs))
    last = looks[-1][0]
    return {"rows": np.array(rows), "variance": np.array(last.stderr) ** 2 * np.array(last.count)}


def show(language: str, problem: Problem, truth: Truth, entries: Sequence[Entry]) -> None:
    """One table."""
    values, errors = truth.values, truth.stderr
    print(
        f"\n{language}: {len(problem.examples)} sentences, truth by stars, {float(truth.units):,.0f} units: ",
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
    """How many times the error of stars others have, where both have spent most: the least favourable language."""
    to_tmab, to_peer, signs = [], [], []
    for found in entries.values():
        done = [each for each in found if np.isfinite(each.error)]  # tmab may not have had the units for a permutation
        stars = {each.budget: each.per_unit for each in done if each.method == "stars"}
        peers = [each for each in done if each.method.startswith(("shapiq", "captum"))]
        most = max(each.budget for each in peers)
        to_peer.append(min(each.per_unit for each in peers if each.budget == most) / stars[most])
        walked = [each for each in done if each.method == "tmab"]
        to_tmab += [walked[-1].per_unit / stars[min(walked[-1].budget, max(stars))]] if walked else []
        signs += [each.signs for each in found if each.method == "stars" and each.budget == 60_000]
    return {
        "error_ratio_to_tmab": round(min(to_tmab), 1) if to_tmab else None,
        "error_ratio_to_best_peer": round(min(to_peer), 1),
        "sign_agreement_60k": min(signs) if signs else None,
    }


def draw_plot(entries: dict[str, list[Entry]], path: Path) -> None:
    """Error against units: panels are languages, colours methods, symbols how coalitions are valued."""
    import plotly.graph_objects as go
    from plotly.colors import qualitative
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(entries), subplot_titles=list(entries), shared_yaxes=True)
    names = list(dict.fromkeys(each.method for found in entries.values() for each in found))
    kinds, ways = ([*dict.fromkeys(name.partition(", ")[place] for name in names)] for place in (0, 2))
    symbols = ("circle", "square", "x", "diamond", "cross")
    for column, found in enumerate(entries.values(), start=1):
        for name in names:
            kind, _, way = name.partition(", ")
            line = [each for each in found if each.method == name and each.error > 0]
            look = {
                "marker": {"symbol": symbols[ways.index(way)], "size": 9},
                "line": {"color": qualitative.D3[kinds.index(kind)], "width": 4 if kind == "stars" else 1.5},
            }
            x, y = [each.units for each in line], [each.error for each in line]
            figure.add_trace(
                go.Scatter(x=x, y=y, name=name, legendgroup=name, showlegend=column == 1, mode="lines+markers", **look),
                row=1,
                col=column,
            )
    figure.update_layout(template="plotly_white", width=1150, height=640)
    figure.update_xaxes(type="log", title="units (passes of an example)", dtick=1)
    figure.update_yaxes(type="log", dtick=1, exponentformat="power")
    figure.update_yaxes(title="mean squared error", col=1)
    figure.write_html(path, include_plotlyjs=True)


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
