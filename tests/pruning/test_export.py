"""Exports: three ways to write the same pruned model, and the size that is reported."""

from pathlib import Path

import pytest
import torch
from transformers import BertModel

from headwise import HeadMask, SoftMask, find_heads, gated, load_pruned
from headwise.errors import HeadwiseError
from headwise.pruning import export
from tests.families import BY_NAME, uneven_mask


def build() -> BertModel:
    torch.manual_seed(0)
    return BertModel(BY_NAME["bert"].build().config).eval()


@pytest.mark.parametrize("kind", ["mask", "folded", "shrunk"])
def test_every_export_computes_what_the_gated_model_computes(kind: str, tmp_path: Path) -> None:
    model, tokens = build(), torch.tensor([[1, 5, 6, 2]])
    mask = uneven_mask(find_heads(model))
    with torch.no_grad(), gated(model, mask):
        expected = model(tokens).last_hidden_state
    size = sum(weight.numel() for weight in model.parameters())
    found = export(build(), mask, None, tmp_path / "out", kind)
    if kind == "shrunk":
        loaded = load_pruned(tmp_path / "out")
        assert found.parameters == (size, sum(weight.numel() for weight in loaded.parameters()))
        assert found.parameters[1] < size
    else:
        assert found.parameters == (size, size)
        loaded = BertModel.from_pretrained(tmp_path / "out") if kind == "folded" else build()
    if kind == "mask":
        with torch.no_grad(), gated(loaded, HeadMask.load(tmp_path / "out" / "mask.json")):
            output = loaded(tokens).last_hidden_state
    else:
        with torch.no_grad():
            output = loaded(tokens).last_hidden_state
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


def test_a_folder_that_is_not_empty_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    model = build()
    with pytest.raises(HeadwiseError, match="the folder is not empty"):
        export(model, uneven_mask(find_heads(model)), None, tmp_path, "mask")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_card_of_a_smaller_model_says_what_else_was_changed(tmp_path: Path) -> None:
    heads = find_heads(build())
    players = heads.players()
    soft = SoftMask.of(heads, [0.0, 1.5, -0.25, *[1.0] * (len(players) - 3)])
    export(build(), soft, None, tmp_path / "soft", repair=lambda model: True)
    card = (tmp_path / "soft" / "README.md").read_text()
    assert "The outputs of the other heads are scaled by learned gates from -0.25 to 1.5." in card
    assert "refit by least squares" in card
    export(build(), uneven_mask(heads), None, tmp_path / "hard", repair=lambda model: False)
    card = (tmp_path / "hard" / "README.md").read_text()
    assert "learned gates" not in card
    assert "least squares" not in card
