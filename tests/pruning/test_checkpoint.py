"""save_pruned and load_pruned: exact, whole, and suspicious of what is not theirs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from headwise import HeadMask, HeadwiseError, find_heads, load_pruned, save_pruned, shrink
from headwise.errors import CheckpointError
from tests.families import BY_NAME, Case, difference, inputs_for, outputs_of, uneven_mask


def shrunk(case: Case) -> Any:
    model = case.build()
    return shrink(model, uneven_mask(find_heads(model)), inplace=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_pruned(shrunk(BY_NAME["xlm-roberta"]), tmp_path / "pruned")
    return tmp_path / "pruned"


@torch.no_grad()
def test_a_saved_model_comes_back_exactly(case: Case, tmp_path: Path) -> None:
    model, inputs = shrunk(case), inputs_for(case)
    save_pruned(model, tmp_path / "pruned")
    loaded = load_pruned(tmp_path / "pruned")
    assert type(loaded).__name__ == case.model_class
    assert not loaded.training
    assert find_heads(loaded).players() == find_heads(model).players()
    state = model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in loaded.state_dict().items())
    assert difference(outputs_of(loaded, inputs), outputs_of(model, inputs)) < 1e-6


@pytest.mark.parametrize("name", ["marian", "bart", "t5", "gemma", "gpt2"])
def test_tied_weights_are_saved_once_and_stay_tied(name: str, tmp_path: Path) -> None:
    case = BY_NAME[name]
    save_pruned(shrunk(case), tmp_path / "pruned")
    loaded = load_pruned(tmp_path / "pruned")
    assert loaded.get_output_embeddings().weight is loaded.get_input_embeddings().weight
    assert json.loads((tmp_path / "pruned" / "headwise.json").read_text())["tied"]


@torch.no_grad()
def test_it_loads_in_another_dtype_and_implementation(case: Case, tmp_path: Path) -> None:
    model = shrunk(case)
    expected = outputs_of(model, inputs_for(case))
    save_pruned(model, tmp_path / "pruned")
    loaded = load_pruned(tmp_path / "pruned", dtype="bfloat16", device="cpu", attn_implementation="eager")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    assert loaded.config._attn_implementation == "eager"
    assert difference(outputs_of(loaded, inputs_for(case)).float(), expected) < 0.2
    save_pruned(loaded, tmp_path / "half")
    again = load_pruned(tmp_path / "half", dtype=torch.float32)
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    assert difference(outputs_of(again, inputs_for(case)), expected) < 0.2


def test_an_encoder_without_a_pooler_comes_back_without_it(tmp_path: Path) -> None:
    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )  # fmt: skip
    model = BertModel(config, add_pooling_layer=False).eval()
    small = shrink(model, HeadMask.without(find_heads(model), ["encoder.0.1"]))
    save_pruned(small, tmp_path / "small")
    loaded = load_pruned(tmp_path / "small")
    tokens = torch.tensor([[1, 2, 3]])
    assert loaded.pooler is None
    assert torch.equal(loaded(tokens).last_hidden_state, small(tokens).last_hidden_state)


def test_what_t5_keeps_in_float32_stays_there(tmp_path: Path) -> None:
    case = BY_NAME["mt5"]
    save_pruned(shrunk(case), tmp_path / "pruned")
    loaded = load_pruned(tmp_path / "pruned", dtype="float16")
    kept = {name for name, parameter in loaded.named_parameters() if parameter.dtype == torch.float32}
    assert kept
    assert all(".wo." in name for name in kept)


def test_an_unknown_dtype_or_argument_is_refused(folder: Path) -> None:
    with pytest.raises(HeadwiseError, match="no dtype 'float17'"):
        load_pruned(folder, dtype="float17")
    with pytest.raises(TypeError, match="torch_dtype"):
        load_pruned(folder, torch_dtype=torch.float16)  # type: ignore[call-arg]
    assert load_pruned(folder, dtype="auto").dtype == torch.float32


@torch.no_grad()
def test_weights_that_a_config_only_claims_to_be_tied_stay_apart(tmp_path: Path) -> None:
    case = BY_NAME["gpt2"]
    model, inputs = shrunk(case), inputs_for(case)
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    save_pruned(model, tmp_path / "pruned")
    assert difference(outputs_of(load_pruned(tmp_path / "pruned"), inputs), outputs_of(model, inputs)) < 1e-6


def test_a_loaded_model_can_be_tuned_pruned_and_saved_again(folder: Path, tmp_path: Path) -> None:
    case = BY_NAME["xlm-roberta"]
    loaded = load_pruned(folder)
    outputs_of(loaded.train(), inputs_for(case)).pow(2).mean().backward()
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    mask = uneven_mask(find_heads(loaded), empty_layer=2)
    save_pruned(shrink(loaded, mask), tmp_path / "twice")
    assert find_heads(load_pruned(tmp_path / "twice")).players() == tuple(n for n in mask.players if n not in mask.off)


def test_the_folder_has_a_tokenizer_and_a_card(tmp_path: Path) -> None:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?")), unk_token="?"
    )
    model = shrunk(BY_NAME["xlm-roberta"])
    model.config.name_or_path = "someone/model"
    save_pruned(model, tmp_path / "pruned", tokenizer, languages=("sw", "tr"))
    card = (tmp_path / "pruned" / "README.md").read_text()
    for line in (
        "base_model: someone/model",
        "- sw",
        "- tr",
        "- pruned",
        "8 of 12 attention heads removed",
        "| encoder.0 | 0 | 0, 1, 2, 3 |",
    ):
        assert line in card
    assert PreTrainedTokenizerFast.from_pretrained(tmp_path / "pruned")("a").input_ids == [0]


def test_the_card_does_not_tell_the_paths_of_a_machine(tmp_path: Path) -> None:
    model = shrunk(BY_NAME["xlm-roberta"])
    model.config.name_or_path = str(tmp_path / "secret" / "model")
    save_pruned(model, tmp_path / "pruned", languages="sw")
    for file in ("README.md", "headwise.json", "config.json"):
        assert "secret" not in (tmp_path / "pruned" / file).read_text()
    assert "language:\n- sw\n" in (tmp_path / "pruned" / "README.md").read_text()


def test_plain_transformers_refuses_the_folder_even_when_told_to_ignore_sizes(folder: Path) -> None:
    from transformers import XLMRobertaForTokenClassification

    for arguments in ({}, {"ignore_mismatched_sizes": True}):
        with pytest.raises(OSError, match=r"model\.safetensors"):
            XLMRobertaForTokenClassification.from_pretrained(folder, **arguments)


def test_a_folder_in_use_is_not_overwritten_unless_asked(folder: Path) -> None:
    model = shrunk(BY_NAME["bert"])
    with pytest.raises(HeadwiseError, match="not empty"):
        save_pruned(model, folder)
    save_pruned(model, folder, overwrite=True)
    assert type(load_pruned(folder)).__name__ == "BertModel"


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    BY_NAME["bert"].build().save_pretrained(tmp_path / "plain")
    with pytest.raises(CheckpointError, match=r"plain: not a checkpoint of save_pruned.*from_pretrained"):
        load_pruned(tmp_path / "plain")
    with pytest.raises(CheckpointError, match="neither a folder nor a model"):
        load_pruned("no-such/model")


def test_a_name_that_is_no_folder_is_asked_for_at_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def snapshot_download(name: str, **arguments: object) -> str:
        asked.extend([name, arguments])
        return str(folder)

    monkeypatch.setattr("headwise.pruning.checkpoint.snapshot_download", snapshot_download)
    loaded = load_pruned("someone/pruned", revision="main", token="secret")
    assert len(find_heads(loaded).players()) == 4
    assert asked == [
        "someone/pruned",
        {"revision": "main", "token": "secret", "cache_dir": None, "local_files_only": False},
    ]


def damage(folder: Path, fault: str) -> None:
    weights, config, manifest = folder / "pruned.safetensors", folder / "config.json", folder / "headwise.json"
    match fault:
        case "flipped":
            data = bytearray(weights.read_bytes())
            data[-1] ^= 1
            weights.write_bytes(data)
        case "truncated":
            weights.write_bytes(weights.read_bytes()[:-100])
        case "missing":
            weights.unlink()
        case "config":
            config.write_text("{")
        case "other config":
            config.write_text(json.dumps({**json.loads(config.read_text()), "headwise_pruned": {"encoder.0": [1]}}))
        case "impossible config":
            config.write_text(json.dumps({**json.loads(config.read_text()), "headwise_pruned": {"encoder.9": [1]}}))
        case "strange config":
            config.write_text(json.dumps({**json.loads(config.read_text()), "hidden_act": "zzz"}))
        case "deep config":
            config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 2**40}))
        case "tied":
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "tied": ["a"]}))
        case "tied to a list":
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "tied": {"a": ["b"]}}))
        case "whole numbers" | "doubles":
            kind = torch.int64 if fault == "whole numbers" else torch.float64
            save_file({name: each.to(kind) for name, each in load_file(weights).items()}, weights)
            digest = hashlib.sha256(weights.read_bytes()).hexdigest()
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "sha256": digest}))
        case "class":
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "class": "Path"}))
        case "manifest":
            manifest.write_text("not json")
        case "version":
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": 99}))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("flipped", "damaged: its checksum"),
        ("truncated", "damaged: its checksum"),
        ("missing", r"pruned\.safetensors: cannot be read"),
        ("config", r"no model can be built from its config\.json"),
        ("strange config", r"no model can be built from its config\.json"),
        ("tied", "'tied' does not fit"),
        ("tied to a list", "'tied' does not fit"),
        ("whole numbers", "weights of the type whole numbers, which save_pruned does not write"),
        ("doubles", "weights of the type float64, which save_pruned does not write"),
        ("deep config", r"built from its config\.json: 'num_hidden_layers' is 1099511627776, but models have at most"),
        ("other config", r"\d+ tensors do not fit config\.json"),
        ("impossible config", r"built from its config\.json.*encoder\.9\.1"),
        ("class", "'class' 'Path' is not a model of transformers"),
        ("manifest", "line 1: not JSON"),
        ("version", "version 99"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(folder: Path, fault: str, message: str) -> None:
    damage(folder, fault)
    with pytest.raises(CheckpointError, match=message) as error:
        load_pruned(folder)
    assert "\n" not in str(error.value)


def test_a_truncated_file_is_refused_without_the_checksum_too(folder: Path) -> None:
    damage(folder, "truncated")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_pruned(folder, verify=False)


def test_a_class_of_ones_own_is_refused_at_saving(tmp_path: Path) -> None:
    class Mine(type(BY_NAME["bert"].build())):  # type: ignore[misc]
        pass

    model = BY_NAME["bert"].build()
    model.__class__ = Mine
    with pytest.raises(HeadwiseError, match="Mine is not a class of transformers"):
        save_pruned(model, tmp_path / "pruned")
    assert not (tmp_path / "pruned").exists()


@pytest.mark.parametrize("content", ["{", "[1]", '{"max_length": "long"}', "[" * 5000])
def test_a_damaged_generation_config_is_named(tmp_path: Path, content: str) -> None:
    model = BY_NAME["gpt2"].build()
    save_pruned(shrink(model, HeadMask.full(find_heads(model))), tmp_path / "pruned")
    (tmp_path / "pruned" / "generation_config.json").write_text(content)
    try:
        load_pruned(tmp_path / "pruned")
    except CheckpointError as error:
        assert "generation_config.json: cannot be read" in str(error)  # noqa: PT017 - some versions read it
