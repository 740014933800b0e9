"""Tuning: it learns, it stops, it goes on where it was stopped, on whole, cut and adapted models."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import BertForTokenClassification

from headwise import HeadMask, HeadwiseError, find_heads, gated, shrink
from headwise.data.examples import Example, TextExample, TranslationExample, WordExample
from headwise.engine.evaluation import evaluate
from headwise.tasks import find_task
from headwise.tasks.causal import LanguageTask
from headwise.tasks.likelihood import mean_log_likelihood
from headwise.tasks.protocol import AnyTask
from headwise.tasks.translation import TranslationTask
from headwise.tuning import TuningSettings, train_model
from tests.families import BY_NAME, uneven_mask

LABELS = {"the": "DET", "cat": "NOUN", "sat": "VERB", "中国人": "PROPN"}
SETTINGS = TuningSettings(epochs=4, learning_rate=5e-3, batch_tokens=64, warmup=0.0, freeze_embeddings=False)
TASK = find_task("pos")


def sentences(count: int, seed: int) -> list[WordExample]:
    generator = torch.Generator().manual_seed(seed)
    words = [[list(LABELS)[i] for i in torch.randint(0, 4, (5,), generator=generator)] for _ in range(count)]
    return [WordExample(str(n), tuple(w), tuple(LABELS[word] for word in w)) for n, w in enumerate(words)]


TRAIN, DEV = sentences(60, 0), sentences(20, 1)


def build() -> Any:
    torch.manual_seed(0)
    config = BY_NAME["bert"].build().config
    config.num_labels = 17
    return BertForTokenClassification(config)


def test_a_model_learns_what_it_is_shown(tokenizer: Any) -> None:
    model = build()
    before = evaluate(model, TASK, DEV, tokenizer).value
    result = train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    assert before < 50 < 95 < result.best_value
    assert evaluate(model, TASK, DEV, tokenizer).value == result.best_value
    assert len(result.history) == 4
    assert result.metric == "accuracy"
    assert result.tokens == 4 * sum(len(item.ids) for item in TASK.encode(TRAIN, tokenizer)[0])


def test_the_same_seed_gives_the_same_weights(tokenizer: Any) -> None:
    first, second, other = build(), build(), build()
    train_model(first, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    train_model(second, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    train_model(other, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, seed=1))
    assert same_weights(first, second)
    assert not same_weights(first, other)


def same_weights(left: Any, right: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left.parameters(), right.parameters(), strict=True))


@pytest.mark.parametrize(
    ("task", "family", "examples"),
    [
        (TranslationTask(max_length=60), "marian", [TranslationExample("1", "the cat", "cat sat the")] * 20),
        (LanguageTask(window=8), "gpt2", [TextExample("1", "the cat sat"), TextExample("2", "sat the cat")] * 20),
    ],
)
def test_models_that_write_learn_by_the_likelihood_of_tokens(
    tokenizer: Any, tmp_path: Path, task: AnyTask, family: str, examples: list[Example]
) -> None:
    model = BY_NAME[family].build()
    before = mean_log_likelihood(model, task, examples, tokenizer)
    result = train_model(model, task, examples, examples, tokenizer, SETTINGS, tmp_path / "state")
    assert result.metric == "log-likelihood per token"
    assert before + 1 < result.best_value < 0
    assert mean_log_likelihood(model, task, examples, tokenizer) == pytest.approx(result.best_value, rel=1e-5)
    resumed = BY_NAME[family].build()
    assert train_model(resumed, task, examples, examples, tokenizer, SETTINGS, tmp_path / "state") == result
    assert same_weights(resumed, model)


class KilledError(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("kill_at", [1, 20, 33])
def test_a_killed_run_goes_on_and_ends_the_same(tokenizer: Any, tmp_path: Path, kill_at: int) -> None:
    def kill(step: int, total: int, how: str) -> None:
        if step == kill_at:
            raise KilledError

    undisturbed, killed = build(), build()
    expected = train_model(undisturbed, TASK, TRAIN, DEV, tokenizer, SETTINGS)
    with pytest.raises(KilledError):
        train_model(killed, TASK, TRAIN, DEV, tokenizer, SETTINGS, tmp_path / "state", kill)
    resumed = build()
    assert train_model(resumed, TASK, TRAIN, DEV, tokenizer, SETTINGS, tmp_path / "state") == expected
    assert same_weights(resumed, undisturbed)


def test_a_state_of_other_settings_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    train_model(build(), TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, epochs=1), tmp_path / "state")
    with pytest.raises(HeadwiseError, match=r"state: the run that was stopped there had other settings: delete that"):
        train_model(build(), TASK, TRAIN, DEV, tokenizer, SETTINGS, tmp_path / "state")


def other_weight() -> Any:
    model = build()
    with torch.no_grad():
        model.classifier.bias[3] += 1e-3
    return model


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"model": other_weight}, "model"),
        ({"task": replace(TASK, piece="first")}, r"task( and \w+ examples)*"),
        ({"task": replace(TASK, name="tags")}, "task"),
        ({"train": TRAIN[1:]}, "training examples"),
        ({"dev": DEV[1:]}, "dev examples"),
        ({"mask": uneven_mask(find_heads(build()))}, "mask"),
    ],
)
def test_a_state_of_another_run_is_refused(
    tokenizer: Any, tmp_path: Path, change: dict[str, Any], differs: str
) -> None:
    def once(model: Any = build, task: Any = TASK, train: Any = TRAIN, dev: Any = DEV, mask: Any = None) -> None:
        settings = replace(SETTINGS, epochs=1)
        train_model(model(), task, train, dev, tokenizer, settings, tmp_path / "state", mask=mask)

    once()
    once(mask=HeadMask.full(find_heads(build())))  # as good as none
    with pytest.raises(HeadwiseError, match=f"state: the run that was stopped there had other {differs}: delete that"):
        once(**change)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def drop_best(path: Path) -> None:
    about = json.loads(path.read_text())
    del about["best"]
    path.write_text(json.dumps(about))


def drop_weight(path: Path) -> None:
    state = load_file(path)
    del state["weights.classifier.bias"]
    save_file(state, path)


def reshape_weight(path: Path) -> None:
    save_file({**load_file(path), "adam.exp_avg.classifier.bias": torch.zeros(1)}, path)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("state.json", shorten),
        ("state.json", drop_best),
        ("state.json", lambda path: path.write_text("[]")),
        ("state.json", lambda path: path.write_bytes(b"\xff")),
        ("state.safetensors", shorten),
        ("state.safetensors", Path.unlink),
        ("state.safetensors", drop_weight),
        ("state.safetensors", reshape_weight),
    ],
)
def test_a_damaged_state_is_told(tokenizer: Any, tmp_path: Path, file: str, damage: Callable[[Path], object]) -> None:
    train_model(build(), TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, epochs=1), tmp_path / "state")
    damage(tmp_path / "state" / file)
    with pytest.raises(
        HeadwiseError, match=r"state: the state of the stopped run is damaged \(.+\): delete that folder"
    ):
        train_model(build(), TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, epochs=1), tmp_path / "state")


def test_a_loss_that_is_no_number_ends_the_run(tokenizer: Any) -> None:
    model = build()
    with torch.no_grad():
        model.classifier.bias[3] = math.nan
    with pytest.raises(
        HeadwiseError, match=r"^the loss became nan in epoch 1.*: take a lower learning rate than 0\.005$"
    ):
        train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS)


def test_weights_that_the_last_step_broke_are_not_kept(tokenizer: Any) -> None:
    model = build()
    model.classifier.weight.register_hook(lambda gradient: gradient * math.nan)
    settings = replace(SETTINGS, epochs=1, batch_tokens=4096)  # one step, whose loss is a number
    with pytest.raises(HeadwiseError, match=r"^the sum of the weights became nan in epoch 1"):
        train_model(model, TASK, TRAIN, DEV, tokenizer, settings)


@pytest.mark.parametrize(
    "setting", [{"epochs": 0}, {"patience": -3}, {"seed": -1}, {"learning_rate": math.nan}, {"learning_rate": 1e38}]
)
def test_settings_that_make_no_sense_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(HeadwiseError, match=f"^{next(iter(setting))}: a "):
        replace(SETTINGS, **setting)


def test_examples_without_a_labelled_token_are_left_out(tokenizer: Any) -> None:
    nothing = WordExample("none", ("",), ("NOUN",))
    settings = replace(SETTINGS, epochs=1, batch_tokens=16)
    assert train_model(build(), TASK, [*TRAIN, nothing], DEV, tokenizer, settings).best_value > 0
    with pytest.raises(HeadwiseError, match="there is nothing to learn from"):
        train_model(build(), TASK, [nothing], DEV, tokenizer, settings)


def test_frozen_embeddings_stay_as_they_are(tokenizer: Any) -> None:
    model = build()
    before = model.get_input_embeddings().weight.clone()
    train_model(model, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, epochs=1, freeze_embeddings=True))
    assert torch.equal(model.get_input_embeddings().weight, before)


def test_a_model_of_frozen_weights_is_refused(tokenizer: Any) -> None:
    with pytest.raises(HeadwiseError, match="every weight of the model is frozen"):
        train_model(build().requires_grad_(False), TASK, TRAIN, DEV, tokenizer, SETTINGS)


def test_it_stops_when_dev_no_longer_gains(tokenizer: Any) -> None:
    result = train_model(build(), TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, epochs=30, patience=2))
    assert len(result.history) == result.best_epoch + 2 < 30


def test_the_best_epoch_is_kept_not_the_last(tokenizer: Any) -> None:
    model = build()
    result = train_model(model, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, learning_rate=0.3))
    assert result.best_value == max(value for _, value in result.history)
    assert evaluate(model, TASK, DEV, tokenizer).value == result.best_value


def test_cut_gated_and_adapted_models_are_tuned_alike(tokenizer: Any) -> None:
    model = build()
    mask = uneven_mask(find_heads(model))
    cut = shrink(model, mask)
    assert train_model(cut, TASK, TRAIN, DEV, tokenizer, SETTINGS).best_value > 90
    with gated(model, mask):
        assert train_model(model, TASK, TRAIN, DEV, tokenizer, SETTINGS).best_value > 90
    adapted = get_peft_model(
        build(), LoraConfig(r=4, target_modules=["query", "value"], modules_to_save=["classifier"])
    )
    frozen = adapted.get_base_model().bert.encoder.layer[0].intermediate.dense.weight.clone()
    assert train_model(adapted, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, learning_rate=2e-2)).best_value > 60
    assert torch.equal(adapted.get_base_model().bert.encoder.layer[0].intermediate.dense.weight, frozen)


def test_a_run_can_stop_early_on_the_schedule_of_all_epochs(tokenizer: Any) -> None:
    whole, stopped, short = build(), build(), build()
    history = train_model(whole, TASK, TRAIN, DEV, tokenizer, SETTINGS).history
    found = train_model(stopped, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, stop_after=2))
    assert found.history == history[:2]
    other = train_model(short, TASK, TRAIN, DEV, tokenizer, replace(SETTINGS, epochs=2)).history
    assert other != history[:2], "a run of two epochs has other learning rates"
    with pytest.raises(HeadwiseError, match="stop_after"):
        replace(SETTINGS, stop_after=5)
