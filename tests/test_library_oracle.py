"""transformers 4.57 still had head masks and head pruning: ours must equal its own."""

from typing import Any

import pytest
import torch

from headwise import HeadMask, find_heads, gated, shrink
from tests.families import BY_NAME, ON_V4, difference, inputs_for, outputs_of, random_mask

pytestmark = pytest.mark.skipif(not ON_V4, reason="transformers 5 has neither head_mask nor prune_heads")

FAMILIES = ["bert", "roberta", "xlm-roberta", "distilbert", "electra"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_gate_is_the_librarys_head_mask(name: str, seed: int) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(attn_implementation="eager"), inputs_for(case)
    mask = random_mask(find_heads(model), seed)
    with gated(model, mask):
        ours = outputs_of(model, inputs)
    theirs = outputs_of(model, {**inputs, "head_mask": mask.tensor().float().view(3, 4)})
    assert difference(ours, theirs) < 1e-6


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_shrinking_is_the_librarys_pruning(name: str) -> None:
    case = BY_NAME[name]
    model, inputs = case.build(), inputs_for(case)
    ours = shrink(model, HeadMask.without(find_heads(model), ["encoder.0.1", "encoder.2.0", "encoder.2.3"]))
    model.prune_heads({0: [1], 2: [0, 3]})
    assert difference(outputs_of(ours, inputs), outputs_of(model, inputs)) < 1e-6
    assert count(ours) == count(model)


@torch.no_grad()
def test_a_gate_is_the_head_mask_of_encoder_decoder_models() -> None:
    for name in ("marian", "mt5", "bart"):
        case = BY_NAME[name]
        model, inputs = case.build(attn_implementation="eager"), inputs_for(case)
        mask = random_mask(find_heads(model), 1)
        with gated(model, mask):
            ours = outputs_of(model, inputs)
        encoder, decoder, cross = mask.tensor().float().view(3, 3, 4)
        library = {"head_mask": encoder, "decoder_head_mask": decoder, "cross_attn_head_mask": cross}
        assert difference(ours, outputs_of(model, {**inputs, **library})) < 1e-6


def count(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
