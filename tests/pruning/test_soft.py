"""Soft masks in weights: gated, folded and shrunk models agree, and plain transformers loads the folded one."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from headwise import HeadMask, HeadwiseError, LanguageMasks, SoftMask, find_heads, fold, gated, load_pruned, shrink
from headwise.heads import HeadMap, PlayerKind
from headwise.pruning import export
from tests.families import BY_NAME, Case, difference, inputs_for, no_trace_left, outputs_of, random_mask, row_of

CASE = BY_NAME["xlm-roberta"]


def soft_mask(heads: HeadMap, seed: int = 0, kind: PlayerKind = "heads", zeros: float = 0.3) -> SoftMask:
    """Gates between -0.5 and 2, some of them exactly 0."""
    generator = torch.Generator().manual_seed(seed)
    size = len(heads.players(kind))
    gates = torch.rand(size, generator=generator) * 2.5 - 0.5
    return SoftMask.of(heads, gates * (torch.rand(size, generator=generator) >= zeros), kind)


@torch.no_grad()
def test_folded_and_shrunk_models_compute_what_the_gated_model_computes(case: Case, tmp_path: Path) -> None:
    model, inputs = case.build(), inputs_for(case)
    soft = soft_mask(find_heads(model))
    before = outputs_of(model, inputs)
    with gated(model, soft):
        expected = outputs_of(model, inputs)
    assert difference(expected, before) > 1e-3
    folded, small = fold(model, soft), shrink(model, soft)
    assert difference(outputs_of(folded, inputs), expected) < 1e-5
    assert difference(outputs_of(small, inputs), expected) < 1e-5
    assert find_heads(small).players() == tuple(name for name in soft.players if name not in soft.off)
    folded.save_pretrained(tmp_path)
    plain = type(model).from_pretrained(tmp_path)
    assert difference(outputs_of(plain.eval(), inputs), expected) < 1e-5
    assert torch.equal(outputs_of(model, inputs), before)  # fold and shrink change a copy


@torch.no_grad()
def test_masks_of_feed_forward_blocks_fold_into_their_last_layer(case: Case, tmp_path: Path) -> None:
    model, inputs = case.build(), inputs_for(case)
    heads = find_heads(model)
    soft = SoftMask.of(heads, torch.linspace(-0.5, 2, len(heads.feed_forward)), "ffn")
    for mask in (soft, HeadMask.without(heads, soft.players[1:2], kind="ffn")):
        with gated(model, mask):
            expected = outputs_of(model, inputs)
        folded = fold(model, mask)
        assert difference(outputs_of(folded, inputs), expected) < 1e-5
    folded.save_pretrained(tmp_path)
    plain = type(model).from_pretrained(tmp_path)
    assert difference(outputs_of(plain.eval(), inputs), expected) < 1e-5


def test_gates_of_zero_are_zeros_whatever_the_weight_is() -> None:
    model = CASE.build()
    output = find_heads(model).sites[0].output
    with torch.no_grad():
        model.get_submodule(output).weight[:, 0] = float("inf")
    heads = find_heads(model)
    folded = fold(model, SoftMask.of(heads, [0.0] + [0.5] * (len(heads.players()) - 1)))
    weight = folded.get_submodule(output).weight
    assert not weight[:, :8].any()
    assert not torch.signbit(weight[:, :8]).any()
    assert torch.equal(weight[:, 8:], model.get_submodule(output).weight[:, 8:] / 2)


def test_masks_of_layers_and_blocks_that_cannot_be_made_real_are_refused_in_one_sentence() -> None:
    model = CASE.build()
    heads = find_heads(model)
    layers, blocks = (SoftMask.of(heads, [0.5] * 3, kind) for kind in ("layers", "ffn"))
    with pytest.raises(HeadwiseError, match="masks of layers cannot be folded: use gated"):
        fold(model, layers)
    for mask, kind in ((layers, "layers"), (blocks, "ffn")):
        with pytest.raises(HeadwiseError, match=f"only masks of heads can be cut, not of {kind}"):
            shrink(model, mask)


@torch.no_grad()
def test_a_shrunk_model_takes_a_soft_mask_without_zeros() -> None:
    model, inputs = CASE.build(), inputs_for(CASE)
    small = shrink(model, random_mask(find_heads(model), seed=1))
    soft = soft_mask(find_heads(small), seed=2, zeros=0)
    with gated(small, soft):
        expected = outputs_of(small, inputs)
    scaled = shrink(small, soft)
    assert difference(outputs_of(scaled, inputs), expected) < 1e-5
    assert find_heads(scaled).players() == find_heads(small).players()
    with pytest.raises(HeadwiseError, match="already cut"):
        fold(small, soft)


@torch.no_grad()
def test_a_bfloat16_model_folds_without_an_error_of_the_gate() -> None:
    model = CASE.build().bfloat16()
    soft = soft_mask(find_heads(model), zeros=0)
    site = find_heads(model).sites[0]
    weight = model.get_submodule(site.output).weight.float()
    expected = (weight * soft.tensor()[:4].repeat_interleave(site.head_width)).bfloat16()
    assert torch.equal(fold(model, soft).get_submodule(site.output).weight, expected)


@torch.no_grad()
def test_lora_models_fold_their_adapters_too() -> None:
    peft = pytest.importorskip("peft")
    inputs = inputs_for(CASE)
    model = peft.get_peft_model(CASE.build(), peft.LoraConfig(target_modules=["dense", "query"], r=2))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2)
    model.eval()
    heads = find_heads(model)
    for mask in (soft_mask(heads), SoftMask.of(heads, [0.5, -1.0, 2.0], "ffn")):
        with gated(model, mask):
            expected = outputs_of(model, inputs)
        assert difference(outputs_of(fold(model, mask), inputs), expected) < 1e-5


@pytest.mark.parametrize("kind", ["mask", "folded", "shrunk"])
@torch.no_grad()
def test_every_export_computes_what_the_gated_model_computes(kind: str, tmp_path: Path) -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    soft = soft_mask(find_heads(model))
    with gated(model, soft):
        expected = outputs_of(model, inputs)
    export(case.build(), soft, None, tmp_path / "out", kind)
    if kind == "mask":
        with gated(model, SoftMask.load(tmp_path / "out" / "mask.json")):
            found = outputs_of(model, inputs)
    else:
        loaded = (AutoModel.from_pretrained if kind == "folded" else load_pruned)(tmp_path / "out")
        found = outputs_of(loaded.eval(), inputs)
    assert difference(found, expected) < 1e-5


@torch.no_grad()
def test_rows_run_under_hard_and_soft_masks_at_once(tmp_path: Path) -> None:
    model, inputs = CASE.build(), inputs_for(CASE)
    heads = find_heads(model)
    given = LanguageMasks(model, {"sw": soft_mask(heads, 1), "zh": random_mask(heads, 2)}, default=soft_mask(heads, 3))
    given.save(tmp_path / "masks.json")
    for masks in (given, LanguageMasks.load(tmp_path / "masks.json", model)):
        with no_trace_left(model), masks.use(["zh", "de", "sw"]):
            together = outputs_of(model, inputs)
        for row, mask in enumerate([masks.masks["zh"], masks.default, masks.masks["sw"]]):
            assert mask is not None
            with gated(model, mask):
                alone = outputs_of(model, row_of(inputs, row))
            assert difference(together[row : row + 1], alone) < 1e-5
    assert {language: type(mask) for language, mask in masks.masks.items()} == {"sw": SoftMask, "zh": HeadMask}


def test_language_masks_of_version_1_are_read_and_broken_entries_named(tmp_path: Path) -> None:
    model = CASE.build()
    path = tmp_path / "masks.json"
    LanguageMasks(model, {"zh": HeadMask.without(find_heads(model), ["encoder.1.0"])}).save(path)
    data = json.loads(path.read_text())
    assert data["version"] == 2
    entry = data["languages"]["zh"]
    path.write_text(json.dumps({**data, "version": 1, "languages": {"zh": entry["off"]}}))
    assert LanguageMasks.load(path, model).masks["zh"].off == ("encoder.1.0",)
    path.write_text(json.dumps({**data, "languages": {"zh": {"of": entry["off"]}}}))
    with pytest.raises(
        HeadwiseError, match=r"masks\.json, 'zh': a mask must be an object with either 'off' or 'gates'"
    ):
        LanguageMasks.load(path, model)
