"""HeadMask: a set of players with the model it belongs to."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headwise import HeadMask, HeadwiseError, find_heads, shrink
from headwise.errors import MaskMismatchError
from tests.families import BY_NAME, random_mask, uneven_mask

PLAYERS = ("encoder.0.0", "encoder.0.1", "encoder.1.0", "encoder.1.1")
masks = st.tuples(*[st.booleans()] * 4).map(lambda on: HeadMask(PLAYERS, on, model="tiny", fingerprint="f"))


def test_a_mask_counts_and_names_its_players() -> None:
    mask = HeadMask(PLAYERS, (True, False, False, True))
    assert mask.count == 2
    assert mask.off == ("encoder.0.1", "encoder.1.0")
    assert torch.equal(mask.tensor(), torch.tensor([True, False, False, True]))


@given(masks, masks)
def test_masks_are_sets_of_what_is_on(a: HeadMask, b: HeadMask) -> None:
    on = {mask: {name for name in PLAYERS if name not in mask.off} for mask in (a, b)}
    assert set(PLAYERS) - set((a & b).off) == on[a] & on[b]
    assert set(PLAYERS) - set((a | b).off) == on[a] | on[b]
    assert set(PLAYERS) - set((a - b).off) == on[a] - on[b]
    assert set(PLAYERS) - set((~a).off) == set(PLAYERS) - on[a]
    assert ~~a == a


def test_masks_of_different_models_do_not_mix() -> None:
    mask = HeadMask(PLAYERS, (True,) * 4, model="one", fingerprint="f")
    with pytest.raises(MaskMismatchError, match=r"weights f \(one\), but two has the weights g"):
        mask & HeadMask(PLAYERS, (True,) * 4, model="two", fingerprint="g")
    with pytest.raises(MaskMismatchError, match=r"4 players .* but two has 3 players"):
        mask | HeadMask(PLAYERS[:3], (True,) * 3, model="two")


def test_the_language_stays_only_where_both_agree() -> None:
    zh, tr = (HeadMask(PLAYERS, (True,) * 4, language=language) for language in ("zh", "tr"))
    assert (zh & zh).language == "zh"
    assert (zh & tr).language is None


@pytest.mark.parametrize("name", ["bert", "mt5", "llama"])
def test_saved_and_loaded_masks_are_equal(name: str, tmp_path: Path) -> None:
    mask = random_mask(find_heads(BY_NAME[name].build()), seed=1)
    mask.save(tmp_path / "deep" / "mask.json")
    assert HeadMask.load(tmp_path / "deep" / "mask.json") == mask


def test_masks_of_pruned_models_and_of_layers_survive_saving(tmp_path: Path) -> None:
    model = BY_NAME["bert"].build()
    heads = find_heads(shrink(model, uneven_mask(find_heads(model))))
    for mask in (HeadMask.full(heads, language="sw"), HeadMask.without(heads, ["encoder.layer.1"], kind="layers")):
        mask.save(tmp_path / "mask.json")
        assert HeadMask.load(tmp_path / "mask.json") == mask


def test_a_mask_of_144_heads_is_a_few_hundred_bytes(tmp_path: Path) -> None:
    players = tuple(f"encoder.{layer}.{head}" for layer in range(12) for head in range(12))
    mask = HeadMask(
        players, tuple(index % 12 != 5 for index in range(144)), model="xlm-roberta-base", fingerprint="0" * 16
    )
    mask.save(tmp_path / "mask.json")
    assert (tmp_path / "mask.json").stat().st_size < 900


def test_a_mask_may_be_written_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "mask.json"
    path.write_text(
        json.dumps(
            {
                "format": "headwise-mask",
                "version": 1,
                "players": "heads",
                "shape": {"encoder.0": 4, "encoder.1": 4, "encoder.2": 4},
                "off": {"encoder.1": [0, 3]},
            }
        )
    )
    mask = HeadMask.load(path)
    assert mask.off == ("encoder.1.0", "encoder.1.3")
    mask.check(find_heads(BY_NAME["bert"].build()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "not a headwise-mask file"),
        ({"version": 2}, "version 2 of headwise-mask, but this headwise reads version 1"),
        ({"players": "neurons"}, "'players' must be one of heads, ffn, layers, not 'neurons'"),
        ({"shape": None}, "'shape' must be an object"),
        ({"off": {"encoder.0": 3}}, "'off', 'encoder.0': expected a list of head numbers, found 3"),
        ({"off": {"encoder.0": [9]}}, "'off' names encoder.0.9, which 'shape' does not have"),
        (
            {"shape": {"encoder.0": 10**12}},
            "'shape', 'encoder.0': at most 10000 are allowed, not 1000000000000",
        ),
        ({"language": ["x"]}, r"'language' must be text or null, not \['x'\]"),
        ({"fingerprint": 7}, "'fingerprint' must be text or null, not 7"),
        ({"off": {"encoder.0": ["1"]}}, r"expected a list of head numbers, found \['1'\]"),
    ],
)
def test_a_broken_mask_file_is_named_with_its_fault(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "mask.json"
    HeadMask(PLAYERS, (True,) * 4).save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(HeadwiseError, match=rf"mask\.json.*{message}"):
        HeadMask.load(path)


def test_files_that_are_no_json_or_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{\n "format": \n}')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    for name, message in (
        ("bad.json", "line 3: not JSON"),
        ("bytes.json", "cannot be read"),
        ("none.json", "no such file"),
    ):
        with pytest.raises(HeadwiseError, match=rf"{name}.*{message}"):
            HeadMask.load(tmp_path / name)


def test_unknown_heads_are_named() -> None:
    with pytest.raises(
        HeadwiseError, match=r"no player 'encoder\.7\.0': it has 12 players \(encoder\.0\.0 … encoder\.2\.3\)"
    ):
        HeadMask.without(find_heads(BY_NAME["bert"].build()), ["encoder.7.0"])


def test_a_mask_has_one_value_for_each_player() -> None:
    with pytest.raises(HeadwiseError, match="4 players, 1 values"):
        HeadMask(PLAYERS, (True,))


def test_combining_keeps_the_weights_that_either_mask_knows() -> None:
    known, unknown = (HeadMask(PLAYERS, (True,) * 4, fingerprint=fingerprint) for fingerprint in ("f", None))
    assert (known & unknown).fingerprint == (unknown & known).fingerprint == "f"
