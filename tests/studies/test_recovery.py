"""Recovery: the metric after one epoch, entropies and embeddings before and after, each against a plain computation."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headwise import HeadwiseError, shrink
from headwise.engine.evaluation import evaluate
from headwise.report import write_report
from headwise.scoring import ScoringPlan, Setting
from headwise.studies import report_of
from headwise.studies.probes import head_entropies, sentence_embeddings
from headwise.studies.random_share import random_mask
from headwise.studies.recovery import AFTER, BEFORE, RECOVERY, RecoveryPlan, _claims, recovered
from headwise.studies.resampled import Resampled
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks import Task
from headwise.tuning import tune
from headwise.tuning.untuned import load_untuned


@pytest.fixture(scope="module")
def plan(planted: Path) -> RecoveryPlan:
    return RecoveryPlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "en,es,tr"), shares=[0.5], epochs=2,
        learning_rate=1e-3, batch_tokens=48, resamples=200, entropy_share=0.5, entropy_examples=8, tsne_sentences=10,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study(plan: RecoveryPlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    pytest.importorskip("sklearn")
    return RECOVERY.run(plan, tmp_path_factory.mktemp("run") / "study")


@pytest.fixture(scope="module")
def setting(plan: RecoveryPlan) -> Setting:
    return load_untuned(plan.scoring, "en")[0]


def rows(study: TunedStudy, name: str) -> dict[str, dict[str, str]]:
    with (study.folder / f"{name}.csv").open() as file:
        found = list(csv.DictReader(file))
    return {next(iter(row.values())): row for row in found}


def pruned(plan: RecoveryPlan, setting: Setting, stop_after: int | None) -> Any:
    mask = random_mask(setting.heads, 50, 0, 0)
    assert mask is not None
    settings = plan.settings(0, stop_after)
    return tune(
        shrink(setting.model, mask), setting.tokenizer, setting.dataset, setting.task, ("en",), settings=settings
    ).model


def test_one_epoch_is_the_first_of_the_whole_run(plan: RecoveryPlan, setting: Setting, study: TunedStudy) -> None:
    assert isinstance(setting.task, Task)
    examples = setting.dataset.examples("tr", "test")
    early, final = (
        evaluate(pruned(plan, setting, stop), setting.task, examples, setting.tokenizer).value for stop in (1, None)
    )
    found = rows(study, "recovery")
    assert list(found) == ["en", "es", "tr", "in-language", "cross-language", "mean", "paper"]
    assert float(found["tr"]["50%"]) == pytest.approx(100 * early / final)
    assert float(found["cross-language"]["50%"]) == pytest.approx(
        (float(found["es"]["50%"]) + float(found["tr"]["50%"])) / 2
    )
    assert found["paper"]["mean"] == "93.0"


def test_entropies_are_those_of_plain_attention_weights(setting: Setting) -> None:
    assert isinstance(setting.task, Task)
    mask = random_mask(setting.heads, 50, 0, 0)
    assert mask is not None
    model = shrink(setting.model, mask).eval()
    examples = setting.encode(setting.dataset.examples("en", "dev")[:5])
    found = head_entropies(model, setting.task, examples)
    assert list(found) == [name for name in setting.heads.players() if name not in mask.off]
    model.config._attn_implementation = "eager"
    sums: dict[str, float] = dict.fromkeys(found, 0.0)
    tokens = 0
    for each in examples.encoded:
        with torch.inference_mode():
            weights = model(torch.tensor([each.ids]), output_attentions=True).attentions
        tokens += len(each.ids)
        for layer, maps in enumerate(weights):
            names = [name for name in found if name.startswith(f"encoder.{layer}.")]
            for name, head in zip(names, maps[0] if names else (), strict=True):
                sums[name] += float(-(head * head.log()).sum())
    assert found == pytest.approx({name: total / tokens for name, total in sums.items()}, rel=1e-4)


def test_embeddings_are_means_of_hidden_states(setting: Setting) -> None:
    assert isinstance(setting.task, Task)
    examples = setting.encode(setting.dataset.examples("en", "dev")[:5])
    found = sentence_embeddings(setting.model, setting.task, examples)
    for row, each in zip(found, examples.encoded, strict=True):
        with torch.inference_mode():
            hidden = setting.model.bert(torch.tensor([each.ids])).last_hidden_state[0]
        assert row == pytest.approx(hidden.mean(0).numpy(), rel=1e-4, abs=1e-5)
    assert not setting.model.bert._forward_hooks


def test_tables_and_clouds_have_all_languages_and_stages(study: TunedStudy) -> None:
    entropy = rows(study, "entropy")
    assert list(entropy) == ["top", "middle", "bottom"]
    assert sum(int(row["heads"]) for row in entropy.values()) == 6
    assert entropy["top"]["paper"] == "0.176"
    assert any(row["mean absolute change"] and float(row["mean absolute change"]) > 0 for row in entropy.values())
    [plot] = study.clouds
    assert [cloud.title for cloud in plot.clouds] == [BEFORE, AFTER]
    assert {name: len(points) for name, points in plot.clouds[0].groups.items()} == {"en": 10, "es": 10, "tr": 10}
    assert list(rows(study, "embeddings")) == ["en", "es", "tr"]


def test_it_loads_and_reports(study: TunedStudy, tmp_path: Path) -> None:
    assert RECOVERY.load(study.folder) == study
    write_report(tmp_path / "report.html", report_of(study.folder))
    page = (tmp_path / "report.html").read_text()
    assert page.count("<circle") == 60
    assert "Sentence embeddings" in page


def test_a_finished_study_tunes_nothing_again(
    study: TunedStudy, plan: RecoveryPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.studies.tuned.TunedModels.make", None)
    assert RECOVERY.run(plan, study.folder) == study


def test_planted_entropies_and_recovery_decide_the_claims(plan: RecoveryPlan) -> None:
    values = np.array([[[80.0], [60.0], [79.0], [59.0]]])  # final at 0% and 50%, then after one epoch
    assert recovered(values[..., 0]) == pytest.approx(np.array([[98.75, 100 * 59 / 60]]))
    found = Resampled(
        ("en",), ("0%", "50%", "0% after 1", "50% after 1"), values, np.repeat(values[None, ..., 0], 50, 0)
    )
    before = {f"encoder.{layer}.{head}": 1.0 for layer in range(12) for head in range(2)}
    after = {name: 1.2 + 0.001 * place if place >= 16 else 1.01 + 0.001 * place for place, name in enumerate(before)}
    one, entropy = _claims(plan, found, before, after, 12)
    assert (one.verdict, entropy.verdict) == ("yes", "yes")
    turned = dict(zip(before, reversed(after.values()), strict=True))
    slow = Resampled(
        found.languages, found.conditions, values * [[[1], [1], [0.9], [0.9]]], found.drawn * [1, 1, 0.9, 0.9]
    )
    one, entropy = _claims(plan, slow, before, turned, 12)
    assert (one.verdict, entropy.verdict) == ("no", "no")


def test_without_scikit_learn_the_message_says_what_to_install(
    plan: RecoveryPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(HeadwiseError, match=r"headwise\[tsne\]"):
        RECOVERY.run(plan, tmp_path / "run")


def test_recovery_needs_a_second_epoch() -> None:
    with pytest.raises(HeadwiseError, match="epochs"):
        RecoveryPlan(ScoringPlan("m", "pos", "d"), epochs=1)
