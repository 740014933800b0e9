"""Emptied layers: the layer that matters is found, physically empty layers work, and claims follow from the numbers."""

import copy
import csv
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadwiseError, find_heads, shrink
from headwise.engine.evaluation import evaluate
from headwise.report import write_report
from headwise.scoring import ScoringPlan
from headwise.studies import find_plan, report_of, run_study
from headwise.studies.emptied_layers import LAYERS, PAPER_TABLE, LayersPlan, layer_mask
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks import Task
from headwise.tuning import tune
from headwise.tuning.untuned import load_untuned
from tests.studies.planted import HEADS, PLANTED


@pytest.fixture(scope="module")
def plan(planted: Path) -> LayersPlan:
    return LayersPlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data")),
        counts=[1],
        epochs=1,
        learning_rate=1e-4,
        resamples=200,
    )


@pytest.fixture(scope="module")
def study(plan: LayersPlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    return LAYERS.run(plan, tmp_path_factory.mktemp("run") / "study")


def rows(study: TunedStudy, name: str) -> dict[str, dict[str, str]]:
    with (study.folder / f"{name}.csv").open() as file:
        found = list(csv.DictReader(file))
    return {next(iter(row.values())): row for row in found}


def verdict(study: TunedStudy, *words: str) -> str:
    [found] = [claim for claim in study.claims if all(word in claim.text for word in words)]
    return found.verdict


def test_only_the_layer_with_planted_heads_matters(study: TunedStudy) -> None:
    drops = rows(study, "layers-paper")
    assert list(drops) == ["none", "top 1", "bottom 1", "middle 1", "odd 2", "even 1"]
    for group in ("SVO", "SOV", "VSO", "Agglutinative", "high", "medium", "low", "in-language", "cross-language"):
        assert float(drops["none"][group]) == 0
        assert float(drops["middle 1"][group]) > 15
        assert float(drops["even 1"][group]) == float(drops["middle 1"][group]), "the same layer"
        for condition in ("top 1", "bottom 1", "odd 2"):
            assert abs(float(drops[condition][group])) < 3


def test_claims_follow_the_planted_layer(study: TunedStudy) -> None:
    assert verdict(study, "In-language, middle 1") == "yes"
    assert verdict(study, "even 1 costs less than emptying odd 2") == "no"
    assert verdict(study, "even 1", "consecutive") == "no"
    assert verdict(study, "bottom 1 layers matter more than top 1") == "undecided", "both are noise"
    assert "Yes: in-language, middle 1 layers matter more" in study.paragraph


def test_a_value_is_that_of_emptying_tuning_and_evaluating(plan: LayersPlan, study: TunedStudy) -> None:
    setting, _ = load_untuned(plan.scoring, "en")
    assert isinstance(setting.task, Task)
    mask = layer_mask(setting.heads, "odd 2")
    assert mask is not None
    small = shrink(copy.deepcopy(setting.model), mask)
    assert {name.split(".")[1] for name in find_heads(small).players()} == {str(PLANTED)}
    assert small.bert.encoder.layer[0].attention.self.query.weight.shape[0] == 0
    tuned = tune(small, setting.tokenizer, setting.dataset, setting.task, ("en",), settings=plan.settings(0))
    for language in ("en", "tr"):
        value = evaluate(tuned.model, setting.task, setting.dataset.examples(language, "test"), setting.tokenizer).value
        assert float(rows(study, "layers-languages")[language]["odd 2"]) == pytest.approx(value)


def test_curves_start_at_the_whole_model_and_have_the_drops_of_the_table(study: TunedStudy) -> None:
    [plot] = study.curves
    assert [(curve.language, curve.ranking, curve.removed) for curve in plot.curves[:5]] == [
        ("in-language", "top", (0, 1)), ("in-language", "bottom", (0, 1)), ("in-language", "middle", (0, 1)),
        ("in-language", "odd", (0, 2)), ("in-language", "even", (0, 1)),
    ]  # fmt: skip
    drops = rows(study, "layers-paper")
    for curve in plot.curves:
        assert curve.value[0] == curve.low[0] == curve.high[0] == 0
        assert curve.value[1] == pytest.approx(float(drops[f"{curve.ranking} {curve.removed[1]}"][curve.language]))
        assert curve.low[1] <= curve.value[1] <= curve.high[1]


def test_masks_are_whole_layers(plan: LayersPlan) -> None:
    heads = load_untuned(plan.scoring, "en")[0].heads
    for condition, layers in (
        ("top 1", {2}),
        ("bottom 2", {0, 1}),
        ("middle 1", {1}),
        ("odd 2", {0, 2}),
        ("even 1", {1}),
    ):
        mask = layer_mask(heads, condition)
        assert mask is not None
        assert mask.off == tuple(f"encoder.{layer}.{head}" for layer in sorted(layers) for head in range(HEADS))
    assert layer_mask(heads, "none") is None


def test_paper_and_ours_have_the_same_rows(study: TunedStudy) -> None:
    beside = rows(study, "layers")
    assert list(beside) == ["none", "top 1", "bottom 1", "middle 1", "odd 2", "even 1"]
    assert float(beside["middle 1"]["in-language"]) < float(beside["top 1"]["in-language"]) - 10
    assert beside["top 1"]["paper: MNLI-M"] == "", "the paper empties six layers, not one"
    assert PAPER_TABLE["even 6"] == (79.82, 90.17, 89.09, 90.02)


def test_it_loads_reports_and_runs_again_without_tuning(
    study: TunedStudy, plan: LayersPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LAYERS.load(study.folder) == study
    write_report(tmp_path / "report.html", report_of(study.folder))
    page = (tmp_path / "report.html").read_text()
    assert "Which claims hold here" in page
    assert "middle 1" in page
    monkeypatch.setattr("headwise.studies.tuned.TunedModels.make", None)
    again = run_study(find_plan(str(study.folder / "config.yaml")), study.folder)
    assert again == study


def test_typology_groups_are_those_of_the_table(study: TunedStudy) -> None:
    found = rows(study, "layers-typology")["middle 1"]
    assert list(found) == ["removed", "SVO", "SOV", "VSO", "high", "medium", "in-language", "cross-language"]
    languages = rows(study, "layers-languages")
    drops = {name: 100 * (1 - float(row["middle 1"]) / float(row["none"])) for name, row in languages.items()}
    assert float(found["SOV"]) == pytest.approx(np.mean([drops["hi"], drops["tr"]]))
    assert float(rows(study, "layers-paper")["middle 1"]["Agglutinative"]) == pytest.approx(drops["tr"])


def test_more_layers_than_the_model_has_are_an_error(plan: LayersPlan) -> None:
    with pytest.raises(HeadwiseError, match="the model has 3 layers"):
        LayersPlan(ScoringPlan("m", "pos", "d"), counts=[2, 4]).conditions(3)
    with pytest.raises(HeadwiseError, match="counts"):
        LayersPlan(ScoringPlan("m", "pos", "d"), counts=[4, 2])
    with pytest.raises(HeadwiseError, match="test_split"):
        LayersPlan(ScoringPlan("m", "pos", "d"), test_split="dev")
