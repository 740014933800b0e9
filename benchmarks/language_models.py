"""Speed and memory of the engine on a causal language model, compared with loops and with lm-evaluation-harness.

SmolLM2-135M answers two kinds of requests under one mask of heads: log-likelihoods of single continuations given
prompts, and multiple choice with four continuations of each prompt. Calls are interleaved:

- (a) a plain loop: batches of 8 sequences in their order, padded to the longest, logits of all tokens;
- (b) `HFLM` of lm-evaluation-harness on the same requests, batches of 8, sorted by length as it does itself;
- (c) the engine, tokenization included, as in (b).

All three must give the same answers: log-likelihoods of continuations, and log-probabilities of the right choices. The
ratios to (a) and (b) are those of the time for all requests; `_single` and `_choice` are those of one kind, and
`flops_ratio` is that of the counted operations, which the ratio of times can hardly exceed. Single
continuations cost the same operations everywhere, except for the output layer; choices share their prompt in (c) only.

Then base coalitions with single flips are counted (`star_flip_units`: units of a flip) and timed. The peak of resident
memory above the memory before is measured by the kernel in one new process per call. The requests are made of the
halves of FLORES sentences, or of those of the phrasebook without the data folder; wrong choices are second halves of
other sentences of the language. Times are those of the processor, so that other processes count less.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import count_flops, interleave, median_ratio
from headwise import HeadMap, HeadMask, find_heads, gated
from headwise.data.answer_language import answer_language, prompts_of
from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.data.examples import ChoiceExample, PromptExample, TextExample, WordExample
from headwise.data.folders import default_folder
from headwise.engine import EngineSettings, ExampleSet, LocalEngine, encode_examples
from headwise.games import LikelihoodGame, SequenceLikelihoodGame
from headwise.models import load_model, load_tokenizer
from headwise.models.harness import harness_model
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.encoding import pad_id_of

MODEL = "smollm2-135m"
BATCH = 8
CHOICES = 4
LANGUAGES = ("en", "fr", "de", "es")
KINDS = ("single", "choice")


@dataclass(frozen=True)
class World:
    """The model, its requests and one mask."""

    model: Any
    tokenizer: Any
    heads: HeadMap
    requests: Mapping[str, Sequence[PromptExample | ChoiceExample]]
    mask: HeadMask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds: under 2 minutes")
    parser.add_argument("--peak", choices=("plain loop", "engine"), help="only print the peak memory of one call")
    arguments = parser.parse_args()
    quick = arguments.quick
    world = make_world(3 if quick else 12)
    if arguments.peak is not None:
        print(peak_memory(world, loop if arguments.peak == "plain loop" else run_engine))
        return
    figures = speed(world, rounds=1 if quick else 3)
    figures |= flips(world, bases=1 if quick else 3, each=6 if quick else 18)
    figures |= memory(quick)
    print(json.dumps(figures))


def make_world(count: int) -> World:
    """The model with some requests of both kinds in every language."""
    model, tokenizer = load_model(MODEL), load_tokenizer(MODEL)
    heads, data = find_heads(model), answer_language(texts())
    single: list[PromptExample] = []
    choice: list[ChoiceExample] = []
    for code in LANGUAGES:
        found = prompts_of(data.examples(f"{code}-{'en' if code != 'en' else 'fr'}", "test")[: 2 * count])
        single += found[:count]
        choice += [with_choices(found, place) for place in range(count, 2 * count)]
    off = np.random.default_rng(1).choice(heads.players(), len(heads.players()) // 4, replace=False)
    mask = HeadMask.without(heads, list(map(str, off)))
    world = World(model, tokenizer, heads, {"single": tuple(single), "choice": tuple(choice)}, mask)
    for kind in KINDS:
        sequences = encoded(world, kind).sequences
        tokens = sequences.lengths.mean()
        print(f"{MODEL}: {len(single)} requests ({kind}), {len(sequences)} sequences of {tokens:.0f} tokens")
    return world


def with_choices(found: Sequence[PromptExample], place: int) -> ChoiceExample:
    """A prompt with its continuation and those of the next prompts, the right one at a changing place."""
    wrong = [found[(place + step) % len(found)].continuation for step in range(1, CHOICES)]
    answer = place % CHOICES
    choices = (*wrong[:answer], found[place].continuation, *wrong[answer:])
    return ChoiceExample(found[place].id, found[place].prompt, choices, answer, found[place].separator)


def encoded(world: World, kind: str) -> ExampleSet:
    """The requests of a kind in tokens."""
    task = ContinuationTask() if kind == "single" else MultipleChoice()
    return encode_examples(task, world.requests[kind], world.tokenizer)


def texts() -> Dataset:
    """FLORES, or the sentences of the phrasebook as texts."""
    folder = default_folder()
    if folder is not None:
        return open_dataset(folder, "lm")
    words = open_dataset("phrasebook", "pos")

    def load(language: str, split: str) -> tuple[TextExample, ...]:
        found = [each for each in words.examples(language, split) if isinstance(each, WordExample)]
        return tuple(TextExample(each.id, " ".join(each.words)) for each in found)

    return Dataset("phrasebook", words.languages, words.splits, load, variants=words.variants)


def speed(world: World, rounds: int) -> dict[str, Any]:
    """Requests per second of the loop, of the harness and of the engine, under one mask."""
    ways: dict[str, Callable[[World, str], list[float]]] = {"plain loop": loop, "engine": run_engine}
    if find_spec("lm_eval") is not None:
        ways["lm-eval"] = run_harness
    else:
        print("lm-eval is not installed, so it is not compared: pip install 'headwise[lm-eval]'")
    answers: dict[str, list[float]] = {}

    def call(way: str, kind: str) -> None:
        answers[f"{way} {kind}"] = ways[way](world, kind)

    seconds = interleave(
        {f"{way} {kind}": partial(call, way, kind) for way in ways for kind in KINDS}, rounds, time.process_time
    )
    for name, values in answers.items():
        off = float(np.abs(np.subtract(values, answers[f"plain loop {name.split()[-1]}"])).max())
        if off > 1e-2:
            raise SystemExit(f"{name} differs from the plain loop by {off:.4f} nats")
    for way in ways:
        both = [sum(pair) for pair in zip(*(seconds[f"{way} {kind}"] for kind in KINDS), strict=True)]
        seconds[f"{way} all"] = both
    return ratios(world, ways, seconds) | operations(world, ways)


def operations(world: World, ways: Mapping[str, Callable[[World, str], list[float]]]) -> dict[str, float]:
    """Counted operations of the loop and of the harness divided by the engine's: what sharing can save at most."""
    flops = {way: sum(count_flops(partial(call, world, kind)) for kind in KINDS) for way, call in ways.items()}
    figures = {}
    for way in (name for name in ways if name != "engine"):
        ratio = flops[way] / flops["engine"]
        print(f"{way} counts {ratio:.2f} times the engine's operations")
        figures[f"flops_ratio_to_{way.replace('-', '_').replace(' ', '_')}"] = round(ratio, 2)
    return figures


def ratios(world: World, ways: Iterable[str], seconds: Mapping[str, list[float]]) -> dict[str, Any]:
    """The times of the loop and of the harness divided by those of the engine, for all requests and for each kind."""
    figures: dict[str, Any] = {}
    for kind in ("all", *KINDS):
        count = sum(map(len, world.requests.values())) if kind == "all" else len(world.requests[kind])
        for way in ways:
            each = seconds[f"{way} {kind}"]
            ratio = median_ratio(each, seconds[f"engine {kind}"])
            print(f"{kind:>8} {way:>12} {count / np.median(each):8.2f} requests/s, {ratio:.2f} times the engine's time")
            if way != "engine":
                suffix = "" if kind == "all" else f"_{kind}"
                figures[f"ratio_to_{way.replace('-', '_').replace(' ', '_')}{suffix}"] = round(ratio, 2)
    every = sum(map(len, world.requests.values()))
    return figures | {"requests_per_second": round(every / float(np.median(seconds["engine all"])), 2)}


@torch.inference_mode()
def loop(world: World, kind: str) -> list[float]:
    """The answers by batches in order, padded to the longest, with the logits of all tokens."""
    found, pad = [], pad_id_of(world.tokenizer)
    sequences = encoded(world, kind).sequences.encoded
    with gated(world.model, world.mask, heads=world.heads):
        for start in range(0, len(sequences), BATCH):
            chosen = sequences[start : start + BATCH]
            longest = max(len(each.ids) for each in chosen)
            ids = torch.tensor([[*each.ids, *[pad] * (longest - len(each.ids))] for each in chosen])
            mask = torch.tensor([[1] * len(each.ids) + [0] * (longest - len(each.ids)) for each in chosen])
            logs = world.model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float().log_softmax(-1)
            for row, each in enumerate(chosen):
                found.append(float(logs[row, list(each.positions), list(each.gold)].sum()))
    return answers_of(world, kind, found)


def answers_of(world: World, kind: str, likelihoods: list[float]) -> list[float]:
    """The log-likelihood of each continuation, or the log-probability of each right choice among the choices."""
    if kind == "single":
        return likelihoods
    right = [each.answer for each in world.requests[kind] if isinstance(each, ChoiceExample)]
    logs = torch.tensor(likelihoods).reshape(-1, CHOICES).log_softmax(-1)
    return [float(row[place]) for row, place in zip(logs, right, strict=True)]


def run_engine(world: World, kind: str) -> list[float]:
    """The answers by the engine."""
    game = SequenceLikelihoodGame() if kind == "single" else LikelihoodGame()
    examples = encoded(world, kind)
    engine = LocalEngine(world.model, world.heads, game, examples)
    gates = np.repeat(world.mask.tensor().bool().numpy()[None], len(examples), axis=0)
    return [float(each) for each in engine.values(gates, np.arange(len(examples))).values]


def run_harness(world: World, kind: str) -> list[float]:
    """The answers by lm-evaluation-harness."""
    from lm_eval.api.instance import Instance  # type: ignore[import-untyped, unused-ignore]

    model = harness_model(world.model, world.tokenizer, world.mask, batch_size=BATCH)
    pairs = [
        pair
        for each in world.requests[kind]
        for pair in (each.pairs if isinstance(each, ChoiceExample) else (each.pair,))
    ]
    asked = [Instance("loglikelihood", {}, pair, place) for place, pair in enumerate(pairs)]
    return answers_of(world, kind, [float(value) for value, _ in model.loglikelihood(asked, disable_tqdm=True)])


def flips(world: World, bases: int, each: int) -> dict[str, float]:
    """Base coalitions with single flips of heads that are spread over all layers: units and time of a flip."""
    count = len(world.heads.players())
    draw = np.random.default_rng(2)
    on, index = draw.random((bases, count)) < 0.75, np.arange(bases)
    players = np.linspace(0, count - 1, bases * each).round().astype(np.int64)
    players = draw.permutation(players).reshape(bases, each)
    seconds, units, examples = {}, 0.0, encoded(world, "single")
    for name, reuse in (("shared", True), ("plain", False)):
        settings = EngineSettings(reuse_prefixes=reuse)
        engine = LocalEngine(world.model, world.heads, SequenceLikelihoodGame(), examples, settings=settings)
        start = time.perf_counter()
        cost = engine.flips(on, index, players).cost
        seconds[name] = time.perf_counter() - start
        units = (cost.units - bases) / players.size if reuse else units
    faster = seconds["plain"] / seconds["shared"]
    print(f"{bases} bases with {each} flips: {units:.3f} units per flip, {faster:.2f} times the speed without sharing")
    return {
        "star_flip_units": round(units, 3),
        "flips_ratio_to_no_sharing": round(faster, 2),
    }


def memory(quick: bool) -> dict[str, float]:
    """Peak memory of the loop and of the engine above the memory before, in MB, and their ratio (Linux)."""
    peaks = {}
    for way in ("plain loop", "engine"):
        command = [sys.executable, "-m", "benchmarks.language_models", "--peak", way, *(["--quick"] if quick else [])]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        peaks[way] = float(printed.split()[-1])
    print(f"peak memory above the model: plain loop {peaks['plain loop']:.0f} MB, engine {peaks['engine']:.0f} MB")
    return {
        "memory_ratio": round(peaks["engine"] / peaks["plain loop"], 2),
        "engine_peak_mb": round(peaks["engine"]),
    }


def peak_memory(world: World, answer: Callable[[World, str], object]) -> float:
    """The largest resident memory while all requests are answered, minus that before it, in MB, from the kernel."""
    with torch.inference_mode():  # weights are read from the file when they are used first
        world.model(input_ids=torch.tensor([[1]]), use_cache=False)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes the present memory
    before = resident("VmRSS")
    for kind in KINDS:
        answer(world, kind)
    return resident("VmHWM") - before


def resident(name: str) -> float:
    """A line of this process's status, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
