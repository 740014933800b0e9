"""Our own model classes: pooled as they say, cut and saved like any other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from headwise import HeadwiseError, find_heads, fold, gated, load_pruned, save_pruned, shrink
from headwise.models import load_model
from headwise.pooling import MeanPooledBertForSequenceClassification, find_class
from tests.families import BY_NAME, difference, enliven, inputs_for, outputs_of, row_of, uneven_mask

CASE = BY_NAME["bert"]


def build() -> Any:
    torch.manual_seed(0)
    config = CASE.build().config
    config.num_labels = 3
    model = MeanPooledBertForSequenceClassification(config)
    enliven(model)
    return model.eval()


@torch.no_grad()
def test_padding_does_not_enter_the_mean() -> None:
    model, inputs = build(), inputs_for(CASE)
    short = {name: tensor[:, :-2] for name, tensor in row_of(inputs, 2).items()}
    assert difference(model(**inputs).logits[2:], model(**short).logits) < 1e-5
    whole = {"input_ids": inputs["input_ids"][:2]}
    assert difference(model(**whole).logits, model(**inputs).logits[:2]) < 1e-5


def test_labels_give_a_loss() -> None:
    model, inputs = build(), inputs_for(CASE)
    loss = model(**inputs, labels=torch.tensor([0, 1, 2])).loss
    assert loss.item() > 0


@torch.no_grad()
def test_it_is_saved_cut_and_loaded_like_any_other(tmp_path: Path) -> None:
    model, inputs = build(), inputs_for(CASE)
    PreTrainedModel.save_pretrained(model, tmp_path / "whole")  # as earlier versions did
    assert difference(outputs_of(load_model(tmp_path / "whole"), inputs), outputs_of(model, inputs)) < 1e-6
    mask = uneven_mask(find_heads(model))
    with gated(model, mask):
        expected = outputs_of(model, inputs)
    save_pruned(shrink(model, mask), tmp_path / "cut")
    assert difference(outputs_of(load_pruned(tmp_path / "cut"), inputs), expected) < 1e-5


def test_it_is_not_saved_as_an_ordinary_checkpoint(tmp_path: Path) -> None:
    model = build()
    for each in (model, fold(model, uneven_mask(find_heads(model)))):
        with pytest.raises(HeadwiseError, match=r"use --export shrunk \(save_pruned\) or --export mask"):
            each.save_pretrained(tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_classes_are_found_by_name() -> None:
    assert find_class("MeanPooledBertForSequenceClassification") is MeanPooledBertForSequenceClassification
    assert find_class("BertModel").__name__ == "BertModel"
    assert find_class("Path") is None
