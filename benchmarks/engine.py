"""Speed of the engine on (mask, example) rows, compared with simple loops.

Two settings: e5-small tuned for parts of speech on Chinese PUD sentences, and an encoder of the size of XLM-R base with
random weights on pairs of the length of XNLI's. In each setting, calls are interleaved:

- one mask for the whole set: (a) a loop that pads to 128 tokens, as the published script does, (b) a loop that pads
  each batch to its longest example, (c) the engine in single precision and in bfloat16;
- stars, base coalitions with single flips: the engine without and with shared prefixes;
- gradients in single precision and in bfloat16;
- useful operations per second as a share of those of a large matrix product.

Without the data folder, sentences of the phrasebook and random lengths are used, and the output says so.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

from benchmarks.timing import interleave, median_ratio
from headwise import find_heads, gated
from headwise.data.catalog import open_dataset
from headwise.data.examples import Example
from headwise.data.folders import default_folder, open_folder
from headwise.engine import EngineSettings, ExampleSet, LocalEngine, encode_examples
from headwise.games import AccuracyGame, ProbabilityGame
from headwise.models import load_model, load_tokenizer
from headwise.tasks import find_task
from headwise.tasks.encoding import Encoded

LOOP_BATCH = 32
PADDED_TO = 128
FLIPS = 24


@dataclass(frozen=True)
class World:
    """A model and its examples."""

    name: str
    model: Any
    examples: ExampleSet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer examples and rounds: under 2 minutes")
    quick = parser.parse_args().quick
    pos, pairs = pos_world(48 if quick else 200), pairs_world(32 if quick else 128)
    rounds = 1 if quick else 3
    figures: dict[str, Any] = {}
    for world in (pos, pairs):
        figures[world.name] = single_mask(world, rounds) | stars(world, rounds, bases=8 if quick else 16)
        figures[world.name] |= half_precision(world, rounds)
    figures["share_of_peak"] = share_of_peak(pairs, rounds)
    figures["padding"] = padding()
    growth(pos, quick)
    show_profile(pairs)
    print(json.dumps(summary(figures, pos.name, pairs.name) | {"details": figures}))


def summary(figures: dict[str, Any], pos: str, pairs: str) -> dict[str, Any]:
    """The main figures, each from the worse of the two settings."""
    worlds = [figures[pos], figures[pairs]]
    return {
        "ratio_to_padded_loop": min(each["ratio_to_padded_loop"] for each in worlds),
        "ratio_to_dynamic_loop": min(each["ratio_to_dynamic_loop"] for each in worlds),
        "bfloat16_to_padded_loop": min(each["bfloat16_to_padded_loop"] for each in worlds),
        "bfloat16_gradients": min(each["bfloat16_gradients"] for each in worlds),
        "star_flip_units": max(each["star_flip_units"] for each in worlds),
        "star_flip_time": max(each["star_flip_time"] for each in worlds),
        "share_of_peak": figures["share_of_peak"],
        "padding": max(figures["padding"].values()),
    }


def pos_world(count: int) -> World:
    """e5-small-pos with Chinese sentences."""
    folder = default_folder()
    data = open_folder(folder, "pos") if folder is not None else open_dataset("phrasebook", "pos")
    name = "e5-small-pos on " + ("Chinese PUD" if folder is not None else "the Chinese phrasebook")
    model, tokenizer = load_model("e5-small-pos"), load_tokenizer("e5-small-pos")
    examples = data.examples("zh", "all" if folder is not None else "test")[:count]
    return World(name, model, encode_examples(find_task("pos"), examples, tokenizer))


def pairs_world(count: int) -> World:
    """A model of the size of XLM-R base with a small vocabulary, and pairs of the length of XNLI's."""
    torch.manual_seed(0)
    config = XLMRobertaConfig(vocab_size=1000, num_labels=3, max_position_embeddings=514, pad_token_id=1)
    model = XLMRobertaForSequenceClassification(config).eval()
    draw = np.random.default_rng(0)
    lengths = xnli_lengths(count, draw)
    encoded = tuple(Encoded(tuple(map(int, draw.integers(5, 1000, n))), (), (int(draw.integers(3)),)) for n in lengths)
    return World("XLM-R base size on XNLI lengths", model, ExampleSet(find_task("nli"), encoded, 1))


def xnli_lengths(count: int, draw: np.random.Generator) -> Sequence[int]:
    """Lengths of pairs of XNLI, or random lengths with a similar distribution."""
    folder = default_folder()
    if folder is None:
        return [int(n) for n in np.clip(draw.lognormal(3.55, 0.45, count), 8, 128)]
    examples = open_folder(folder, "nli").examples("en", "all")
    chosen: list[Example] = [examples[i] for i in draw.choice(len(examples), count, replace=False)]
    return [min(128, len(each.ids)) for each in find_task("nli").encode(chosen, load_tokenizer("e5-small"))[0]]


def single_mask(world: World, rounds: int) -> dict[str, float]:
    """One mask for all examples: rows per second of both loops and the engine."""
    heads = find_heads(world.model)
    mask = np.random.default_rng(1).random(len(heads.players())) < 0.75
    count = len(world.examples)
    masks = np.repeat(mask[None], count, axis=0)
    engines = {
        name: LocalEngine(world.model, heads, AccuracyGame(), world.examples, settings=EngineSettings(bfloat16=half))
        for name, half in (("engine", False), ("in bfloat16", True))
    }
    calls: dict[str, Callable[[], object]] = {
        "padded loop": partial(loop, world, mask, PADDED_TO),
        "dynamic loop": partial(loop, world, mask, None),
    } | {name: partial(each.values, masks, np.arange(count)) for name, each in engines.items()}
    seconds = interleave(calls, rounds)
    print(f"\n{world.name}, {count} examples under one mask, mean length {world.examples.lengths.mean():.1f}")
    for name, each in seconds.items():
        ratio = median_ratio(seconds["padded loop"], each)
        print(f"{name:>16} {count / np.median(each):9.1f} rows/s, {ratio:.2f} of the padded loop's")
    return {
        "ratio_to_padded_loop": round(median_ratio(seconds["padded loop"], seconds["engine"]), 2),
        "ratio_to_dynamic_loop": round(median_ratio(seconds["dynamic loop"], seconds["engine"]), 2),
        "bfloat16_to_padded_loop": round(median_ratio(seconds["padded loop"], seconds["in bfloat16"]), 2),
    }


@torch.inference_mode()
def loop(world: World, mask: np.ndarray[Any, Any], padded_to: int | None) -> None:
    """A loop over the examples in order, in batches of 32, under one mask."""
    task, encoded = world.examples.task, world.examples.encoded
    with gated(world.model, torch.from_numpy(mask).float()):
        for start in range(0, len(encoded), LOOP_BATCH):
            index = range(start, min(start + LOOP_BATCH, len(encoded)))
            batch = task.make_batch(world.model, encoded, index, world.examples.pad_id)
            inputs = batch.inputs(torch.device("cpu"))
            if padded_to is not None:
                missing = max(0, padded_to - inputs["input_ids"].shape[1])
                inputs = {
                    name: torch.nn.functional.pad(each, (0, missing), value=pad)
                    for (name, each), pad in zip(inputs.items(), (world.examples.pad_id, 0), strict=True)
                }
            task.select(world.model(**inputs).logits, batch).argmax(-1)


def stars(world: World, rounds: int, bases: int) -> dict[str, float]:
    """Base coalitions with single flips: cost of a flip in units and time."""
    heads = find_heads(world.model)
    draw = np.random.default_rng(2)
    masks = draw.random((bases, len(heads.players()))) < 0.75
    index = draw.choice(len(world.examples), bases, replace=False)
    # Every head is flipped equally often, so that the mean flip is that of the mean head.
    order = np.concatenate([draw.permutation(len(heads.players())) for _ in range(-(-bases * FLIPS // 144))])
    players = order[: bases * FLIPS].reshape(bases, FLIPS)
    shared = LocalEngine(world.model, heads, ProbabilityGame(), world.examples)
    plain = LocalEngine(
        world.model, heads, ProbabilityGame(), world.examples, settings=EngineSettings(reuse_prefixes=False)
    )
    calls: dict[str, Callable[[], object]] = {
        "no reuse": partial(plain.flips, masks, index, players),
        "engine": partial(shared.flips, masks, index, players),
    }
    seconds = interleave(calls, rounds)
    flips = bases * FLIPS
    units = (shared.flips(masks, index, players).cost.units - bases) / flips
    # The time of a flip, divided by the time of a whole row in the same round; the base is one of the rows.
    row = [each / (flips + bases) for each in seconds["no reuse"]]
    flip = median_ratio([(each - bases * one) / flips for each, one in zip(seconds["engine"], row, strict=True)], row)
    print(f"{world.name}, {bases} stars of {FLIPS} flips")
    print(f"{'without reuse':>16} {(flips + bases) / np.median(seconds['no reuse']):9.1f} rows/s")
    print(f"{'engine':>16} {(flips + bases) / np.median(seconds['engine']):9.1f} rows/s")
    print(f"{'a flip':>16} {units:9.3f} units counted, {flip:.3f} timed")
    return {"star_flip_units": round(units, 3), "star_flip_time": round(flip, 3)}


def half_precision(world: World, rounds: int) -> dict[str, float]:
    """Gradients of random rows in bfloat16: speed-up and error of the values."""
    draw = np.random.default_rng(8)
    index = np.arange(min(64, len(world.examples)))
    whole, half = (
        LocalEngine(world.model, None, ProbabilityGame(), world.examples, settings=EngineSettings(bfloat16=each))
        for each in (False, True)
    )
    masks = draw.random((len(index), len(whole.players))) < 0.5
    seconds = interleave(
        {"whole": partial(whole.gradients, masks, index), "half": partial(half.gradients, masks, index)}, rounds
    )
    ratio = median_ratio(seconds["whole"], seconds["half"])
    off = float((whole.values(masks, index).values - half.values(masks, index).values).square().mean().sqrt())
    print(
        f"{world.name}, gradients in bfloat16: {ratio:.2f} of single precision's rows/s, error of the values {off:.1e}"
    )
    return {"bfloat16_gradients": round(ratio, 2), "bfloat16_error": off}


def share_of_peak(world: World, rounds: int) -> float:
    """Useful operations per second on random rows, as a share of those of a large matrix product."""
    draw = np.random.default_rng(3)
    engine = LocalEngine(world.model, None, ProbabilityGame(), world.examples)
    count = len(world.examples)
    masks = draw.random((count, len(engine.players))) < 0.5
    square = torch.randn(2048, 2048)

    def multiply() -> None:
        for _ in range(8):
            torch.mm(square, square)

    seconds = interleave({"product": multiply, "engine": partial(engine.values, masks, np.arange(count))}, rounds)
    work = engine.values(masks, np.arange(count)).cost.flops
    peak = 8 * 2 * 2048**3
    share = median_ratio([peak / each for each in seconds["product"]], [work / each for each in seconds["engine"]])
    print(f"\nmatrix product {peak / np.median(seconds['product']) / 1e9:.0f} GFLOP/s, ", end="")
    print(f"engine {work / np.median(seconds['engine']) / 1e9:.0f} useful GFLOP/s: {1 / share:.2f} of it")
    return round(1 / share, 3)


def padding() -> dict[str, float]:
    """Share of padding in batches of random rows, for whole data sets."""
    folder = default_folder()
    sets = {"commands": ("commands", "intents", "en", "test")}
    if folder is not None:
        sets |= {"PUD": (str(folder), "pos", "zh", "all"), "XNLI": (str(folder), "nli", "en", "all")}
    found = {}
    model, tokenizer = load_model("e5-small"), load_tokenizer("e5-small")
    for name, (data, task, language, split) in sets.items():
        examples = open_dataset(data, task).examples(language, split)
        labels = tuple(sorted({each.label for each in examples if hasattr(each, "label")}))
        each = encode_examples(find_task(task, labels), examples, tokenizer)
        engine = LocalEngine(model, None, AccuracyGame(), each)
        index = np.random.default_rng(4).integers(0, len(each), 1000)  # as many rows as in one round of a method
        masks = np.random.default_rng(5).random((1000, 144)) < 0.5
        packs = list(engine.packs(masks, index))
        tokens = int(each.lengths[index].sum())
        padded = sum(len(pack.rows) * int(each.lengths[pack.examples].max()) for pack in packs)
        found[name] = round(1 - tokens / padded, 4)
    print("\npadding of 1000 random rows: " + ", ".join(f"{name} {share:.1%}" for name, share in found.items()))
    return found


def growth(world: World, quick: bool) -> None:
    """Show that ten times the rows take ten times the work, but no more memory."""
    draw = np.random.default_rng(6)
    engine = LocalEngine(world.model, None, AccuracyGame(), world.examples, settings=EngineSettings(memory_limit=2**28))
    small = 40 if quick else 200
    print()
    for rows in (small, small * 10):
        masks = draw.random((rows, len(engine.players))) < 0.5
        start = time.perf_counter()
        units = engine.values(masks, draw.integers(0, len(world.examples), rows)).cost.units
        seconds = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{rows:6d} rows: {units:7.0f} units, {seconds / rows * 1000:6.2f} ms per row, peak memory {memory:.0f} MB"
        )


def show_profile(world: World) -> None:
    """Print the operations that take most time."""
    engine = LocalEngine(world.model, None, ProbabilityGame(), world.examples)
    count = len(world.examples)
    masks = np.random.default_rng(7).random((count, len(engine.players))) < 0.5
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        engine.values(masks, np.arange(count))
    rows = sorted(profile.key_averages(), key=lambda each: -each.self_cpu_time_total)
    total = sum(each.self_cpu_time_total for each in rows)
    print(f"\nshare of time by operation, {world.name}:")
    for each in rows[:8]:
        print(f"{each.self_cpu_time_total / total:7.1%}  {each.key}")


if __name__ == "__main__":
    main()
