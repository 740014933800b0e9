"""Few training examples: nested shares of the target beside the whole source, and claims from planted gains."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.engine.evaluation import MaskJudge
from headwise.report import write_report
from headwise.scoring import ScoringPlan
from headwise.studies import find_plan, report_of
from headwise.studies.low_resource import LOW_RESOURCE, LowResourcePlan, claims, condition_of
from headwise.studies.resampled import Resampled, resample
from headwise.studies.tuned import TunedModels
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks.metrics import Accuracy
from headwise.tuning.untuned import load_untuned
from tests.studies.planted import PLANTED
from tests.studies.tables import read_rows


@pytest.fixture(scope="module")
def plan(planted: Path) -> LowResourcePlan:
    """A random order in which two heads can go, and all heads that matter are among the first eight."""
    return LowResourcePlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "es,tr", method="random", seed=2),
        counts=[2, 8], shares=[0.25, 0.5], draws=2, epochs=1, learning_rate=1e-4, resamples=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study(plan: LowResourcePlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    return LOW_RESOURCE.run(plan, tmp_path_factory.mktemp("run") / "study")


def test_shares_are_nested_seeded_and_of_the_target_alone(plan: LowResourcePlan) -> None:
    setting, classifier = load_untuned(plan.scoring, "en,es,tr")
    models = TunedModels(setting, None, classifier)

    def examples(percent: int, draw: int, code: str) -> set[int]:
        return {number for found, number in models._chosen(plan.target_tuning("tr", percent, draw)) if found == code}

    assert [len(examples(percent, 0, "tr")) for percent in (25, 50)] == [8, 16]
    assert examples(25, 0, "tr") < examples(50, 0, "tr")
    assert examples(50, 0, "tr") != examples(50, 1, "tr")
    assert examples(25, 0, "en") == examples(50, 1, "en") == set(range(32)), "all examples of the source"
    few = dataclasses.replace(plan, train_share=0.5)
    assert few.target_tuning("tr", 25, 0).shares == {"en": 0.5, "tr": 0.25}


def test_dev_chooses_the_number_of_heads_that_does_not_hurt(study: TunedStudy) -> None:
    matter = [name.split(".")[1] == str(PLANTED) for name in study.scores["en"].ranked()]
    assert sum(matter[:2]) < 4 == sum(matter[:8]), "with another seed this would test nothing"
    rows = read_rows(study.folder, "low-resource")
    assert [(row["target"], row["data"]) for row in rows] == [
        ("es", "25%"), ("es", "50%"), ("tr", "25%"), ("tr", "50%"), ("mean gain", "25%"), ("mean gain", "50%"),
    ]  # fmt: skip
    for row in rows[:4]:
        assert float(row["unpruned"]) > 95
        assert row["off"] == "2.0"
        assert float(row["best on dev"]) > 95
    for row in read_rows(study.folder, "models"):
        assert (float(row["test"]) < 90) == (row["off"] == "8")


def test_a_value_is_the_mean_of_the_draws(study: TunedStudy) -> None:
    models = read_rows(study.folder, "models")
    assert len(models) == 2 * 2 * 2 * 3
    [row] = [row for row in read_rows(study.folder, "low-resource") if (row["target"], row["data"]) == ("tr", "25%")]
    for column, condition, off in (("unpruned", "25% unpruned", "0"), ("best on dev", "25% pruned", "2")):
        values = [
            float(each["test"]) for each in models
            if (each["target"], each["condition"], each["off"]) == ("tr", condition, off)
        ]  # fmt: skip
        assert len(values) == 2
        assert float(row[column]) == pytest.approx(np.mean(values))


def test_a_second_run_does_no_work(plan: LowResourcePlan, study: TunedStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)
    monkeypatch.setattr(MaskJudge, "measure", None)
    assert LOW_RESOURCE.run(plan, study.folder) == study
    assert LOW_RESOURCE.load(study.folder) == study


def test_the_report_has_curves_over_the_data(study: TunedStudy, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", report_of(study.folder))
    page = (tmp_path / "report.html").read_text()
    assert "% of the training examples" in page
    [plot] = study.curves
    assert [(curve.language, curve.ranking, curve.removed) for curve in plot.curves] == [
        (code, state, (25, 50)) for code in ("es", "tr") for state in ("unpruned", "pruned")
    ]  # fmt: skip


def planted_gains(gain_at: Callable[[int], float], slope: float = 0.1) -> tuple[LowResourcePlan, Resampled]:
    """Accuracies that rise with the data, and gains that depend on it."""
    plan = LowResourcePlan(ScoringPlan("m", "ner", "d"), shares=[0.1, 0.5, 0.7, 0.9])
    generator, measured = np.random.default_rng(0), {}
    for language in ("de", "ar", "zh"):
        luck = generator.uniform(size=800)
        for percent in plan.percents:
            for state, extra in (("unpruned", 0.0), ("pruned", gain_at(percent))):
                right = luck + generator.normal(0, 0.005, 800) < 0.5 + (slope * percent + extra) / 100
                measured[language, condition_of(percent, state), 0] = np.stack([right, np.ones(800)], 1).astype(float)
    ids = {code: [code, *map(str, range(799))] for code in ("de", "ar", "zh")}
    return plan, resample(measured, ids, Accuracy(), 300)


def test_claims_follow_the_numbers() -> None:
    def verdicts(gain_at: Callable[[int], float], slope: float = 0.1) -> list[str]:
        return [claim.verdict for claim in claims(*planted_gains(gain_at, slope))]

    assert verdicts(lambda percent: 10 - percent / 20) == ["yes", "yes", "yes"]
    assert verdicts(lambda percent: -10 + -percent / 10) == ["no", "yes", "no"]
    assert verdicts(lambda percent: -5 + percent / 10)[1] == "no"
    assert verdicts(lambda _: 0.0, slope=0.4)[2] == "no", "20% less data cost 8 points"


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"shares": [0.5, 0.1]}, "shares"), ({"shares": [0.0, 0.1]}, "shares"), ({"train_languages": "en,de"}, "source")],
)
def test_mistakes_in_a_plan_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        LowResourcePlan(ScoringPlan("m", "pos", "d"), **fields)


def test_targets_need_training_examples(plan: LowResourcePlan, tmp_path: Path) -> None:
    alone = dataclasses.replace(plan, scoring=dataclasses.replace(plan.scoring, languages="en"))
    with pytest.raises(HeadwiseError, match="no target has training examples"):
        LOW_RESOURCE.run(alone, tmp_path / "run")


def test_plans_have_sizes() -> None:
    sizes = {size: find_plan("low-resource", [f"size={size}", "data=d"]) for size in ("tiny", "small", "full")}
    assert sizes["full"].percents == tuple(range(10, 100, 10))
    assert sizes["full"].scoring.languages.count(",") == 6
    assert sizes["small"].percents == (10, 30, 50, 70, 90)
