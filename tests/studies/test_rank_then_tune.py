"""Several rankings before tuning: a ranking that finds the heads without effect beats one that does not."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.engine.evaluation import MaskJudge
from headwise.report import write_report
from headwise.scoring import ScoringPlan
from headwise.scoring.run_folder import load_scores
from headwise.studies import find_plan, report_of
from headwise.studies.rank_then_tune import RANK_THEN_TUNE, RankThenTunePlan, claims
from headwise.studies.resampled import Resampled, resample
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks.metrics import Accuracy
from tests.studies.planted import PLANTED
from tests.studies.tables import read_rows


@pytest.fixture(scope="module")
def plan(planted: Path) -> RankThenTunePlan:
    """All rankings of the default against one that removes the heads of the upper layers first."""
    scoring = ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "es,tr", method="layers", budget=1500)
    rankings = ("layers", "gradient", "stars", "relevance", "l0", "soft", "random")
    return RankThenTunePlan(
        scoring, rankings=rankings, counts=[8, 9], randoms=2, epochs=1, learning_rate=1e-4, resamples=300
    )


@pytest.fixture(scope="module")
def study(plan: RankThenTunePlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    return RANK_THEN_TUNE.run(plan, tmp_path_factory.mktemp("run") / "study")


def kept(study: TunedStudy, ranking: str, count: int = 8) -> int:
    """How many of the heads that matter a ranking keeps."""
    folder = study.folder / ("scoring" if ranking == "layers" else f"scoring-{ranking}")
    return sum(name.split(".")[1] == str(PLANTED) for name in load_scores(folder)["en"].ranked()[count:])


def test_only_rankings_that_keep_planted_heads_keep_the_metric(study: TunedStudy) -> None:
    assert kept(study, "stars") == 4
    assert kept(study, "layers") == 0
    rows = {row["ranking"]: row for row in read_rows(study.folder, "rank-then-tune")}
    assert list(rows) == ["unpruned", "layers", "gradient", "stars", "relevance", "l0", "soft", "random"]
    assert float(rows["unpruned"]["best on dev"]) > 95
    assert abs(float(rows["stars"]["gain"])) < 2
    assert float(rows["layers"]["gain"]) < -10
    for ranking in ("gradient", "stars", "relevance", "l0", "soft"):
        assert (float(rows[ranking]["gain"]) > -10) == (kept(study, ranking, 9) > 0)
    assert float(rows["stars"]["mean without tuning"]) > float(rows["layers"]["mean without tuning"]) + 10
    assert float(rows["stars"]["mean over counts gain"]) == pytest.approx(
        float(rows["stars"]["mean over counts"]) - float(rows["layers"]["mean over counts"])
    )


def verdict(study: TunedStudy, *words: str) -> str:
    [claim] = [claim for claim in study.claims if all(word in claim.text for word in words)]
    assert "paired bootstrap over examples" in claim.test
    return claim.verdict


def test_the_claim_for_the_better_ranking_holds(study: TunedStudy) -> None:
    assert verdict(study, "ranked by stars", "mean over") == "yes"
    assert verdict(study, "ranked by stars", "on dev") == "yes"
    last = study.claims[-1]
    assert "permutation test of Spearman's rank correlation over orders of heads" in last.test
    assert study.paragraph.startswith("12 claims of this study were checked here")


def test_the_report_shows_every_ranking(study: TunedStudy, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", report_of(study.folder))
    page = (tmp_path / "report.html").read_text()
    assert "Claims of this study" in page
    assert "Ranked, then tuned" in page
    [plot] = study.curves
    random = [curve for curve in plot.curves if curve.ranking == "random"]
    assert all(curve.removed == (0, 8, 9) and len(curve.low) == 3 for curve in random)
    assert study.scores["en"].provenance.method == "layers"


def test_a_second_run_does_no_work(plan: RankThenTunePlan, study: TunedStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)
    monkeypatch.setattr(MaskJudge, "measure", None)
    assert RANK_THEN_TUNE.run(plan, study.folder) == study
    assert RANK_THEN_TUNE.load(study.folder) == study


def planted_levels(levels: dict[str, float], tuned: bool) -> Resampled:
    """Two languages in which each order has the given accuracy at every count, or at its best one."""
    generator, measured = np.random.default_rng(0), {}
    for language in ("de", "zh"):
        luck = generator.uniform(size=1000)
        for order, level in {"unpruned": 80.0, **levels}.items():
            for name in [order] if tuned or order == "unpruned" else [f"{order} 2", f"{order} 4"]:
                right = luck + generator.normal(0, 0.005, 1000) < level / 100
                measured[language, name, 0] = np.stack([right, np.ones(1000)], axis=1).astype(float)
    ids = {code: [code, *map(str, range(999))] for code in ("de", "zh")}
    return resample(measured, ids, Accuracy(), 300)


def claims_of(levels: dict[str, float], masked: dict[str, float]) -> list[str]:
    plan = RankThenTunePlan(
        ScoringPlan("m", "pos", "d", method="gradient"), rankings=["gradient", "stars", "l0", "random"], counts=[2, 4],
        randoms=2, resamples=2000,
    )  # fmt: skip
    found = claims(plan, planted_levels(levels, True), planted_levels(levels, False), planted_levels(masked, False))
    return [claim.verdict for claim in found]


def test_claims_follow_the_numbers() -> None:
    better = {"gradient": 75.0, "stars": 79.0, "l0": 70.0, "random 1": 60.0, "random 2": 66.0}
    assert claims_of(better, better) == ["yes", "yes", "no", "no", "yes", "yes"]
    worse = {"gradient": 60.0, "stars": 60.0, "l0": 60.0, "random 1": 75.0, "random 2": 70.0}
    found = claims_of(worse, better)
    assert found[:5] == ["undecided"] * 4 + ["no"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rankings": ["gradient", "nosuch"]}, "no method 'nosuch'"),
        ({"rankings": ["gradient", "gradient"]}, "twice"),
        ({"rankings": ["stars", "random"]}, "method"),
        ({"train_languages": "en,de"}, "source"),
        ({"randoms": 0}, "randoms"),
    ],
)
def test_mistakes_in_a_plan_are_named(fields: dict[str, Any], message: str) -> None:
    plan = RankThenTunePlan(ScoringPlan("m", "pos", "d", method="gradient"))
    with pytest.raises(HeadwiseError, match=message):
        dataclasses.replace(plan, **fields)


def test_plans_have_sizes() -> None:
    sizes = {size: find_plan("rank-then-tune", [f"size={size}", "data=d"]) for size in ("tiny", "small", "full")}
    assert sizes["small"].others == sizes["full"].others == ("stars", "relevance", "l0", "soft")
    assert len(sizes["small"].scoring.languages.split(",")) == 6
