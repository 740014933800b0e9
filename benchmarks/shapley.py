"""Error of Shapley values by several methods, at equal numbers of passes through the model.

The model is e5-small-pos, the game is the probability of the gold labels, the players are its 144 heads, and the
estimand is the full Shapley value, which all methods can estimate.

- Truth: the mean of runs of stars with several seeds at the largest budget, and of the earlier runs in `--truth`. Each
  run of stars is compared with the mean of all others. The squared error of the truth is subtracted from all errors.
  `--save-truth` writes the truth into a table.
- Comparison: methods that spend slightly different numbers of units are compared by squared error times units, because
  the squared error of an average is proportional to 1/units.
- Budgets: all methods run with `--budgets`. Peers value coalitions in several ways at the first budget, and in their
  best way at the others. `--long` budgets are for our own methods and the best peer, `--longest` budgets for stars,
  permutation, tmab and the best peer. If no budget covers one permutation of tmab, tmab gets the units for two.
- `--out` stores every round, so that the same command resumes, also with larger budgets and more seeds.

    python -m benchmarks.shapley [--quick] [--data phrasebook|FOLDER] [--languages zh,tr] [--methods tmab,captum]
        [--budgets 5000,20000] [--long 60000] [--longest 200000] [--seeds 1,2,3] [--truth FILE] [--save-truth FILE]
        [--bfloat16] [--out RUN] [--plot FILE]
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.entries import Entry, draw_plot, show_table, summary
from benchmarks.truths import Truth, add_truth, load_truth, pooled, truth_of
from headwise import HeadScores, HeadwiseError, find_heads
from headwise.data.catalog import open_dataset
from headwise.engine import EngineSettings, encode_examples, players_of
from headwise.games import ProbabilityGame
from headwise.methods import Estimand, Method, Problem, find_method
from headwise.methods.peers import Captum, Shapiq
from headwise.methods.tmab import Tmab
from headwise.models import load_model, load_tokenizer
from headwise.runs import Journal, open_run
from headwise.scores import stability
from headwise.scoring import fingerprint_examples
from headwise.stats import clear, sign_agreement
from headwise.tasks import find_task

#: Seed of all methods except stars.
SEED = 0
#: True values that come with headwise.
KNOWN = Path(__file__).parents[1] / "docs/results/shapley_truth.csv"
PEERS: dict[str, Callable[..., Method]] = {
    "captum": Captum,
    "shapiq PermutationSamplingSV": partial(Shapiq, approximator="PermutationSamplingSV"),
    "shapiq KernelSHAP": partial(Shapiq, approximator="KernelSHAP"),
    "shapiq UnbiasedKernelSHAP": partial(Shapiq, approximator="UnbiasedKernelSHAP"),
    "shapiq SVARM": partial(Shapiq, approximator="SVARM"),
}
#: The methods that stars is compared with.
METHODS = ("gradient-screen", "permutation", "tmab", "captum", "shapiq")
#: Ways to value a coalition; the best one of each peer is used.
WAYS: dict[str, dict[str, Any]] = {
    "a new example each": {"examples_per_coalition": 1, "fresh": True},
    "8 examples": {"examples_per_coalition": 8},
    "an example at a time": {"examples_per_coalition": 1},
}
#: One estimate per example, then the mean over examples, which is the usual way to average explanations.
ONE_BY_ONE = "an example at a time"
#: Number of coalitions of such an estimate, in permutations; others need two, because a regression needs more.
WALKS = {"captum": 1, "shapiq PermutationSamplingSV": 1}


@dataclass(frozen=True)
class Plan:
    """The methods and budgets of the comparison.

    Attributes:
        methods: Names of the methods; names of variants start with them.
        budgets: Units for all methods.
        long: Units for our own methods and the best peer.
        longest: Units for stars, permutation, tmab and the best peer.
        seeds: Seeds of stars.
    """

    methods: tuple[str, ...]
    budgets: list[float]
    long: list[float]
    longest: list[float]
    seeds: list[int]

    @property
    def peers(self) -> list[str]:
        """The names of the peers among the methods."""
        return [peer for peer in PEERS if peer.startswith(self.methods)]


@dataclass(frozen=True)
class Look:
    """The scores of a method when a budget is spent."""

    scores: HeadScores
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, few methods and units: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods to compare stars with")
    parser.add_argument("--budgets", default="5000,20000", help="units for all methods")
    parser.add_argument("--long", default="60000", help="units for our own methods and the best peer")
    parser.add_argument("--longest", default="200000", help="units for stars, permutation, tmab and the best peer")
    parser.add_argument("--seeds", default="1,2,3", help="seeds of stars: at least two, or new ones with --truth")
    parser.add_argument(
        "--truth", type=Path, help="table with true values of earlier runs, which are added to the truth"
    )
    parser.add_argument("--save-truth", type=Path, help="add the true values to this table")
    parser.add_argument("--bfloat16", action="store_true", help="all methods value coalitions in bfloat16")
    parser.add_argument("--out", type=Path, help="run folder that stores the rounds, so that the same command resumes")
    parser.add_argument("--plot", type=Path, help="write a plot to this HTML file")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.methods = "zh", "gradient-screen,permutation,captum"
        options.budgets, options.long, options.longest = "2000", "", ""
        options.truth, options.seeds, options.bfloat16 = KNOWN, "99", True
    if options.save_truth and (options.quick or options.save_truth == options.truth):
        raise SystemExit(
            "--save-truth: cannot be used with --quick or the table of --truth, since the command could not be resumed"
        )
    if unknown := set(options.methods.split(",")) - set(METHODS):
        raise SystemExit(f"--methods: there is no {sorted(unknown)[0]!r}: choose from {', '.join(METHODS)}")
    budgets, long, longest = (numbers(each) for each in (options.budgets, options.long, options.longest))
    if not budgets:
        raise SystemExit("--budgets: give at least one number of units, separated by commas")
    plan = Plan(tuple(options.methods.split(",")), budgets, long, longest, numbers(options.seeds, int))
    if len(set(plan.seeds) - {SEED}) < max(1 if options.truth else 2, len(plan.seeds)):
        raise SystemExit(
            f"--seeds: give different seeds, at least two without --truth, but not {SEED}, the seed of other methods"
        )
    entries: dict[str, list[Entry]] = {}
    found: dict[str, tuple[Problem, Truth]] = {}
    config = {"seed": SEED, "data": options.data, "bfloat16": options.bfloat16}
    with tempfile.TemporaryDirectory() as draft, open_run(options.out or draft, config) as run:
        for language in options.languages.split(","):
            problem = make_problem(options.data, language, options.bfloat16)
            known = [load_truth(options.truth, problem)] if options.truth else []
            if known and set(known[0].seeds) & set(plan.seeds):
                raise SystemExit(f"--seeds: {options.truth} has runs with the seeds {known[0].seeds}: give other seeds")
            truth, entries[language] = compare(problem, plan, run.journal, known)
            found[language] = problem, truth
            show(language, problem, truth, entries[language])
    for problem, truth in found.values() if options.save_truth else ():
        add_truth(options.save_truth, problem, truth)
    if options.plot is not None:
        draw_plot(entries, options.plot)
    print(json.dumps(summary(entries)))


def numbers(text: str, kind: Callable[[str], Any] = float) -> list[Any]:
    """Parse a comma-separated list of numbers."""
    return [kind(each) for each in text.split(",") if each]


def make_problem(data: str, language: str, bfloat16: bool = False) -> Problem:
    """The problem of the heads of e5-small-pos on the dev split of a language."""
    model, tokenizer = load_model("e5-small-pos"), load_tokenizer("e5-small-pos")
    heads = find_heads(model)
    sentences = open_dataset(data, "pos").examples(language, "dev")
    examples = encode_examples(find_task("pos"), sentences, tokenizer)
    name, settings = fingerprint_examples(sentences, examples.encoded), EngineSettings(bfloat16=bfloat16)
    return Problem(model, heads, examples, players_of(heads), ProbabilityGame(), Estimand(), language, name, settings)


def compare(problem: Problem, plan: Plan, journal: Journal, known: list[Truth]) -> tuple[Truth, list[Entry]]:
    """The truth, and the results of every method at every one of its budgets."""
    own, every = plan.budgets + plan.long, plan.budgets + plan.long + plan.longest
    seeds = [watch(find_method("stars"), problem, seed, every, journal) for seed in plan.seeds]
    found = [mean_entry(budget, seeds, place, known) for place, budget in enumerate(every)]
    show_stability(every, seeds)
    truth = pooled([*known, *(truth_of(looks[-1].scores) for looks in seeds)])

    def note(name: str, method: Method, chosen: Sequence[float], stretch: float = 1.0) -> Entry:
        looks = watch(method, problem, SEED, [stretch * budget for budget in chosen], journal)
        found.extend(entry_of(name, budget, look, truth) for budget, look in zip(chosen, looks, strict=True))
        if name == "tmab":
            print(tmab_cost(problem, truth, looks[-1].scores), flush=True)
        return found[-1]

    tmab = find_method("tmab")  # as in the paper: every coalition is valued on at most 512 examples
    walked = plan.budgets + with_two_walks(plan.long + plan.longest, tmab.start(problem, SEED).next_units)
    ours = {
        "gradient-screen": (find_method("gradient-screen"), own),
        "permutation": (find_method("permutation"), every),
        "tmab": (tmab, walked),
        "tmab, 32 examples": (find_method("tmab", sample=32), plan.budgets),
    }
    for name, (method, budgets) in ours.items():
        if name.startswith(plan.methods):
            note(name, method, budgets)
    if plan.peers:
        compare_peers(problem, plan, note)
    return truth, found


def compare_peers(problem: Problem, plan: Plan, note: Callable[..., Entry]) -> None:
    """Run every peer in every way at the first budget, then in its best way; only the best peer at long budgets."""
    first, *further = plan.budgets
    best: dict[str, tuple[str, Entry]] = {}  # the best way of every peer
    for peer in plan.peers:
        tried = {way: note(f"{peer}, {way}", make_peer(peer, way, problem, first), [first]) for way in WAYS}
        best[peer] = min(tried.items(), key=lambda each: each[1].per_unit)
    winner = min(best, key=lambda peer: best[peer][1].per_unit)
    for peer, (way, entry) in best.items():
        going = further + (plan.long + plan.longest if peer == winner else [])
        if way == ONE_BY_ONE:
            note(f"{peer}, {way}", make_peer(peer, way, problem, first), going)
            continue
        # Peers count whole passes, but the engine shares work between coalitions, so they may plan for more units.
        stretch = entry.budget / entry.units
        for budget in going:
            note(f"{peer}, {way}", make_peer(peer, way, problem, stretch * budget), [budget], stretch)


def make_peer(peer: str, way: str, problem: Problem, units: float) -> Method:
    """A peer with one way to value coalitions; with `ONE_BY_ONE` it does not need to know its units in advance."""
    if way != ONE_BY_ONE:
        return PEERS[peer](units=units, **WAYS[way])
    coalitions = WALKS.get(peer, 2) * (len(problem.players) + 1)
    return PEERS[peer](units=math.inf, coalitions=coalitions, **WAYS[way])


def watch(method: Method, problem: Problem, seed: int, budgets: Sequence[float], journal: Journal) -> list[Look]:
    """Run a method and return its scores at each budget; its rounds are stored."""
    stream = f"{problem.language} {method} version {method.version} seed {seed}"
    kept, rounds, looks = list(journal.rounds(stream)), method.start(problem, seed), []
    units, seconds, number, drawn = 0.0, 0.0, 0, 0
    for budget in budgets:
        while not rounds.done and units + rounds.next_units <= budget:
            if number < len(kept):
                arrays, count = kept[number].arrays, kept[number].draws
            else:
                start = time.monotonic()
                arrays, count = rounds.draw(drawn)
                arrays = {**arrays, "seconds": np.array(time.monotonic() - start)}
                journal.record(stream, number, arrays, drawn, count)
            rounds.absorb(arrays)
            units, seconds = units + float(arrays["units"]), seconds + float(arrays["seconds"])
            number, drawn = number + 1, drawn + count
        looks.append(Look(rounds.scores(units, seed), seconds))
        print(f"{stream}: {units:,.0f} units, {seconds:,.0f} seconds", flush=True)
    return looks


def entry_of(name: str, budget: float, look: Look, truth: Truth) -> Entry:
    """The mean squared error of scores, and the share of correct signs among clear true values."""
    values = look.scores.values()
    error = float(np.mean((values - truth.values) ** 2 - truth.stderr**2))
    signs = sign_agreement(values, truth.values, clear(truth.values, truth.stderr)).share
    expected = float(np.mean(np.square(look.scores.stderr)))
    entry = Entry(name, budget, look.scores.provenance.units, look.seconds, error, expected, signs)
    print(f"{entry}", flush=True)
    return entry


def mean_entry(budget: float, seeds: Sequence[Sequence[Look]], place: int, known: list[Truth]) -> Entry:
    """The mean result of stars over seeds; each seed is compared with the known truth and the other seeds."""
    last, entries = [truth_of(looks[-1].scores) for looks in seeds], []
    for own, looks in enumerate(seeds):
        truth = pooled([*known, *last[:own], *last[own + 1 :]])
        entries.append(entry_of("stars", budget, looks[place], truth))
    measured = [part.name for part in fields(Entry)][2:]
    return Entry("stars", budget, *(float(np.mean([getattr(each, name) for each in entries])) for name in measured))


def show_stability(budgets: Sequence[float], seeds: Sequence[Sequence[Look]]) -> None:
    """Print how far several seeds of stars agree on the harmful heads."""
    for place, budget in enumerate(budgets if len(seeds) > 1 else ()):
        scores = [looks[place].scores for looks in seeds]
        agreement, each = stability(scores), [len(run.decided("harmful")) for run in scores]
        undecided = [len(run.decided("undecided")) for run in scores]
        print(
            f"harmful at {budget:,.0f} units, by seed: {each}, by all {len(agreement.harmful)}, "
            f"Jaccard {agreement.jaccard:.2f}, undecided {undecided}",
            flush=True,
        )


def with_two_walks(budgets: list[float], walk: float) -> list[float]:
    """The budgets, and one more for two permutations if none of them covers one."""
    return [*budgets, 2 * walk] if budgets and walk > max(budgets) else budgets


def tmab_cost(problem: Problem, truth: Truth, scores: HeadScores) -> str:
    """The cost of running tmab to the end, extrapolated from its variances, the true values and its bound."""
    variance = np.array(scores.stderr) ** 2 * np.array(scores.count)  # of a single observation
    known = np.isfinite(variance)
    if not known.any():
        return "tmab to the end: unknown, since the variances need at least two permutations"
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


def show(language: str, problem: Problem, truth: Truth, entries: Sequence[Entry]) -> None:
    """Print the results of a language."""
    values, errors = truth.values, truth.stderr
    print(
        f"\n{language}: {len(problem.examples)} sentences, truth by stars, {truth.units:,.0f} units: ",
        end="",
    )
    print(f"values of mean square {np.mean(values**2):.2e}, standard errors {np.mean(errors**2):.1e} squared, ", end="")
    print(f"{int(clear(values, errors).sum())} of 144 clear, {int((values < 0).sum())} negative")
    show_table(entries)


if __name__ == "__main__":
    try:
        main()
    except HeadwiseError as error:
        raise SystemExit(str(error)) from None
