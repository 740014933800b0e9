"""Overhead of running every row under the mask of its own language: LanguageMasks against the plain model.

A BERT-base-sized encoder, batches of 32 x 32 tokens, eight languages per batch, calls interleaved. The goal is less
than 5% more time than the plain model, including entering and leaving the masks.
"""

import argparse
import json
from typing import Any

import torch
from transformers import BertConfig, BertModel

from benchmarks.timing import interleave, median_ratio
from headwise import HeadMask, LanguageMasks, find_heads

LANGUAGES = ("ar", "de", "hi", "ru", "sw", "tr", "vi", "zh")


def random_masks(model: Any) -> LanguageMasks:
    """A quarter of the heads off, different ones for each language."""
    heads = find_heads(model)
    generator = torch.Generator().manual_seed(0)
    masks = {}
    for language in LANGUAGES:
        gone = torch.rand(len(heads.players()), generator=generator) < 0.25
        off = [name for name, out in zip(heads.players(), gone.tolist(), strict=True) if out]
        masks[language] = HeadMask.without(heads, off, language=language)
    return LanguageMasks(model, masks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under 2 minutes")
    rounds = 25 if parser.parse_args().quick else 100
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=1000)).eval()
    masks = random_masks(model)
    tokens = torch.randint(0, 1000, (32, 32))
    languages = [LANGUAGES[row % len(LANGUAGES)] for row in range(32)]

    @torch.inference_mode()
    def plain() -> None:
        model(tokens)

    @torch.inference_mode()
    def masked() -> None:
        with masks.use(languages):
            model(tokens)

    seconds = interleave({"plain": plain, "masked": masked}, rounds)
    overhead = median_ratio(seconds["masked"], seconds["plain"]) - 1
    print(f"BERT-base-sized encoder, batch 32 x 32, {len(LANGUAGES)} languages, {rounds} interleaved rounds")
    print(f"rows under their languages' masks: {overhead:+.1%} time against the plain model (goal: under +5%)")
    print(json.dumps({"overhead": round(overhead, 4)}))


if __name__ == "__main__":
    main()
