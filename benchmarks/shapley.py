"""What a unit buys: the error of Shapley values by several methods, at equal numbers of passes through the model.

The model is e5-small-pos, the game the probability of the gold labels, the players its 144 heads, the estimand the full
Shapley value, which all of the methods can estimate. The truth is the mean of runs of stars with several seeds, to the
largest budget, and of what `--truth` has of earlier ones; each of these runs is itself compared with all the others.
`--save-truth` puts it into a table. The truth's own squared error is taken off everybody's. A method that spent a
little more or less than asked is compared at the same units by its error times its units, as the error of an average
falls. All methods are tried with `--budgets`: peers value coalitions in several ways within the first, and go on with
what was best for them. `--long` budgets are for our own methods and for the best of the peers, `--longest` ones for
stars, permutation, tmab and the best of the peers. Where a permutation of tmab's whole sample does not fit into any of
them, it gets the units for two. With `--out` every round is kept, and the same command goes on, with larger budgets and
more seeds too.

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

#: Of all methods but stars.
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
#: What stars is compared with.
METHODS = ("gradient-screen", "permutation", "tmab", "captum", "shapiq")
#: Ways to value a coalition: the best of them counts.
WAYS: dict[str, dict[str, Any]] = {
    "a new example each": {"examples_per_coalition": 1, "fresh": True},
    "8 examples": {"examples_per_coalition": 8},
    "an example at a time": {"examples_per_coalition": 1},
}
#: An estimate for each example, and the mean of these: how explanations of inputs are mostly averaged.
ONE_BY_ONE = "an example at a time"
#: Permutations' worth of coalitions that such an estimate takes: a regression wants more than one.
WALKS = {"captum": 1, "shapiq PermutationSamplingSV": 1}


@dataclass(frozen=True)
class Plan:
    """What to compare with stars.

    Attributes:
        methods: Names of the methods; their variants begin with them.
        budgets: Units that all of them are tried with.
        long: Units for our own ones and the best peer.
        longest: Units for those that go on improving.
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
    """What a method knew when a budget was spent."""

    scores: HeadScores
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one language, few methods and units: under 2 minutes")
    parser.add_argument("--data", default="phrasebook")
    parser.add_argument("--languages", default="zh,tr")
    parser.add_argument("--methods", default=",".join(METHODS), help="what to compare stars with")
    parser.add_argument("--budgets", default="5000,20000", help="units that all methods are tried with")
    parser.add_argument("--long", default="60000", help="units for our own methods and the best of the peers")
    parser.add_argument("--longest", default="200000", help="units for stars, permutation, tmab and the best peer")
    parser.add_argument("--seeds", default="1,2,3", help="seeds of stars: at least two, or new ones with --truth")
    parser.add_argument("--truth", type=Path, help="what this table has of earlier runs counts as true too")
    parser.add_argument("--save-truth", type=Path, help="add the true values to this table")
    parser.add_argument("--bfloat16", action="store_true", help="all methods value coalitions in bfloat16")
    parser.add_argument("--out", type=Path, help="keep what is measured in this run folder, and go on from there")
    parser.add_argument("--plot", type=Path, help="write a plot to this HTML file")
    options = parser.parse_args()
    if options.quick:
        options.languages, options.methods = "zh", "gradient-screen,permutation,captum"
        options.budgets, options.long, options.longest = "2000", "", ""
        options.truth, options.seeds, options.bfloat16 = KNOWN, "99", True
    if options.save_truth and (options.quick or options.save_truth == options.truth):
        raise SystemExit(
            "--save-truth: not with --quick, nor into the table of --truth: the same command could not go on"
        )
    if unknown := set(options.methods.split(",")) - set(METHODS):
        raise SystemExit(f"--methods: there is no {sorted(unknown)[0]!r}: choose from {', '.join(METHODS)}")
    budgets, long, longest = (numbers(each) for each in (options.budgets, options.long, options.longest))
    if not budgets:
        raise SystemExit("--budgets: at least one number of units, with commas between several")
    plan = Plan(tuple(options.methods.split(",")), budgets, long, longest, numbers(options.seeds, int))
    if len(set(plan.seeds) - {SEED}) < max(1 if options.truth else 2, len(plan.seeds)):
        raise SystemExit(f"--seeds takes different ones, two without --truth, and never {SEED}, that of other methods")
    entries: dict[str, list[Entry]] = {}
    found: dict[str, tuple[Problem, Truth]] = {}
    config = {"seed": SEED, "data": options.data, "bfloat16": options.bfloat16}
    with tempfile.TemporaryDirectory() as draft, open_run(options.out or draft, config) as run:
        for language in options.languages.split(","):
            problem = make_problem(options.data, language, options.bfloat16)
            known = [load_truth(options.truth, problem)] if options.truth else []
            if known and set(known[0].seeds) & set(plan.seeds):
                raise SystemExit(f"--seeds: {options.truth} has runs with the seeds {known[0].seeds}: take others")
            truth, entries[language] = compare(problem, plan, run.journal, known)
            found[language] = problem, truth
            show(language, problem, truth, entries[language])
    for problem, truth in found.values() if options.save_truth else ():
        add_truth(options.save_truth, problem, truth)
    if options.plot is not None:
        draw_plot(entries, options.plot)
    print(json.dumps(summary(entries)))


def numbers(text: str, kind: Callable[[str], Any] = float) -> list[Any]:
    """The numbers of a list with commas."""
    return [kind(each) for each in text.split(",") if each]


def make_problem(data: str, language: str, bfloat16: bool = False) -> Problem:
    """The heads of e5-small-pos on the dev half of a language."""
    model, tokenizer = load_model("e5-small-pos"), load_tokenizer("e5-small-pos")
    heads = find_heads(model)
    sentences = open_dataset(data, "pos").examples(language, "dev")
    examples = encode_examples(find_task("pos"), sentences, tokenizer)
    name, settings = fingerprint_examples(sentences, examples.encoded), EngineSettings(bfloat16=bfloat16)
    return Problem(model, heads, examples, players_of(heads), ProbabilityGame(), Estimand(), language, name, settings)


def compare(problem: Problem, plan: Plan, journal: Journal, known: list[Truth]) -> tuple[Truth, list[Entry]]:
    """The truth, and every method within every budget that it is tried with."""
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

    tmab = find_method("tmab")  # as in the paper, every coalition on up to 512 examples
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
    """Every peer in every way within the first budget, its best way in others, the best peer in all of them."""
    first, *further = plan.budgets
    best: dict[str, tuple[str, Entry]] = {}  # of every peer, its best way
    for peer in plan.peers:
        tried = {way: note(f"{peer}, {way}", make_peer(peer, way, problem, first), [first]) for way in WAYS}
        best[peer] = min(tried.items(), key=lambda each: each[1].per_unit)
    winner = min(best, key=lambda peer: best[peer][1].per_unit)
    for peer, (way, entry) in best.items():
        going = further + (plan.long + plan.longest if peer == winner else [])
        if way == ONE_BY_ONE:
            note(f"{peer}, {way}", make_peer(peer, way, problem, first), going)
            continue
        # Peers plan for whole passes, but the engine shares work between coalitions.
        stretch = entry.budget / entry.units
        for budget in going:
            note(f"{peer}, {way}", make_peer(peer, way, problem, stretch * budget), [budget], stretch)


def make_peer(peer: str, way: str, problem: Problem, units: float) -> Method:
    """A peer that values coalitions in one of the ways; one that can go on does not plan with the units."""
    if way != ONE_BY_ONE:
        return PEERS[peer](units=units, **WAYS[way])
    coalitions = WALKS.get(peer, 2) * (len(problem.players) + 1)
    return PEERS[peer](units=math.inf, coalitions=coalitions, **WAYS[way])


def watch(method: Method, problem: Problem, seed: int, budgets: Sequence[float], journal: Journal) -> list[Look]:
    """One run of a method, looked at when each budget is spent; its rounds are kept."""
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
    """The mean squared error of scores, and the share of right signs where the truth is clear."""
    values = look.scores.values()
    error = float(np.mean((values - truth.values) ** 2 - truth.stderr**2))
    signs = sign_agreement(values, truth.values, clear(truth.values, truth.stderr)).share
    expected = float(np.mean(np.square(look.scores.stderr)))
    entry = Entry(name, budget, look.scores.provenance.units, look.seconds, error, expected, signs)
    print(f"{entry}", flush=True)
    return entry


def mean_entry(budget: float, seeds: Sequence[Sequence[Look]], place: int, known: list[Truth]) -> Entry:
    """What stars comes to on average, every seed compared with what is known and with the last looks of the others."""
    last, entries = [truth_of(looks[-1].scores) for looks in seeds], []
    for own, looks in enumerate(seeds):
        truth = pooled([*known, *last[:own], *last[own + 1 :]])
        entries.append(entry_of("stars", budget, looks[place], truth))
    measured = [part.name for part in fields(Entry)][2:]
    return Entry("stars", budget, *(float(np.mean([getattr(each, name) for each in entries])) for name in measured))


def show_stability(budgets: Sequence[float], seeds: Sequence[Sequence[Look]]) -> None:
    """Whether stars finds the same heads harmful with every seed, if there are several."""
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
    """The budgets, and one more for two permutations where not even one is within them."""
    return [*budgets, 2 * walk] if budgets and walk > max(budgets) else budgets


def tmab_cost(problem: Problem, truth: Truth, scores: HeadScores) -> str:
    """What tmab would cost to the end: from its own variances, the true values and its bound, not measured."""
    variance = np.array(scores.stderr) ** 2 * np.array(scores.count)  # of a single observation
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


def show(language: str, problem: Problem, truth: Truth, entries: Sequence[Entry]) -> None:
    """What was found of a language."""
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
