"""Tuning from objects in hand and from a plan: the same weights, any kind of model, nested shares of the data."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import BertForTokenClassification, BertModel, MarianMTModel

from headwise import HeadMask, HeadwiseError, find_heads, load_pruned, save_pruned, shrink
from headwise.data.dataset import Dataset
from headwise.data.examples import Example, TextExample, WordExample
from headwise.engine.evaluation import evaluate
from headwise.models import load_model
from headwise.tasks import find_task
from headwise.tuning import TuningPlan, TuningSettings, run_tuning, tune
from headwise.tuning.prepare import with_head
from headwise.tuning.run import read_splits
from tests.families import BY_NAME, uneven_mask

LABELS = {"the": "DET", "cat": "NOUN", "sat": "VERB"}
SETTINGS = TuningSettings(epochs=2, learning_rate=5e-3, batch_tokens=64, freeze_embeddings=False)


def sentences(count: int, seed: int) -> tuple[WordExample, ...]:
    generator = torch.Generator().manual_seed(seed)
    words = [[list(LABELS)[i] for i in torch.randint(0, 3, (4,), generator=generator)] for _ in range(count)]
    return tuple(WordExample(str(n), tuple(w), tuple(LABELS[word] for word in w)) for n, w in enumerate(words))


EXAMPLES = {"train": sentences(40, 0), "dev": sentences(10, 1)}
DATA = Dataset("toy", ("en", "sw"), ("train", "dev"), lambda _, split: EXAMPLES[split])


def encoder() -> Any:
    torch.manual_seed(0)
    return BertModel(BY_NAME["bert"].build().config)


def same(left: Any, right: Any) -> bool:
    pairs = zip(left.state_dict().items(), right.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_an_encoder_gets_a_classifier_and_stays_as_it_is(tokenizer: Any) -> None:
    model, untouched = encoder(), encoder()
    tuned = tune(model, tokenizer, DATA, "pos", settings=SETTINGS)
    assert isinstance(tuned.model, BertForTokenClassification)
    assert tuned.model.config.id2label[0] == tuned.task.labels[0] == "ADJ"  # type: ignore[attr-defined]
    assert same(model, untouched)
    value = evaluate(tuned.model, find_task("pos"), EXAMPLES["dev"], tokenizer).value
    assert value == tuned.result.best_value == max(epoch.value for epoch in tuned.result.history)
    assert len(tuned.result.history) == 2
    assert same(tuned.model, tune(encoder(), tokenizer, EXAMPLES, "pos", settings=SETTINGS).model)


def test_a_fitting_classifier_is_trained_further_in_place(tokenizer: Any) -> None:
    first = tune(encoder(), tokenizer, DATA, "pos", settings=SETTINGS)
    before = first.model.classifier.weight.detach().clone()
    again = tune(first.model, tokenizer, DATA, first.task, settings=SETTINGS)
    assert again.model is first.model
    assert not torch.equal(first.model.classifier.weight, before)
    other = tune(first.model, tokenizer, greetings(), "intents", settings=SETTINGS)
    assert type(other.model).__name__ == "BertForSequenceClassification"
    assert sorted(other.model.config.id2label.values()) == ["animal", "greet"]


def greetings() -> dict[str, list[Example]]:
    examples: list[Example] = [TextExample("1", "the cat", "animal"), TextExample("2", "sat", "greet")]
    return {"train": examples, "dev": examples}


def test_shrunk_models_are_tuned_and_stay_shrunk(tokenizer: Any, tmp_path: Path) -> None:
    whole = encoder()
    mask = uneven_mask(find_heads(whole))
    small = shrink(whole, mask)
    tuned = tune(small, tokenizer, DATA, "pos", settings=SETTINGS, out=tmp_path / "tuned")
    assert find_heads(tuned.model).players() == find_heads(small).players()
    assert same(load_pruned(tmp_path / "tuned"), tuned.model)
    save_pruned(small, tmp_path / "small", tokenizer)
    for name in ("small", "tuned"):  # without a classifier, and with one
        named = tune(tmp_path / name, None, DATA, "pos", settings=SETTINGS)
        assert find_heads(named.model).players() == find_heads(small).players()
        if name == "small":
            assert same(named.model, tuned.model)


def test_a_new_classifier_leaves_the_encoder_of_a_shrunk_model_exact() -> None:
    whole = encoder().eval()
    small = shrink(whole, uneven_mask(find_heads(whole)))
    tokens = torch.tensor([[1, 5, 6, 2]])
    model, _ = with_head(small, find_task("pos"))
    with torch.no_grad():
        assert torch.equal(model.base_model(tokens)[0], small(tokens)[0])


def test_a_new_classifier_can_read_the_mean_of_the_last_hidden_states() -> None:
    bare = encoder().eval()
    task = find_task("classification", ("good", "bad"))
    model, _ = with_head(bare, task, mean_pooling=True)
    tokens, attended = torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.no_grad():
        hidden = bare(tokens, attention_mask=attended)[0]
        means = torch.stack([hidden[0].mean(0), hidden[1, :3].mean(0)])
        assert torch.allclose(model(tokens, attention_mask=attended).logits, model.classifier(means), atol=1e-6)
    with pytest.raises(HeadwiseError, match=r"^mean_pooling: must be False for the task pos on a bert model"):
        with_head(bare, find_task("pos"), mean_pooling=True)


def test_a_model_is_tuned_under_a_mask(tokenizer: Any) -> None:
    off = HeadMask.without(find_heads(encoder()), ["encoder.0.1"])
    masked = tune(encoder(), tokenizer, DATA, "pos", settings=SETTINGS, mask=off).model
    plain = tune(encoder(), tokenizer, DATA, "pos", settings=SETTINGS).model
    assert not same(masked, plain)
    width = find_heads(encoder()).sites[0].head_width
    output = masked.bert.encoder.layer[0].attention.output.dense.weight.detach()
    start = encoder().encoder.layer[0].attention.output.dense.weight.detach()
    gone, kept = slice(width, 2 * width), slice(0, width)
    # A head that is off gets no gradient: its columns are changed by weight decay alone, by one factor.
    ratio = output[:, gone] / start[:, gone]
    assert ratio.max() - ratio.min() < 1e-4
    assert (output[:, kept] / start[:, kept]).std() > 1e-3


def test_a_plan_gives_the_same_weights_as_objects(tokenizer: Any, tmp_path: Path, monkeypatch: Any) -> None:
    encoder().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    monkeypatch.setattr("headwise.tuning.run.open_dataset", lambda *_: DATA)
    way = {"epochs": 2, "learning_rate": 5e-3, "batch_tokens": 64, "train_embeddings": True}
    plan = TuningPlan(str(tmp_path / "model"), "pos", "toy", "en,sw", share=0.5, **way)  # type: ignore[arg-type]
    assert plan.settings == SETTINGS
    result = run_tuning(plan, tmp_path / "out")
    tuned = tune(tmp_path / "model", None, DATA, "pos", ("en", "sw"), settings=SETTINGS, share=0.5)
    assert result == tuned.result
    assert same(load_model(tmp_path / "out"), tuned.model)


def test_shares_of_the_training_examples_are_nested() -> None:
    def ids(share: float, seed: int = 0) -> list[str]:
        return [example.id for example in read_splits(DATA, ("en",), share, seed)[0]]

    shares = [ids(share) for share in (0.1, 0.2, 0.5, 1.0)]
    assert [len(each) for each in shares] == [4, 8, 20, 40]
    assert all(set(small) < set(large) for small, large in itertools.pairwise(shares))
    assert shares[-1] == [example.id for example in EXAMPLES["train"]]  # all of them in the order of the data
    assert ids(0.5, seed=1) != shares[2]
    assert len(read_splits(DATA, ("en", "sw"), 0.1)[0]) == 8  # of each language
    assert len(ids(1e-9)) == 1


def test_what_does_not_fit_is_named(tokenizer: Any, tmp_path: Path) -> None:
    adapted = get_peft_model(encoder(), LoraConfig(r=2, target_modules=["query"]))
    marian: MarianMTModel = BY_NAME["marian"].build()
    for arguments, message in (
        ((encoder(), tokenizer, DATA), "^task: give the name of a task"),
        ((encoder(), None, DATA, "pos"), "^tokenizer: give the tokenizer"),
        ((encoder(), tokenizer, {"train": EXAMPLES["train"]}, "pos"), "no examples under 'dev'"),
        ((encoder(), tokenizer, DATA, "pos", ("xx",)), "no language 'xx'"),
        ((encoder(), tokenizer, DATA, "lm"), "a BertModel cannot do the task lm"),
        ((adapted, tokenizer, DATA, "pos"), "the PEFT model has no classifier with the labels of pos"),
        ((marian, tokenizer, DATA, "pos"), "no classifier for pos can be put on a marian model"),
    ):
        with pytest.raises(HeadwiseError, match=message):
            tune(*arguments, settings=SETTINGS)
    with pytest.raises(HeadwiseError, match="share: a number above 0 and at most 1, not 0"):
        tune(encoder(), tokenizer, DATA, "pos", share=0.0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(HeadwiseError, match="the folder is not empty"):
        tune(encoder(), tokenizer, DATA, "pos", out=tmp_path / "full")


@pytest.mark.parametrize(
    ("field", "value"), [("window", 4), ("piece", "last"), ("share", 1.5), ("epochs", 0), ("learning_rate", -1.0)]
)
def test_plans_that_make_no_sense_name_the_field(field: str, value: Any) -> None:
    with pytest.raises(HeadwiseError, match=f"^{field}: "):
        TuningPlan("model", "pos", "data", **{field: value})
