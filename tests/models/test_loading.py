"""load_model: what the config names, from a folder, pruned or not."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from headwise import HeadwiseError, find_heads, save_pruned, shrink
from headwise.models import load_model, load_skeleton, load_tokenizer
from tests.families import BY_NAME, Case, difference, inputs_for, outputs_of, uneven_mask


@torch.no_grad()
def test_a_model_comes_with_the_head_that_it_was_saved_with(case: Case, tmp_path: Path) -> None:
    model, inputs = case.build(), inputs_for(case)
    model.save_pretrained(tmp_path)
    loaded = load_model(tmp_path)
    assert type(loaded) is type(model)
    assert difference(outputs_of(loaded, inputs), outputs_of(model, inputs)) < 1e-6


def test_a_pruned_folder_is_recognised(tmp_path: Path) -> None:
    model = BY_NAME["bert"].build()
    save_pruned(shrink(model, uneven_mask(find_heads(model))), tmp_path / "pruned")
    assert len(find_heads(load_model(tmp_path / "pruned")).players()) == 4


def test_a_skeleton_has_heads_and_no_weights(tmp_path: Path) -> None:
    BY_NAME["llama"].build().save_pretrained(tmp_path)
    skeleton = load_skeleton(tmp_path)
    assert all(parameter.is_meta for parameter in skeleton.parameters())
    assert len(find_heads(skeleton).players()) == 12


def test_the_tokenizer_is_optional_but_a_broken_one_is_an_error(tmp_path: Path) -> None:
    BY_NAME["bert"].build().save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path) is None
    words = Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("a").input_ids == [0]


def test_folders_without_a_readable_model_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    BY_NAME["bert"].build().save_pretrained(tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-50])
    for name, message in (("empty", r"no config\.json"), ("broken", "no model there"), ("cut", "cannot be loaded")):
        with pytest.raises(HeadwiseError, match=rf"{name}: .*{message}") as error:
            load_model(tmp_path / name)
        assert "\n" not in str(error.value)
