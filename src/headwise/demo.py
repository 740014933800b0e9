"""A first look, offline and in seconds: a small XLM-R is pruned, saved, loaded again and compared."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import XLMRobertaConfig, XLMRobertaForTokenClassification

from headwise.gates import gated
from headwise.heads import find_heads
from headwise.masks import HeadMask
from headwise.pruning import load_pruned, save_pruned, shrink


@dataclass(frozen=True)
class DemoResult:
    """What the demo measured.

    Attributes:
        heads: Heads of the whole model.
        removed: Heads that were cut out.
        parameters: Parameters before and after.
        difference: Largest difference between the logits of the gated whole model and of the reloaded cut one.
        effect: Largest difference that removing the heads makes, for comparison.
    """

    heads: int
    removed: int
    parameters: tuple[int, int]
    difference: float
    effect: float


@torch.inference_mode()
def run_demo(seed: int = 0) -> DemoResult:
    """Prune a small XLM-R with random weights, save it, load it again and compare the logits."""
    torch.manual_seed(seed)
    config = XLMRobertaConfig(
        vocab_size=1000,
        hidden_size=96,
        num_hidden_layers=6,
        num_attention_heads=6,
        intermediate_size=192,
        num_labels=17,
    )
    model = XLMRobertaForTokenClassification(config).eval()
    tokens = torch.randint(4, 1000, (8, 24))
    heads = find_heads(model)
    off = [
        name
        for name, draw in zip(heads.players(), torch.rand(len(heads.players())).tolist(), strict=True)
        if draw < 0.4
    ]
    mask = HeadMask.without(heads, off)
    whole = model(tokens).logits
    with gated(model, mask):
        masked = model(tokens).logits
    with tempfile.TemporaryDirectory() as folder:
        save_pruned(shrink(model, mask), Path(folder) / "pruned")
        small = load_pruned(Path(folder) / "pruned")
        reloaded = small(tokens).logits
    sizes = tuple(sum(parameter.numel() for parameter in each.parameters()) for each in (model, small))
    return DemoResult(
        heads=len(heads.players()),
        removed=len(off),
        parameters=(sizes[0], sizes[1]),
        difference=float((masked - reloaded).abs().max()),
        effect=float((whole - masked).abs().max()),
    )
