"""load_model: what the config names, from a folder, pruned or not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from headwise import HeadwiseError, find_heads, save_pruned, shrink
from headwise.models import add_head, load_model, load_skeleton, load_tokenizer, sources
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
    for name, message in (("empty", r"no config\.json"), ("broken", "not a model"), ("cut", "cannot be loaded")):
        with pytest.raises(HeadwiseError, match=rf"{name}: .*{message}") as error:
            load_model(tmp_path / name)
        assert "\n" not in str(error.value)


def without(folder: Path, *endings: str) -> Path:
    """Take weights out of a checkpoint."""
    path = folder / "model.safetensors"
    save_file({name: weight for name, weight in load_file(path).items() if not name.endswith(endings)}, path,
              metadata={"format": "pt"})  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("family", "endings", "named"),
    [
        ("xlm-roberta", ("classifier.weight",), "classifier.weight is missing"),
        ("xlm-roberta", ("LayerNorm.bias",), "LayerNorm.bias, .* and 4 more are missing"),
        ("roberta", ("roberta.encoder.layer.1.output.dense.bias",), "layer.1.output.dense.bias is missing"),
        ("bert", ("word_embeddings.weight",), "word_embeddings.weight is missing"),
    ],
)
def test_weights_that_are_missing_are_not_made_up(
    tmp_path: Path, family: str, endings: tuple[str, ...], named: str
) -> None:
    BY_NAME[family].build().save_pretrained(tmp_path)
    with pytest.raises(HeadwiseError, match=rf"model\.safetensors: .*{named} and would be random") as error:
        load_model(without(tmp_path, *endings))
    assert "\n" not in str(error.value)


def test_an_encoder_needs_no_pooler_and_a_tied_weight_is_saved_once(tmp_path: Path) -> None:
    BY_NAME["bert"].build().save_pretrained(tmp_path / "bare")
    assert load_model(without(tmp_path / "bare", "pooler.dense.weight", "pooler.dense.bias"))
    BY_NAME["marian"].build(tie_word_embeddings=True).save_pretrained(tmp_path / "tied")
    assert load_model(without(tmp_path / "tied", "lm_head.weight"))


def test_a_new_head_is_new_but_what_is_below_is_not(tmp_path: Path) -> None:
    BY_NAME["bert"].build().save_pretrained(tmp_path)
    without(tmp_path, "pooler.dense.weight", "pooler.dense.bias")
    for kind in ("words", "sequence"):
        assert add_head(tmp_path, kind, ("a", "b")).config.num_labels == 2
    without(tmp_path, "layer.0.attention.self.query.weight")
    for kind in ("words", "sequence"):
        with pytest.raises(HeadwiseError, match=r"query\.weight is missing"):
            add_head(tmp_path, kind, ("a", "b"))


@pytest.mark.parametrize(
    "changes",
    [
        *({"num_hidden_layers": "two"}, {"hidden_size": 30}, {"num_attention_heads": 0}, {"hidden_act": "no"}),
        *({"architectures": True}, {"architectures": "BertModel"}, {"num_hidden_layers": 2**40}),
    ],
)
def test_a_config_of_no_model_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    BY_NAME["bert"].build().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
    for load in (load_model, load_skeleton):
        with pytest.raises(HeadwiseError, match=f"^{tmp_path}: ") as error:
            load(tmp_path)
        assert "\n" not in str(error.value)


def test_a_name_that_nothing_can_have_is_no_folder() -> None:
    for name in ("a" * 290, "é" * 200, f"./{'a' * 290}"):
        with pytest.raises(HeadwiseError, match="no such folder"):
            load_model(name)
        assert load_tokenizer(name) is None


def test_a_hub_out_of_reach_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(url: str) -> None:
        asked.append(url)
        raise ConnectionError("no route to host")

    monkeypatch.setattr(sources, "get_hf_file_metadata", refuse)
    with pytest.raises(
        HeadwiseError, match=r"nobody/nothing: .* the hub cannot be reached \(no route to host\): check"
    ):
        load_skeleton("nobody/nothing")
    assert len(asked) == 1


def test_without_the_hub_there_is_what_was_fetched_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").touch()
    kept = {"config.json": str(tmp_path / "config.json")}
    monkeypatch.setattr(sources, "try_to_load_from_cache", lambda name, file: kept.get(file))
    assert sources.find_file("somebody/something", "config.json") == tmp_path / "config.json"
    assert sources.find_file("somebody/something", "headwise.json") is None
