"""Speed and memory of the engine on a causal language model, compared with loops and with lm-evaluation-harness.

SmolLM2-135M computes the log-likelihood of continuations given prompts, under one mask of heads. Calls are interleaved:

- (a) a plain loop: batches of 8 requests in their order, padded to the longest, logits of all tokens;
- (b) `HFLM` of lm-evaluation-harness on the same requests, batches of 8, sorted by length as it does itself;
- (c) the engine.

All three must give the same log-likelihoods. Then base coalitions with single flips are counted (`star_flip_units`:
units of a flip) and timed, and peak memory above the memory before each call is compared. The requests are the halves
of FLORES sentences, or those of the phrasebook without the data folder.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import interleave, median_ratio
from headwise import HeadMap, HeadMask, find_heads, gated
from headwise.data.answer_language import answer_language, prompts_of
from headwise.data.catalog import open_dataset
from headwise.data.dataset import Dataset
from headwise.data.examples import PromptExample, TextExample, WordExample
from headwise.data.folders import default_folder
from headwise.engine import EngineSettings, ExampleSet, LocalEngine, encode_examples
from headwise.games import SequenceLikelihoodGame
from headwise.models import load_model, load_tokenizer
from headwise.models.harness import harness_model
from headwise.tasks.continuation import ContinuationTask
from headwise.tasks.encoding import pad_id_of

MODEL = "smollm2-135m"
BATCH = 8
LANGUAGES = ("en", "fr", "de", "es")


@dataclass(frozen=True)
class World:
    """The model, its requests and one mask."""

    model: Any
    tokenizer: Any
    heads: HeadMap
    requests: tuple[PromptExample, ...]
    examples: ExampleSet
    mask: HeadMask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer requests and rounds: under 2 minutes")
    quick = parser.parse_args().quick
    world = make_world(4 if quick else 12)
    figures = likelihoods(world, rounds=1 if quick else 3)
    figures |= flips(world, bases=1 if quick else 3, each=6 if quick else 18)
    figures |= memory(world)
    print(json.dumps(figures))


def make_world(count: int) -> World:
    """The model with some requests of every language."""
    model, tokenizer = load_model(MODEL), load_tokenizer(MODEL)
    heads = find_heads(model)
    data = answer_language(texts())
    requests = [
        each
        for code in LANGUAGES
        for each in prompts_of(data.examples(f"{code}-{'en' if code != 'en' else 'fr'}", "test")[:count])
    ]
    off = np.random.default_rng(1).choice(heads.players(), len(heads.players()) // 4, replace=False)
    examples = encode_examples(ContinuationTask(), requests, tokenizer)
    gold = np.mean([len(each.gold) for each in examples.encoded])
    print(f"{MODEL}: {len(requests)} requests of {examples.lengths.mean():.0f} tokens, {gold:.0f} in the continuation")
    return World(model, tokenizer, heads, tuple(requests), examples, HeadMask.without(heads, list(map(str, off))))


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


def likelihoods(world: World, rounds: int) -> dict[str, Any]:
    """Requests per second of the loop, of the harness and of the engine, under one mask."""
    calls: dict[str, Callable[[], Sequence[float]]] = {
        "plain loop": partial(loop, world), "engine": partial(run_engine, world),
    }  # fmt: skip
    if find_spec("lm_eval") is not None:
        calls["lm-eval"] = partial(run_harness, world)
    else:
        print("lm-eval is not installed, so it is not compared: pip install 'headwise[lm-eval]'")
    found = {name: np.array(call()) for name, call in calls.items()}
    for name, values in found.items():
        off = float(np.abs(values - found["plain loop"]).max())
        if off > 1e-2:
            raise SystemExit(f"{name} differs from the plain loop by {off:.4f} nats")
    seconds = interleave(calls, rounds)
    for name, each in seconds.items():
        ratio = median_ratio(seconds["plain loop"], each)
        print(f"{name:>12} {len(world.requests) / np.median(each):8.2f} requests/s, {ratio:.2f} of the plain loop's")
    harness = seconds.get("lm-eval")
    return {
        "ratio_to_plain_loop": round(median_ratio(seconds["plain loop"], seconds["engine"]), 2),
        "ratio_to_lm_eval": None if harness is None else round(median_ratio(harness, seconds["engine"]), 2),
        "requests_per_second": round(len(world.requests) / float(np.median(seconds["engine"])), 2),
    }


@torch.inference_mode()
def loop(world: World) -> list[float]:
    """Log-likelihoods by batches in order, padded to the longest, with the logits of all tokens."""
    found, pad = [], pad_id_of(world.tokenizer)
    with gated(world.model, world.mask, heads=world.heads):
        for start in range(0, len(world.requests), BATCH):
            chosen = world.examples.encoded[start : start + BATCH]
            longest = max(len(each.ids) for each in chosen)
            ids = torch.tensor([[*each.ids, *[pad] * (longest - len(each.ids))] for each in chosen])
            mask = torch.tensor([[1] * len(each.ids) + [0] * (longest - len(each.ids)) for each in chosen])
            logs = world.model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float().log_softmax(-1)
            for row, each in enumerate(chosen):
                found.append(float(logs[row, list(each.positions), list(each.gold)].sum()))
    return found


def run_engine(world: World) -> list[float]:
    """Log-likelihoods by the engine."""
    engine = LocalEngine(world.model, world.heads, SequenceLikelihoodGame(), world.examples)
    count = len(world.requests)
    gates = np.repeat(world.mask.tensor().bool().numpy()[None], count, axis=0)
    return [float(each) for each in engine.values(gates, np.arange(count)).values]


def run_harness(world: World) -> list[float]:
    """Log-likelihoods by lm-evaluation-harness."""
    from lm_eval.api.instance import Instance  # type: ignore[import-untyped, unused-ignore]

    model = harness_model(world.model, world.tokenizer, world.mask, batch_size=BATCH)
    asked = [Instance("loglikelihood", {}, each.pair, place) for place, each in enumerate(world.requests)]
    return [float(value) for value, _ in model.loglikelihood(asked, disable_tqdm=True)]


def flips(world: World, bases: int, each: int) -> dict[str, float]:
    """Base coalitions with single flips of heads that are spread over all layers: units and time of a flip."""
    count = len(world.heads.players())
    draw = np.random.default_rng(2)
    on, index = draw.random((bases, count)) < 0.75, np.arange(bases)
    players = np.linspace(0, count - 1, bases * each).round().astype(np.int64)
    players = draw.permutation(players).reshape(bases, each)
    seconds, units = {}, 0.0
    for name, reuse in (("shared", True), ("plain", False)):
        settings = EngineSettings(reuse_prefixes=reuse)
        engine = LocalEngine(world.model, world.heads, SequenceLikelihoodGame(), world.examples, settings=settings)
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


def memory(world: World) -> dict[str, float]:
    """Peak memory of the loop and of the engine above the memory before, in MB, and their ratio."""
    loop_peak, engine_peak = (peak_memory(partial(call, world)) for call in (loop, run_engine))
    print(f"peak memory above the model: plain loop {loop_peak:.0f} MB, engine {engine_peak:.0f} MB")
    return {"memory_ratio": round(engine_peak / max(loop_peak, 1e-9), 2), "engine_peak_mb": round(engine_peak)}


def peak_memory(call: Callable[[], object]) -> float:
    """The largest resident memory while a call runs, minus that before it, in MB (Linux)."""
    statistics, stop, peak = Path("/proc/self/statm"), threading.Event(), 0.0

    def resident() -> float:
        return int(statistics.read_text().split()[1]) * 4096 / 2**20

    def watch() -> None:
        nonlocal peak
        while not stop.is_set():
            peak = max(peak, resident())
            time.sleep(0.002)

    before = resident()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        call()
    finally:
        stop.set()
        watcher.join()
    return max(peak - before, 0.0)


if __name__ == "__main__":
    main()
