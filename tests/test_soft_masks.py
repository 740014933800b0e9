"""SoftMask: a real gate for every player, with the model it belongs to."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise import HeadMask, HeadwiseError, SoftMask, find_heads, gated, load_mask, shrink
from headwise.errors import MaskMismatchError
from tests.families import BY_NAME, inputs_for, outputs_of, random_mask, uneven_mask

PLAYERS = ("encoder.0.0", "encoder.0.1", "encoder.1.0", "encoder.1.1")
GATES = (1.25, 0.0, -0.5, 1.0)


def test_a_soft_mask_has_gates_and_names_the_players_that_are_off() -> None:
    soft = SoftMask(PLAYERS, GATES, language="zh")
    assert soft.off == ("encoder.0.1",)
    assert soft.on == (True, False, True, True)
    assert torch.equal(soft.tensor(), torch.tensor(GATES))
    assert repr(soft) == "SoftMask(4 heads (zh), gates from -0.5 to 1.25, 1 off)"


def test_the_hard_mask_keeps_the_gates_above_a_threshold() -> None:
    soft = SoftMask(PLAYERS, GATES, model="tiny", fingerprint="f", language="zh")
    assert soft.hard() == HeadMask(PLAYERS, (True, False, False, True), "heads", "tiny", "f", "zh")
    assert soft.hard(1.0).off == ("encoder.0.1", "encoder.1.0", "encoder.1.1")


def test_the_product_with_a_hard_mask_turns_its_heads_off_and_scales_the_others() -> None:
    soft, hard = SoftMask(PLAYERS, GATES), HeadMask(PLAYERS, (False, True, True, True), fingerprint="f")
    assert (soft * hard).gates == (hard * soft).gates == (0.0, 0.0, -0.5, 1.0)
    assert (soft * hard).fingerprint == "f"
    assert (soft * soft).gates == (1.5625, 0.0, 0.25, 1.0)


def test_masks_of_different_models_do_not_mix() -> None:
    soft = SoftMask(PLAYERS, GATES, model="one", fingerprint="f")
    with pytest.raises(MaskMismatchError, match=r"weights f \(one\), but two has the weights g"):
        soft * HeadMask(PLAYERS, (True,) * 4, model="two", fingerprint="g")
    with pytest.raises(MaskMismatchError, match=r"4 players .* but two has 3 players"):
        soft * SoftMask(PLAYERS[:3], GATES[:3], model="two")


def test_a_soft_mask_belongs_to_a_model_until_it_is_moved() -> None:
    model, other = BY_NAME["bert"].build(), BY_NAME["bert"].build(seed=1)
    heads, others = find_heads(model), find_heads(other)
    soft = SoftMask.of(heads, torch.linspace(0, 2, len(heads.players())), language="sw")
    soft.check(heads)
    with pytest.raises(MaskMismatchError, match="moved_to"):
        soft.check(others)
    moved = soft.moved_to(others)
    moved.check(others)
    assert (moved.gates, moved.language) == (soft.gates, "sw")


@pytest.mark.parametrize("name", ["bert", "mt5", "llama"])
def test_saved_and_loaded_masks_are_equal(name: str, tmp_path: Path) -> None:
    heads = find_heads(BY_NAME[name].build())
    soft = SoftMask.of(heads, torch.rand(len(heads.players())), language="zh")
    soft.save(tmp_path / "deep" / "soft.json")
    assert SoftMask.load(tmp_path / "deep" / "soft.json") == load_mask(tmp_path / "deep" / "soft.json") == soft


def test_masks_of_pruned_models_and_of_blocks_survive_saving(tmp_path: Path) -> None:
    model = BY_NAME["bert"].build()
    heads = find_heads(shrink(model, uneven_mask(find_heads(model))))
    for soft in (SoftMask.of(heads, [0.5] * len(heads.players())), SoftMask.of(heads, [0.5, 1, 2], kind="ffn")):
        soft.save(tmp_path / "soft.json")
        assert load_mask(tmp_path / "soft.json") == soft


def test_a_soft_mask_of_144_heads_is_a_few_kilobytes(tmp_path: Path) -> None:
    players = tuple(f"encoder.{layer}.{head}" for layer in range(12) for head in range(12))
    SoftMask(players, tuple(torch.rand(144).tolist()), model="xlm-roberta-base").save(tmp_path / "soft.json")
    assert (tmp_path / "soft.json").stat().st_size < 5000


def test_one_function_reads_either_kind_and_the_wrong_kind_is_named(tmp_path: Path) -> None:
    hard, soft = HeadMask(PLAYERS, (True, False, True, True)), SoftMask(PLAYERS, GATES)
    hard.save(tmp_path / "hard.json")
    soft.save(tmp_path / "soft.json")
    assert load_mask(tmp_path / "hard.json") == hard
    assert load_mask(tmp_path / "soft.json") == soft
    with pytest.raises(HeadwiseError, match=r"soft\.json: not a headwise-mask file: its 'format' is 'headwise-soft-ma"):
        HeadMask.load(tmp_path / "soft.json")
    with pytest.raises(HeadwiseError, match=r"hard\.json: not a headwise-soft-mask file: its 'format' is 'headwise-m"):
        SoftMask.load(tmp_path / "hard.json")
    (tmp_path / "other.json").write_text('{"format": "headwise-scores", "version": 1}')
    with pytest.raises(HeadwiseError, match=r"not a headwise-mask or headwise-soft-mask file: its 'format' is 'headw"):
        load_mask(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 2 of headwise-soft-mask, but this headwise reads version 1"),
        ({"players": "neurons"}, "'players' must be one of heads, ffn, layers, not 'neurons'"),
        ({"gates": None}, "'gates' must be an object with the same sites as 'shape', in its order"),
        ({"gates": {"encoder.0": [1, 1]}}, "'gates' must be an object with the same sites"),
        ({"gates": {"encoder.0": [1, 1], "encoder.1": [1]}}, "'gates', 'encoder.1': expected a list of 2 numbers"),
        ({"gates": {"encoder.0": [1, "1"], "encoder.1": [1, 1]}}, "'encoder.0': expected a list of 2 numbers"),
        ({"gates": {"encoder.0": [1, True], "encoder.1": [1, 1]}}, "'encoder.0': expected a list of 2 numbers"),
        ({"gates": {"encoder.0": [1, 10**400], "encoder.1": [1, 1]}}, "'encoder.0': expected a list of 2 numbers"),
        ({"gates": {"encoder.0": [1, float("nan")], "encoder.1": [1, 1]}}, "'encoder.0': expected a list of 2"),
        ({"language": ["x"]}, r"'language' must be text or null, not \['x'\]"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "soft.json"
    SoftMask(PLAYERS, GATES).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(HeadwiseError, match=rf"soft\.json.*{message}"):
        load_mask(path)


def test_gates_must_be_one_finite_number_per_player() -> None:
    with pytest.raises(HeadwiseError, match="4 players, 1 gates"):
        SoftMask(PLAYERS, (1.0,))
    with pytest.raises(HeadwiseError, match="finite numbers, not nan"):
        SoftMask(PLAYERS, (1.0, float("nan"), 1.0, 1.0))


def test_the_grid_has_a_colour_scale_and_escapes_text() -> None:
    soft = SoftMask(PLAYERS, GATES, model="<script>", language='"&')
    shown = soft._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt; (" not in shown  # only the text that repr has
    assert "&lt;script&gt;, &quot;&amp;" in shown
    cells = shown.split("<td ")[1:]
    assert [cell.split('"')[1] for cell in cells] == [
        "encoder.0.0: 1.25", "encoder.0.1: 0", "encoder.1.0: -0.5", "encoder.1.1: 1",
    ]  # fmt: skip
    colours = [cell.split("background:")[1].split('"')[0] for cell in cells]
    assert colours[1] == "#222"
    assert colours[3] == "rgb(255,255,255)"
    assert len(set(colours)) == 4


def test_names_of_languages_survive_json(tmp_path: Path) -> None:
    soft = SoftMask(PLAYERS, GATES, model='a"b\\</script>', language="zh-你")
    soft.save(tmp_path / "soft.json")
    assert load_mask(tmp_path / "soft.json") == soft


@torch.no_grad()
def test_gates_of_a_soft_mask_are_those_of_a_tensor() -> None:
    case = BY_NAME["bert"]
    model, inputs = case.build(), inputs_for(case)
    heads = find_heads(model)
    gates = torch.linspace(-0.5, 2, len(heads.players()))
    with gated(model, gates):
        expected = outputs_of(model, inputs)
    with gated(model, SoftMask.of(heads, gates)):
        assert torch.equal(outputs_of(model, inputs), expected)
    hard = random_mask(heads, seed=1)
    with gated(model, SoftMask.of(heads, [float(on) for on in hard.on])):
        soft = outputs_of(model, inputs)
    with gated(model, hard):
        assert torch.equal(outputs_of(model, inputs), soft)
