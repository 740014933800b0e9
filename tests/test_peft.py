"""PEFT models: LoRA on any projection, gated, cut, folded and saved like plain ones."""

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from peft import LoraConfig, get_peft_model

from headwise import HeadwiseError, find_heads, fold, gated, load_pruned, save_pruned, shrink
from tests.families import BY_NAME, Case, difference, enliven, inputs_for, outputs_of, random_mask, row_of, uneven_mask

TARGETS = {
    "xlm-roberta": ["query", "key", "value", "attention.output.dense"],
    "marian": ["q_proj", "k_proj", "v_proj", "out_proj"],
    "mt5": ["q", "k", "v", "o"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "gpt2": ["c_attn", "attn.c_proj"],
    "bloom": ["query_key_value", "self_attention.dense"],
}


def wrapped(case: Case, **options: Any) -> Any:
    torch.manual_seed(3)
    model = get_peft_model(case.build(), LoraConfig(r=4, target_modules=TARGETS[case.name], **options))
    enliven(model)
    return model.eval()


@pytest.mark.parametrize("name", TARGETS)
@torch.no_grad()
def test_gated_folded_shrunk_and_saved_lora_models_agree(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    model, inputs = wrapped(case), inputs_for(case)
    mask = uneven_mask(find_heads(model))
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    assert difference(outputs_of(model, inputs), expected) > 1e-3
    small = shrink(model, mask)
    assert difference(outputs_of(small, inputs), expected) < 1e-5
    assert difference(outputs_of(fold(model, mask), inputs), expected) < 1e-5
    save_pruned(small, tmp_path / "pruned")
    assert difference(outputs_of(load_pruned(tmp_path / "pruned"), inputs), expected) < 1e-5


@pytest.mark.parametrize("name", TARGETS)
def test_a_merged_model_has_the_fingerprint_of_the_unmerged(name: str) -> None:
    model = wrapped(BY_NAME[name])
    fingerprint = find_heads(model).fingerprint
    assert fingerprint != find_heads(BY_NAME[name].build()).fingerprint
    assert find_heads(model.merge_and_unload()).fingerprint == fingerprint


def test_per_row_gates_follow_their_rows_in_generation_under_peft() -> None:
    case = BY_NAME["marian"]
    model = wrapped(case)
    inputs = {name: tensor for name, tensor in inputs_for(case).items() if name != "decoder_input_ids"}
    way = {"max_new_tokens": 6, "min_new_tokens": 6, "num_beams": 2, "no_repeat_ngram_size": 1}
    gates = torch.stack([torch.ones(36), torch.zeros(36), random_mask(find_heads(model), 4).tensor().float()])
    with gated(model, gates):
        together = model.generate(**inputs, **way)
    for row in range(3):
        with gated(model, gates[row]):
            assert torch.equal(model.generate(**row_of(inputs, row), **way)[0], together[row])


@pytest.mark.parametrize("kind", ["LoHaConfig", "LoKrConfig", "AdaLoraConfig"])
def test_other_adapters_can_be_gated_but_must_be_merged_to_be_cut(kind: str) -> None:
    case = BY_NAME["xlm-roberta"]
    options = {"total_step": 10} if kind == "AdaLoraConfig" else {}
    model = get_peft_model(case.build(), getattr(peft, kind)(target_modules=["query", "value"], **options)).eval()
    mask = uneven_mask(find_heads(model))
    with torch.no_grad(), gated(model, mask):
        outputs_of(model, inputs_for(case))
    with pytest.raises(HeadwiseError, match=r"not plain LoRA.*merge_and_unload"):
        shrink(model, mask)


def test_a_refused_cut_leaves_the_model_as_it_was() -> None:
    case = BY_NAME["xlm-roberta"]
    model = get_peft_model(case.build(), LoraConfig(target_modules=["attention.output.dense"], use_dora=True)).eval()
    before = outputs_of(model, inputs_for(case))
    with pytest.raises(HeadwiseError, match="not plain LoRA"):
        shrink(model, uneven_mask(find_heads(model)), inplace=True)
    assert torch.equal(outputs_of(model, inputs_for(case)), before)


def test_adapters_that_would_be_lost_are_not_saved(tmp_path: Path) -> None:
    model = wrapped(BY_NAME["xlm-roberta"])
    with pytest.raises(HeadwiseError, match="adapters that are not merged"):
        save_pruned(model.get_base_model(), tmp_path / "pruned")
    with model.disable_adapter(), pytest.raises(HeadwiseError, match="adapters are switched off"):
        save_pruned(model, tmp_path / "pruned")
    prompt = peft.PromptTuningConfig(task_type="TOKEN_CLS", num_virtual_tokens=2)
    with pytest.raises(HeadwiseError, match="learned prompt"):
        save_pruned(get_peft_model(BY_NAME["xlm-roberta"].build(), prompt), tmp_path / "pruned")


def test_shrunk_adapters_can_still_be_trained() -> None:
    case = BY_NAME["xlm-roberta"]
    model = wrapped(case)
    small = shrink(model, uneven_mask(find_heads(model), empty_layer=9))
    outputs_of(small, inputs_for(case)).pow(2).sum().backward()
    trainable = [parameter for parameter in small.parameters() if parameter.requires_grad]
    assert trainable
    assert all(parameter.grad is not None for parameter in trainable)


def test_dora_must_be_merged_first() -> None:
    model = wrapped(BY_NAME["xlm-roberta"], use_dora=True)
    mask = uneven_mask(find_heads(model))
    with pytest.raises(HeadwiseError, match=r"not plain LoRA.*merge_and_unload"):
        shrink(model, mask)
