"""Time saved by removing heads, compared with the FLOPs saved.

A BERT-base-sized encoder with 25, 50 and 75% of its heads removed, batches of 8 x 128 tokens, interleaved with the
whole model. The goal is that the saved share of time is at least 0.8 of the saved share of FLOPs.
"""

import argparse
import json
from functools import partial
from typing import Any

import torch
from transformers import BertConfig, BertModel

from benchmarks.timing import count_flops, interleave, median_ratio
from headwise import HeadMask, find_heads, shrink

SHARES = (0.25, 0.5, 0.75)


@torch.inference_mode()
def encode(model: Any, tokens: torch.Tensor) -> None:
    model(tokens)


def spread_mask(model: Any, share: float) -> HeadMask:
    """A mask without the same share of the heads in every layer."""
    heads = find_heads(model)
    off = [name for site in heads.sites for name in site.players[: round(share * len(site.heads))]]
    return HeadMask.without(heads, off)


def count_eager_flops(model: Any, tokens: torch.Tensor) -> int:
    """Count FLOPs with eager attention, because PyTorch's counter does not support the fused CPU kernel."""
    fused = model.config._attn_implementation
    model.set_attn_implementation("eager")
    flops = count_flops(partial(encode, model, tokens))
    model.set_attn_implementation(fused)
    return flops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under 2 minutes")
    rounds = 15 if parser.parse_args().quick else 25
    torch.manual_seed(0)
    plain = BertModel(BertConfig(vocab_size=1000)).eval()
    tokens = torch.randint(0, 1000, (8, 128))
    models = {"plain": plain} | {f"{share:.0%}": shrink(plain, spread_mask(plain, share)) for share in SHARES}
    calls = {name: partial(encode, model, tokens) for name, model in models.items()}
    flops = {name: count_eager_flops(model, tokens) for name, model in models.items()}
    seconds = interleave(calls, rounds)
    print(f"BERT-base-sized encoder, batch 8 x 128, {torch.get_num_threads()} threads, {rounds} interleaved rounds")
    print(
        f"{'heads cut':>10} {'parameters':>12} {'FLOP ratio':>11} {'time ratio':>11} {'saved time / saved FLOPs':>25}"
    )
    figures = {}
    for name, model in models.items():
        work = flops[name] / flops["plain"]
        time = median_ratio(seconds[name], seconds["plain"])
        figures[name] = {"flop_ratio": round(work, 4), "time_ratio": round(time, 4)}
        saved = (1 - time) / (1 - work) if work < 1 else float("nan")
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"{name:>10} {size:>12,} {work:>11.3f} {time:>11.3f} {saved:>25.2f}")
    half = figures["50%"]
    saved = (1 - half["time_ratio"]) / (1 - half["flop_ratio"])
    print(json.dumps({"saved_time_per_saved_flop": round(saved, 3), "ratios": figures}))


if __name__ == "__main__":
    main()
