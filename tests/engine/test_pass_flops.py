"""Counted operations are those that PyTorch's own counter sees in a plain pass."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BertConfig,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from headwise import HeadMask, find_heads, shrink
from headwise.engine.cost import pass_flops


def bert() -> Any:
    return BertForTokenClassification(
        BertConfig(vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
                   num_labels=5, attn_implementation="eager")  # transformers 4 cannot change it later
    )  # fmt: skip


def llama() -> Any:
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                    intermediate_size=40)
    )  # fmt: skip


def t5() -> Any:
    return T5ForConditionalGeneration(
        T5Config(vocab_size=50, d_model=24, num_layers=2, num_decoder_layers=2, num_heads=4, d_kv=6, d_ff=40,
                 decoder_start_token_id=0)
    )  # fmt: skip


def counted(model: Any, lengths: list[int], targets: list[int]) -> int:
    model.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for length, target in zip(lengths, targets, strict=True):
            decoder = {"decoder_input_ids": torch.ones(1, target, dtype=torch.long)} if target else {}
            model(input_ids=torch.ones(1, length, dtype=torch.long), **decoder)
    found: int = counter.get_total_flops()
    return found


@pytest.mark.parametrize(("build", "targets"), [(bert, [0, 0]), (t5, [4, 6])])
@pytest.mark.parametrize("pruned", [False, True])
def test_operations_are_those_of_a_plain_pass(build: Any, targets: list[int], pruned: bool) -> None:
    model = build().eval()
    if pruned:
        model = shrink(model, HeadMask.without(find_heads(model), ["encoder.0.1", "encoder.1.0", "encoder.1.3"]))
    found = pass_flops(model, find_heads(model), np.array([5, 7]), np.array(targets))
    assert found == counted(model, [5, 7], targets)


def test_operations_of_a_causal_model() -> None:
    model = llama().eval()
    found, plain = pass_flops(model, find_heads(model), np.array([9]), np.array([0])), counted(model, [9], [0])
    assert found == pytest.approx(plain, rel=0.01)  # the counter also sees the product of rotary positions
