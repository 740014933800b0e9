"""LoRA: only adapters and the classifier are trained, the result is a plain model, and runs resume to the same bits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from headwise import HeadMask, HeadwiseError, find_heads, gated, shrink
from headwise.engine.evaluation import evaluate
from headwise.tuning import TuningSettings, train_model
from headwise.tuning.lora import lora_adapters
from tests.tuning.test_loop import DEV, TASK, TRAIN, build

SETTINGS = TuningSettings(epochs=3, learning_rate=2e-2, batch_tokens=64, warmup=0.0, lora_rank=2)


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def flags_of(model: nn.Module) -> dict[str, bool]:
    return {name: weight.requires_grad for name, weight in model.named_parameters()}


def test_changes_have_the_rank_and_nothing_else_changes(tokenizer: Any) -> None:
    model = build()
    before, flags = weights_of(model), flags_of(model)
    result = train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    assert result.best_value > 90
    assert evaluate(model, TASK, DEV, tokenizer).value == pytest.approx(result.best_value)
    after = weights_of(model)
    assert after.keys() == before.keys(), "the model is a plain one again"
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    linear = {f"{name}.weight" for name, module in model.bert.named_modules() if isinstance(module, nn.Linear)}
    assert changed == {f"bert.{name}" for name in linear} | {"classifier.weight", "classifier.bias"}
    for name in linear:
        assert torch.linalg.matrix_rank((after[f"bert.{name}"] - before[f"bert.{name}"]).double(), rtol=1e-4) <= 2
    frozen = "bert.embeddings.word_embeddings.weight"
    assert flags_of(model) == {**flags, frozen: False}
    assert not hasattr(model, "peft_config")


def test_it_equals_training_a_peft_model_by_hand(tokenizer: Any) -> None:
    model, other = build(), build()
    train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    names = [f"bert.{name}" for name, module in other.bert.named_modules() if isinstance(module, nn.Linear)]
    torch.manual_seed(SETTINGS.seed)
    adapted = get_peft_model(
        other, LoraConfig(r=2, lora_alpha=4, target_modules=names, modules_to_save=["classifier"])
    )  # fmt: skip
    train_model(adapted, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, lora_rank=0))
    merged = adapted.merge_and_unload()
    for (name, one), two in zip(model.named_parameters(), merged.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5, msg=name)


def test_a_model_without_the_heads_of_a_layer_is_tuned(tokenizer: Any) -> None:
    model = build()
    heads = find_heads(model)
    off = [name for name in heads.players() if name.startswith("encoder.0.")]
    small = shrink(model, HeadMask.without(heads, off))
    assert train_model(small, TASK, TRAIN, DEV, tokenizer, SETTINGS).best_value > 90
    assert find_heads(small).players() == tuple(name for name in heads.players() if name not in off)


class KilledError(Exception):
    """Stands for a kill."""


def stopping(steps: int) -> Callable[[int, int, str], None]:
    def stop(done: int, _total: int, _status: str) -> None:
        if done == steps:
            raise KilledError

    return stop


def test_a_killed_run_ends_with_the_same_weights(tokenizer: Any, tmp_path: Path) -> None:
    whole, killed, resumed = build(), build(), build()
    first = train_model(whole, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    before = weights_of(killed)
    with pytest.raises(KilledError):
        train_model(
            killed, TASK, TRAIN, DEV, tokenizer, SETTINGS, tmp_path / "state", stopping(first.steps // 2)
        )  # fmt: skip
    assert (tmp_path / "state").is_dir()
    assert weights_of(killed).keys() == before.keys(), "no adapter is left after an exception"
    calls = 0

    def count(_done: int, _total: int, _status: str) -> None:
        nonlocal calls
        calls += 1

    assert train_model(resumed, TASK, TRAIN, DEV, tokenizer, SETTINGS, tmp_path / "state", count) == first
    assert calls < first.steps
    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, two)


def test_other_adapters_and_gates_are_refused(tokenizer: Any) -> None:
    adapted = get_peft_model(build(), LoraConfig(r=2, target_modules=["query"]))
    with pytest.raises(HeadwiseError, match="adapters already"):
        train_model(adapted, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    model = build()
    heads = find_heads(model)
    with gated(model, HeadMask.without(heads, ["encoder.0.0"])), pytest.raises(HeadwiseError, match="shrink"):
        train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    with pytest.raises(HeadwiseError, match="lora_rank"):
        TuningSettings(lora_rank=-1)


def test_a_new_pooler_is_trained_as_a_part_of_the_classifier() -> None:
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification(build().config)
    with lora_adapters(model, 2, 0, train_head=True):
        trained = {name for name, flag in flags_of(model).items() if flag}
        assert {"bert.pooler.dense.weight", "classifier.weight"} <= trained
        assert all("lora_" in name for name in trained if "pooler" not in name and "classifier" not in name)
    with lora_adapters(model, 2, 0, train_head=False):
        assert all("lora_" in name for name, flag in flags_of(model).items() if flag)
