"""Gates and weights trained together: a tagger and a translation model, frozen parts, resuming, and the control."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headwise import HeadMask, HeadwiseError, find_heads, gated
from headwise.data.examples import TranslationExample
from headwise.engine.evaluation import evaluate
from headwise.tasks.translation import TranslationTask
from headwise.tuning import TuningSettings
from headwise.tuning.gates import TrainedGates
from headwise.tuning.l0 import L0Tuning, TuningData, train_from_scratch, tune_l0_path
from tests.families import BY_NAME
from tests.tuning.test_loop import DEV, TASK, TRAIN, build, same_weights

SETTINGS = TuningSettings(epochs=3, learning_rate=5e-3, batch_tokens=64, warmup=0.0, freeze_embeddings=False)
LAMS = (0.0, 0.3)


def tagging(tokenizer: Any) -> TuningData:
    return TuningData(TASK, tokenizer, TRAIN[:30], DEV, DEV)


def translating(tokenizer: Any) -> TuningData:
    pairs = [TranslationExample(str(n), "the cat", "cat sat the") for n in range(8)]
    return TuningData(TranslationTask(max_length=8), tokenizer, pairs, pairs[:2], pairs[:2], "en-de")


def test_a_tagger_learns_and_loses_heads_together(tokenizer: Any) -> None:
    model = build()
    points = tune_l0_path(model, tagging(tokenizer), LAMS, SETTINGS, L0Tuning(learning_rate=0.5))
    assert points[0].mask.count > points[1].mask.count
    assert points[0].evaluation.value > 90
    with gated(model, points[-1].mask):  # the mask belongs to the weights at the end of the path
        assert evaluate(model, TASK, DEV, tokenizer).value == pytest.approx(points[-1].evaluation.value)
    assert all(weight.requires_grad for weight in model.parameters())


def test_encoder_gates_of_a_translation_model_with_the_decoder_frozen(tokenizer: Any) -> None:
    model = BY_NAME["marian"].build()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    points = tune_l0_path(
        model, translating(tokenizer), (9.0,), SETTINGS, L0Tuning("encoder", "encoder", learning_rate=2.0)
    )
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert all(name.startswith("model.encoder.layers.") for name in changed)
    assert points[0].kept_by_type == {"encoder": 0, "decoder": 12, "cross": 12}
    assert points[0].evaluation.metric == "bleu"


def test_gates_on_all_attention_of_a_translation_model(tokenizer: Any) -> None:
    model = BY_NAME["marian"].build()
    (point,) = tune_l0_path(model, translating(tokenizer), (9.0,), SETTINGS, L0Tuning(learning_rate=2.0))
    assert point.kept_by_type == {"encoder": 0, "decoder": 0, "cross": 0}


def test_a_killed_path_goes_on_and_ends_the_same(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, gates = tagging(tokenizer), L0Tuning(learning_rate=0.5)
    undisturbed, killed, resumed = build(), build(), build()
    whole = tune_l0_path(undisturbed, data, LAMS, SETTINGS, gates)
    real, calls = TrainedGates.penalty, 0

    def kill(self: TrainedGates) -> Any:
        nonlocal calls
        calls += 1
        if calls > 27:
            raise KeyboardInterrupt
        return real(self)

    with monkeypatch.context() as patch:
        patch.setattr(TrainedGates, "penalty", kill)
        with pytest.raises(KeyboardInterrupt):
            tune_l0_path(killed, data, LAMS, SETTINGS, gates, out=tmp_path / "run")
    assert len(list((tmp_path / "run" / "states").iterdir())) == 2, "killed in the second penalty, after an epoch"
    again = tune_l0_path(resumed, data, LAMS, SETTINGS, gates, out=tmp_path / "run")
    assert same_weights(resumed, undisturbed)
    for one, other in zip(whole, again, strict=True):
        assert (one.mask, one.log_alpha) == (other.mask, other.log_alpha)
        np.testing.assert_array_equal(one.evaluation.statistics, other.evaluation.statistics)


def test_from_scratch_the_same_heads_are_trained_with_new_weights(tokenizer: Any) -> None:
    model = build()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    mask = HeadMask.without(find_heads(model), ["encoder.0.0", "encoder.2.3"])
    settings = replace(SETTINGS, freeze_embeddings=True)
    new, result = train_from_scratch(model, mask, tagging(tokenizer), settings)
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    assert type(new) is type(model)
    embeddings = new.get_input_embeddings().weight
    assert embeddings.requires_grad, "random embeddings are trained"
    assert not same_weights(new, model)
    with gated(new, mask.moved_to(find_heads(new))):
        assert evaluate(new, TASK, DEV, tokenizer).value == result.best_value
    output = new.bert.encoder.layer[0].attention.output.dense.weight  # the columns of a head that is off
    torch.manual_seed(settings.seed)
    fresh = type(model)(model.config).bert.encoder.layer[0].attention.output.dense.weight
    decayed = (output / fresh)[:, :8]
    torch.testing.assert_close(decayed, decayed[0, 0].expand_as(decayed), atol=1e-4, rtol=0)


def test_mistakes_are_named(tokenizer: Any) -> None:
    data = tagging(tokenizer)
    with pytest.raises(HeadwiseError, match=r"train: .* has no decoder"):
        tune_l0_path(build(), data, LAMS, SETTINGS, L0Tuning(train="decoder"))
    with pytest.raises(HeadwiseError, match=r"sites: .* has no head in 'cross'"):
        tune_l0_path(build(), data, LAMS, SETTINGS, L0Tuning(sites="cross"))
