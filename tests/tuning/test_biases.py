"""Tuning of biases: nothing else of the encoder changes, and flags are restored."""

from typing import Any

import pytest
import torch

from headwise import HeadwiseError
from headwise.engine.evaluation import evaluate
from headwise.tuning import TuningSettings, train_model
from headwise.tuning.biases import only_biases
from tests.tuning.test_loop import DEV, TASK, TRAIN, build
from tests.tuning.test_lora import flags_of, weights_of

SETTINGS = TuningSettings(epochs=6, learning_rate=5e-2, batch_tokens=64, warmup=0.0, biases_only=True)


def test_only_biases_and_the_classifier_change(tokenizer: Any) -> None:
    model = build()
    before, flags, first = weights_of(model), flags_of(model), evaluate(model, TASK, DEV, tokenizer).value
    result = train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    after = weights_of(model)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    keys = {name for name in before if name.endswith("key.bias")}  # softmax does not depend on them
    biases = {name for name in before if name.startswith("bert.") and name.endswith("bias")}
    assert biases - keys <= changed <= biases | {"classifier.weight", "classifier.bias"}
    assert "classifier.weight" in changed
    assert result.best_value > first + 20
    assert flags_of(model) == {**flags, "bert.embeddings.word_embeddings.weight": False}


def test_a_language_model_keeps_its_output_layer() -> None:
    model = build()
    with only_biases(model, train_head=False):
        assert all(name.startswith("bert.") and name.endswith("bias") for name, flag in flags_of(model).items() if flag)
    assert all(flags_of(model).values())


def test_flags_are_restored_after_an_error() -> None:
    model = build()
    with pytest.raises(RuntimeError), only_biases(model, train_head=True):
        raise RuntimeError
    assert all(flags_of(model).values())


def test_settings_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(HeadwiseError, match="biases_only: must be False if LoRA"):
        TuningSettings(biases_only=True, lora_rank=2)
    model = build()
    for name, weight in model.named_parameters():
        weight.requires_grad_(not name.endswith("bias"))
    with pytest.raises(HeadwiseError, match="no biases to train"), only_biases(model, train_head=True):
        pass
