"""Time and peak memory of `headwise.roles`, compared with a simple loop that keeps every attention map.

e5-small tuned for parts of speech on English PUD sentences with trees; without the data folder, sentences of the
phrasebook are repeated, and the output says so. Each part runs in a process of its own:

- `forward`: the model on the same batches, without capturing attention;
- `roles`: all statistics in one pass;
- `plain`: `output_attentions=True` sentence by sentence, all maps kept, then statistics head by head with numpy.

Peak memory is that of the process minus that before the first sentence.
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headwise.data.folders import default_folder
from headwise.data.treebanks import open_treebank
from headwise.engine import LocalEngine
from headwise.games import ProbabilityGame
from headwise.heads import find_heads
from headwise.models import load_model, load_tokenizer
from headwise.roles.corpus import Corpus, read_corpus
from headwise.roles.measure import RolePass
from headwise.roles.statistics.rare import RareTokens
from headwise.roles.statistics.syntax import Syntax

PARTS = ("forward", "roles", "plain")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="60 sentences instead of 1,000")
    parser.add_argument("--part", choices=PARTS, help="run one part in this process")
    options = parser.parse_args()
    count = 60 if options.quick else 1000
    if options.part:
        print(json.dumps(run_part(options.part, count)))
        return
    found: dict[str, Any] = {}
    for part in PARTS:
        command = [sys.executable, "-m", "benchmarks.roles", "--part", part, *(["--quick"] if options.quick else [])]
        found[part] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(f"{part}: {found[part]['seconds']:.1f} s, {found[part]['bytes'] / 2**20:.0f} MiB")
    forward, roles, plain = (found[part] for part in PARTS)
    figures = {
        "sentences": count,
        "data": roles["data"],
        "memory_ratio_to_plain_loop": plain["bytes"] / roles["bytes"],
        "time_ratio_to_plain_loop": plain["seconds"] / roles["seconds"],
        "overhead_to_plain_forward": roles["seconds"] / forward["seconds"],
    }
    print(json.dumps(figures))


def run_part(part: str, count: int) -> dict[str, Any]:
    """Seconds and peak bytes of one part."""
    torch.set_num_threads(1)
    model = load_model("e5-small-pos", attn_implementation="eager" if part == "plain" else "sdpa")
    folder = default_folder()
    sentences = open_treebank("phrasebook" if folder is None else folder).examples("en", "all")
    sentences = (sentences * (count // len(sentences) + 1))[:count]
    corpus = read_corpus(model, find_heads(model), load_tokenizer("e5-small-pos"), sentences)
    for weights in model.parameters():
        weights.sum()  # weights are read from the file when they are used first, which is not memory of the pass
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again at the present size
    before, start = peak_bytes(), time.perf_counter()
    if part == "plain":
        plain_loop(model, corpus)
    elif part == "roles":
        measure = RolePass(model, find_heads(model), corpus)
        while not measure.done:
            measure.absorb(measure.measure(measure.sums.count))
    else:
        engine = LocalEngine(model, find_heads(model), ProbabilityGame(), corpus.examples)
        engine.run(np.arange(len(corpus.examples)), lambda _batch: nullcontext())
    return {
        "seconds": time.perf_counter() - start,
        "bytes": max(peak_bytes() - before, 1),
        "data": "phrasebook, repeated" if folder is None else "PUD",
    }


def peak_bytes() -> int:
    """The largest resident size of this process since the peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@torch.no_grad()
def plain_loop(model: Any, corpus: Corpus) -> dict[str, Any]:
    """Keep the maps of all sentences, then compute statistics head by head."""
    maps = [
        [layer[0].numpy() for layer in model(torch.tensor([each.ids]), output_attentions=True).attentions]
        for each in corpus.examples.encoded
    ]
    syntax, rare = Syntax.of(corpus), RareTokens.of(corpus).source.numpy()
    sums: dict[Any, float] = {}
    for number, layers in enumerate(maps):
        ids = np.array(corpus.examples.encoded[number].ids)
        text = ~np.isin(ids, corpus.examples.special_ids)
        masks = pair_masks(corpus, ids, text)
        for layer, heads in enumerate(layers):
            for head, weights in enumerate(heads):
                for name, value in head_statistics(weights, ids, text, masks, rare[number]).items():
                    sums[name, layer, head] = sums.get((name, layer, head), 0.0) + value
                for column, value in relation_hits(weights, corpus.words[number], syntax.edges[number]).items():
                    sums[column, layer, head] = sums.get((column, layer, head), 0.0) + value
    return sums


def pair_masks(corpus: Corpus, ids: Any, text: Any) -> dict[str, Any]:
    """Pairs of a query and a key whose weights are summed, (tokens, tokens) each."""
    size = len(ids)
    same = (ids[:, None] == ids) & text & ~np.eye(size, dtype=bool)
    after = np.pad(same, ((0, 0), (1, 0)))[:, :-1] & text & ~np.eye(size, dtype=bool)
    separators = np.broadcast_to(np.isin(ids, corpus.separators), (size, size))
    first = np.broadcast_to(np.arange(size) == 0, (size, size))
    near = {name: np.eye(size, k=k, dtype=bool) for name, k in (("self", 0), ("previous", -1), ("next", 1))}
    return {**near, "first": first, "separators": separators, "duplicate": same, "induction": after}


def head_statistics(weights: Any, ids: Any, text: Any, masks: dict[str, Any], rare: Any) -> dict[str, float]:
    """Statistics of one head on one sentence that need no tree."""
    found = {name: float((weights * mask)[text].sum()) for name, mask in masks.items()}
    logs = -(weights * np.log(weights.clip(1e-30))).sum(1)
    top, best = weights.argmax(1), np.where(text, weights, -1).argmax(1)
    found["entropy"] = float(logs.sum())
    found["broad"] = float((logs[text] >= 0.9 * np.log(len(ids))).sum())
    found["confidence"] = float((weights * text).max(1)[text].sum())
    found["separator_top"] = float(masks["separators"][0][top][text].sum())
    found["separator_all"] = float(masks["separators"][0][top][text].all())
    for count in (1, 2):
        found[f"rare:{count}"] = float(np.isin(ids[best][text], rare[:count]).sum())
    offsets = (top - np.arange(len(ids)))[text]
    for offset in range(-8, 9):
        found[f"offset:{offset}"] = float((offsets == offset).sum())
    return found


def relation_hits(weights: Any, words: Any, edges: Any) -> dict[str, float]:
    """How often each relation is followed, in each direction."""
    numbers = np.array(words)
    members = (numbers == np.arange(numbers.max() + 1)[:, None]).astype(weights.dtype)  # (words, tokens)
    top = ((members / members.sum(1, keepdims=True).clip(1)) @ weights @ members.T).argmax(1)
    found: dict[str, float] = {}
    for one, other, relation in edges.tolist():
        for name, hit in ((f"{relation}:head", top[one] == other), (f"{relation}:dependent", top[other] == one)):
            found[name] = found.get(name, 0.0) + float(hit)
    return found


if __name__ == "__main__":
    main()
