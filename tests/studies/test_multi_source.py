"""Several sources: the target is left out, rankings are those of the sources, and claims follow the numbers."""

import copy
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadMask, HeadwiseError, shrink
from headwise.engine.evaluation import MaskJudge, evaluate
from headwise.report import write_report
from headwise.scores import HeadScores
from headwise.scores.sources import sum_sources
from headwise.scoring import ScoringPlan
from headwise.studies import find_plan, report_of
from headwise.studies.multi_source import MULTI_SOURCE, MultiSourcePlan, claims
from headwise.studies.papers import ma_sources
from headwise.studies.resampled import Resampled, resample
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks import Task
from headwise.tasks.metrics import Accuracy
from headwise.tuning import tune
from headwise.tuning.untuned import load_untuned
from tests.studies.planted import PLANTED
from tests.studies.tables import read_rows


@pytest.fixture(scope="module")
def plan(planted: Path) -> MultiSourcePlan:
    """Eight of twelve heads do nothing; those of the middle layer are needed."""
    return MultiSourcePlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "es,ar", method="leave-one-out"),
        train_languages="en,es,ar", counts=[4, 8], epochs=1, learning_rate=1e-4, resamples=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study(plan: MultiSourcePlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    return MULTI_SOURCE.run(plan, tmp_path_factory.mktemp("run") / "study")


def test_heads_without_effect_can_go_by_every_ranking(study: TunedStudy) -> None:
    for row in read_rows(study.folder, "models"):
        assert float(row["test"]) > 95, row
    assert {tuple(sorted({name.split(".")[1] for name in scores.ranked()[-4:]})) for scores in study.scores.values()} \
        == {(str(PLANTED),)}  # fmt: skip


def test_a_model_is_tuned_on_the_sources_and_not_on_the_target(plan: MultiSourcePlan, study: TunedStudy) -> None:
    setting, _ = load_untuned(plan.scoring, plan.train_languages)
    assert isinstance(setting.task, Task)
    matrices = {
        code: HeadScores.load(study.folder / f"scoring-{code}" / "scores" / f"{code}.json") for code in ("en", "es")
    }
    ranked = sum_sources(matrices).ranked()
    small = shrink(copy.deepcopy(setting.model), HeadMask.without(setting.heads, ranked[:4]))
    settings = plan.settings(0)
    tuned = tune(small, setting.tokenizer, setting.dataset, setting.task, ("en", "es"), settings=settings)
    [row] = [
        row for row in read_rows(study.folder, "models")
        if (row["target"], row["condition"], row["off"]) == ("ar", "SD", "4")
    ]  # fmt: skip
    assert float(row["dev"]) == tuned.result.best_value
    test = setting.dataset.examples("ar", "test")
    assert float(row["test"]) == evaluate(tuned.model, setting.task, test, setting.tokenizer).value


def test_every_source_is_tried_in_turn_and_the_table_has_the_layout_of_the_paper(study: TunedStudy) -> None:
    orders = {(row["target"], row["condition"], row["order"]) for row in read_rows(study.folder, "models")}
    assert orders == {
        ("es", "unpruned", ""), ("es", "MD", "MD"), ("es", "SD", "SD"), ("es", "EC", "en"), ("es", "EC", "ar"),
        ("ar", "unpruned", ""), ("ar", "MD", "MD"), ("ar", "SD", "SD"), ("ar", "EC", "en"), ("ar", "EC", "es"),
    }  # fmt: skip
    rows = read_rows(study.folder, "multi-source")
    assert [(row["choice"], row["ranking"]) for row in rows] == [
        ("", "unpruned"),
        *(("best on dev", name) for name in ("MD", "SD", "EC")),
        *(("best on test (paper's rule)", name) for name in ("MD", "SD", "EC")),
        *(("paper, mBERT", name) for name in ("unpruned", "MD", "SD", "EC")),
    ]  # fmt: skip
    assert (rows[-1]["ar"], rows[-1]["es"]) == ("75.86", "")
    assert float(rows[-1]["mean gain"]) == pytest.approx(75.86 - 74.07)
    for dev, test in zip(rows[1:4], rows[4:7], strict=True):
        assert all(float(test[code]) >= float(dev[code]) for code in ("es", "ar"))


def test_a_second_run_does_no_work(plan: MultiSourcePlan, study: TunedStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)
    monkeypatch.setattr(MaskJudge, "measure", None)
    assert MULTI_SOURCE.run(plan, study.folder) == study
    assert MULTI_SOURCE.load(study.folder) == study


def test_the_report_shows_claims_curves_and_scores(study: TunedStudy, tmp_path: Path) -> None:
    report = report_of(study.folder)
    assert report.title == "Heads of model: parts of speech"
    assert report.facts == ("Multi-source study", "data folder: data", "Spanish, Arabic")
    assert str(tmp_path.parent) not in "".join([report.title, *report.facts]), "paths are in the provenance only"
    write_report(tmp_path / "report.html", report)
    page = (tmp_path / "report.html").read_text()
    assert "Claims of Ma et al. (2021)" in page
    assert "Several sources" in page
    assert "table 6" in page
    assert set(study.scores) == {"en", "es", "ar"}
    [plot] = study.curves
    assert {curve.ranking for curve in plot.curves if curve.language == "ar" and curve.removed} == {
        "MD", "SD", "EC en", "EC es",
    }  # fmt: skip


def planted_gains(**gains: float) -> Resampled:
    """Five targets with 60% of 500 examples right, and with the given gains in percent."""
    generator, measured = np.random.default_rng(0), {}
    for language in ("en", "de", "ar", "he", "zh"):
        luck = generator.uniform(size=500)
        for condition in ("unpruned", "MD", "SD", "EC"):
            right = luck + generator.normal(0, 0.01, 500) < 0.6 + gains.get(condition, 0.0) / 100
            measured[language, condition, 0] = np.stack([right, np.ones(500)], axis=1).astype(float)
    return resample(measured, {code: [code, *map(str, range(499))] for code, _, _ in measured}, Accuracy(), 300)


def test_claims_follow_the_numbers() -> None:
    def verdicts(**gains: float) -> list[str]:
        return [claim.verdict for claim in claims(planted_gains(**gains), "ner")]

    assert verdicts(MD=4, SD=4, EC=8) == ["yes", "yes", "yes", "yes", "yes"]
    assert verdicts(MD=-4, SD=-9, EC=-9) == ["no", "no", "no", "no", "no"]
    assert verdicts()[:3] == ["undecided"] * 3


def test_claims_cite_the_table_of_the_task() -> None:
    pos, other = (claims(planted_gains(), task) for task in ("pos", "slots"))
    assert [claim.paper for claim in pos[:4]] == [
        f"for {count} of 5 targets (table 6)" for count in (5, 3, 5, 5)
    ]  # fmt: skip
    assert [claim.paper for claim in other[:4]] == [""] * 4
    assert "paired bootstrap over examples" in pos[0].test


def test_numbers_of_the_paper() -> None:
    assert ma_sources("pos")["zh"] == {"unpruned": 61.31, "MD": 61.74, "SD": 61.29, "EC": 62.33}
    assert {len(ma_sources(task)) for task in ("pos", "ner")} == {5}
    means = {
        task: np.mean([row["EC"] - row["unpruned"] for row in ma_sources(task).values()]) for task in ("pos", "ner")
    }
    assert means == pytest.approx({"pos": 1.426, "ner": 3.884})


def test_plans_have_sizes() -> None:
    sizes = {size: find_plan("multi-source", [f"size={size}", "data=d"]) for size in ("tiny", "small", "full")}
    assert sizes["full"].trained == ("en", "de", "ar", "he", "zh")
    assert list(sizes["full"].counts) == list(range(1, 13))
    assert sizes["small"].scoring.model == "e5-small"


def test_two_sources_must_be_left() -> None:
    with pytest.raises(HeadwiseError, match="train_languages"):
        MultiSourcePlan(ScoringPlan("m", "pos", "d"), train_languages="en,de")
