"""PEFT folders: base and adapter come together, merged or not, and what does not fit is said."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import (
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    XLMRobertaForTokenClassification,
    XLMRobertaModel,
)

from headwise import HeadwiseError, find_heads, gated, load_pruned, save_pruned, shrink
from headwise.models import add_head, load_model, load_skeleton, load_tokenizer
from tests.cli.running import run
from tests.families import BY_NAME, difference, enliven, inputs_for, outputs_of, uneven_mask

LABELS = ("a", "b", "c")


@dataclass(frozen=True)
class Saved:
    """An adapter in a folder, and what its model said when it was saved."""

    folder: Path
    base: Path
    family: str
    logits: Tensor


def save(tmp_path: Path, family: str, model: Any, config: LoraConfig) -> Saved:
    torch.manual_seed(1)
    adapted = get_peft_model(model, config)
    enliven(adapted)
    adapted.save_pretrained(tmp_path / "adapter")
    with torch.no_grad():
        logits = outputs_of(adapted.eval(), inputs_for(BY_NAME[family]))
    return Saved(tmp_path / "adapter", tmp_path / "base", family, logits)


def reload(build: Callable[[], Any], path: Path) -> Any:
    """A model that knows the folder it comes from."""
    model = build()
    PreTrainedModel.save_pretrained(model, path)  # our own class refuses it
    return type(model).from_pretrained(path)


def tagger(tmp_path: Path, **options: Any) -> Saved:
    """LoRA and a new classifier on a bare encoder."""
    XLMRobertaModel(BY_NAME["xlm-roberta"].build().config, add_pooling_layer=False).save_pretrained(tmp_path / "base")
    model = XLMRobertaForTokenClassification.from_pretrained(tmp_path / "base", num_labels=7)
    return save(
        tmp_path,
        "xlm-roberta",
        model,
        LoraConfig(task_type="TOKEN_CLS", target_modules=["query", "value"], **options),
    )


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


TARGETS = {
    "xlm-roberta": ("TOKEN_CLS", ["query", "value"]),
    "roberta": ("SEQ_CLS", ["query", "value", "attention.output.dense"]),
    "marian": ("SEQ_2_SEQ_LM", ["q_proj", "out_proj"]),
    "mt5": ("SEQ_2_SEQ_LM", ["q", "o"]),
    "llama": ("CAUSAL_LM", ["q_proj", "o_proj"]),
    "gpt2": ("CAUSAL_LM", ["c_attn"]),
    "bert": (None, ["query", "value"]),
}


@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.parametrize("named", [True, False], ids=["task type", "class name"])
def test_merged_unmerged_and_original_agree(family: str, named: bool, tmp_path: Path) -> None:
    kind, targets = TARGETS[family]
    model = reload(BY_NAME[family].build, tmp_path / "base")
    config = LoraConfig(task_type=kind if named else None, target_modules=targets)
    saved = save(tmp_path, family, model, config)
    merged, unmerged = load_model(saved.folder), load_model(saved.folder, merge=False)
    assert type(merged).__name__ == BY_NAME[family].model_class
    assert isinstance(unmerged, peft.PeftModel)
    assert not merged.training
    assert all(weight.requires_grad for weight in merged.parameters())  # it can be tuned like any other
    with torch.no_grad():
        inputs = inputs_for(BY_NAME[family])
        assert difference(outputs_of(unmerged, inputs), saved.logits) < 1e-6
        assert difference(outputs_of(merged, inputs), saved.logits) < 1e-5
        assert difference(outputs_of(load_model(saved.base), inputs), saved.logits) > 1e-3


def test_a_classifier_that_only_the_adapter_has_is_as_wide_as_it_was_saved(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    model = load_model(saved.folder)
    assert model.config.num_labels == 7
    with torch.no_grad():
        assert difference(outputs_of(model, inputs_for(BY_NAME["xlm-roberta"])), saved.logits) < 1e-5
    assert model.config.name_or_path == str(saved.folder)


def test_labels_are_those_of_a_config_beside_the_adapter(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    names = {str(number): f"tag{number}" for number in range(7)}
    (saved.folder / "config.json").write_text(json.dumps({"id2label": names}))
    config = load_model(saved.folder).config
    assert config.id2label == {number: f"tag{number}" for number in range(7)}
    assert config.label2id["tag6"] == 6


def test_a_base_of_our_own_class_keeps_it(tmp_path: Path) -> None:
    BertModel(BY_NAME["bert"].build().config, add_pooling_layer=False).save_pretrained(tmp_path / "encoder")
    pooled = add_head(tmp_path / "encoder", "sequence", LABELS, mean_pooling=True)
    for kind in ("SEQ_CLS", None):
        PreTrainedModel.save_pretrained(pooled, tmp_path / "base")  # as earlier versions did
        model = load_model(tmp_path / "base")
        config = LoraConfig(task_type=kind, target_modules=["query"], modules_to_save=["classifier"])
        saved = save(tmp_path, "bert", model, config)
        loaded = load_model(saved.folder)
        assert type(loaded).__name__ == "MeanPooledBertForSequenceClassification"
        with torch.no_grad():
            assert difference(outputs_of(loaded, inputs_for(BY_NAME["bert"])), saved.logits) < 1e-5


def test_the_skeleton_has_the_heads_of_the_base_and_no_weights(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    skeleton = load_skeleton(saved.folder)
    assert all(parameter.is_meta for parameter in skeleton.parameters())
    assert find_heads(skeleton).players() == find_heads(load_model(saved.folder)).players()
    assert skeleton.config.num_labels == 7


def test_heads_gates_and_cuts_work_on_what_was_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tagger(tmp_path)
    merged, unmerged = load_model(saved.folder), load_model(saved.folder, merge=False)
    assert find_heads(merged).fingerprint == find_heads(unmerged).fingerprint
    assert find_heads(merged).fingerprint != find_heads(load_model(saved.base)).fingerprint
    mask, inputs = uneven_mask(find_heads(merged)), inputs_for(BY_NAME["xlm-roberta"])
    with torch.no_grad():
        with gated(unmerged, mask):
            expected = outputs_of(unmerged, inputs)
        assert difference(outputs_of(shrink(merged, mask), inputs), expected) < 1e-5
        save_pruned(shrink(merged, mask), tmp_path / "cut")
        assert difference(outputs_of(load_pruned(tmp_path / "cut"), inputs), expected) < 1e-5
    assert run(monkeypatch, "heads", saved.folder, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["sites"]) == 3


def words(*names: str) -> Any:
    base = Tokenizer(WordLevel({name: number for number, name in enumerate(("[UNK]", *names))}, unk_token="[UNK]"))
    return PreTrainedTokenizerFast(tokenizer_object=base, unk_token="[UNK]")


def test_the_tokenizer_is_the_adapters_own_or_that_of_its_base(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    assert load_tokenizer(saved.folder) is None
    words("base").save_pretrained(saved.base)
    assert "base" in load_tokenizer(saved.folder).get_vocab()
    words("own").save_pretrained(saved.folder)
    assert "own" in load_tokenizer(saved.folder).get_vocab()


def test_tokens_added_in_training_have_their_place(tmp_path: Path) -> None:
    model = reload(BY_NAME["llama"].build, tmp_path / "base")
    model.resize_token_embeddings(53)
    config = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head"])
    saved = save(tmp_path, "llama", model, config)
    words(*(f"w{number}" for number in range(52))).save_pretrained(saved.folder)
    with torch.no_grad():
        found = outputs_of(load_model(saved.folder), inputs_for(BY_NAME["llama"]))
    assert found.shape[-1] == 53
    assert difference(found, saved.logits) < 1e-5


def test_other_adapters_are_merged_too_and_prompts_are_not(tmp_path: Path) -> None:
    model = reload(BY_NAME["llama"].build, tmp_path / "base")
    saved = save(tmp_path, "llama", model, LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], use_dora=True))
    with torch.no_grad():
        assert difference(outputs_of(load_model(saved.folder), inputs_for(BY_NAME["llama"])), saved.logits) < 1e-5
    prompt = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    get_peft_model(reload(BY_NAME["llama"].build, tmp_path / "base"), prompt).save_pretrained(tmp_path / "prompt")
    with pytest.raises(HeadwiseError, match=r"prompt: a PROMPT_TUNING adapter cannot be merged.*merge=False"):
        load_model(tmp_path / "prompt")
    assert isinstance(load_model(tmp_path / "prompt", merge=False), peft.PeftModel)


def complaint(folder: Path) -> str:
    with pytest.raises(HeadwiseError) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_base_is_named_with_the_folder(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    for base, message in (
        (str(tmp_path / "gone"), f"{tmp_path / 'gone'}: no such folder"),
        ("someone/gone", "someone/gone: neither a folder nor a model in the cache"),
    ):
        edit(saved.folder, base_model_name_or_path=base)
        found = complaint(saved.folder)
        assert found.startswith(f"{saved.folder}: the adapter's base model is missing")
        assert message in found
        with pytest.raises(HeadwiseError, match="base model is missing"):
            load_skeleton(saved.folder)
    edit(saved.folder, base_model_name_or_path=None)
    assert "no base model" in complaint(saved.folder)


def test_pickles_are_refused(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    (saved.folder / "adapter_model.safetensors").rename(saved.folder / "adapter_model.bin")
    assert "adapter_model.bin is a pickle" in complaint(saved.folder)
    (saved.folder / "adapter_model.bin").unlink()
    assert "adapter_model.safetensors is missing" in complaint(saved.folder)


def test_without_peft_its_name_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tagger(tmp_path)
    monkeypatch.setitem(sys.modules, "peft", None)
    assert complaint(saved.folder) == f"{saved.folder}: adapters need the package peft: pip install 'headwise[peft]'"
    assert len(find_heads(load_skeleton(saved.folder)).players()) == 12


def test_weights_that_nobody_saved_are_not_made_up(tmp_path: Path) -> None:
    BertModel(BY_NAME["bert"].build().config, add_pooling_layer=False).save_pretrained(tmp_path / "base")
    model = add_head(tmp_path / "base", "words", LABELS)
    saved = save(tmp_path, "bert", model, LoraConfig(target_modules=["query"]))  # the new classifier is left behind
    assert "classifier.bias is neither in the adapter nor in its base" in complaint(saved.folder)


def test_what_cannot_be_read_or_does_not_fit_is_named(tmp_path: Path) -> None:
    saved = tagger(tmp_path)
    labels = saved.folder / "config.json"
    for damaged in (["a", "b"], {"first": "a"}, "a"):
        labels.write_text(json.dumps({"id2label": damaged}))
        assert f"{labels}: 'id2label' must map whole numbers to labels: restore it" in complaint(saved.folder)
    labels.unlink()
    edit(saved.folder, r=3)
    assert f"the adapter does not fit its base {saved.base}" in complaint(saved.folder)
    weights = saved.folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:50])
    assert f"{weights}: cannot be read" in complaint(saved.folder)
    (saved.folder / "adapter_config.json").write_text("[]")
    assert "adapter_config.json: not a JSON object" in complaint(saved.folder)
    (saved.folder / "adapter_config.json").write_text("{")
    assert "adapter_config.json: cannot be read" in complaint(saved.folder)
