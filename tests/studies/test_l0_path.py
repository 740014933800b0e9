"""L0 paths: noise heads go first, translation models by type of attention, and claims from planted numbers."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadMask, HeadwiseError
from headwise.engine.evaluation import MaskJudge
from headwise.report import write_report
from headwise.scoring import ScoringPlan
from headwise.scoring.l0_path import L0Point
from headwise.studies import TunedStudy, find_plan, report_of
from headwise.studies.l0_path import L0_PATH, L0PathPlan
from headwise.studies.l0_path_study import WHOLE, Measured, claims, closest, condition_of, resampled
from headwise.tasks.evaluation import Evaluation
from headwise.tasks.metrics import Accuracy
from headwise.tuning import l0, train_model
from tests.cli.test_text_tasks import IDS, save
from tests.families import BY_NAME
from tests.studies.planted import PLANTED
from tests.studies.tables import read_rows


@pytest.fixture(scope="module")
def plan(planted: Path) -> L0PathPlan:
    return L0PathPlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "en"), lams=[0, 0.02], sites=["all"],
        epochs=10, learning_rate=1e-5, gate_learning_rate=0.5, batch_tokens=128, scratch_lams=[0.02], scratch_epochs=1,
        resamples=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study(plan: L0PathPlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    return L0_PATH.run(plan, tmp_path_factory.mktemp("run") / "study")


def test_noise_heads_are_removed_and_the_others_kept(study: TunedStudy) -> None:
    none, free, pruned = read_rows(study.folder, "l0-path")
    assert (none["heads"], free["heads"]) == ("12", "12")
    layers = read_rows(study.folder, "l0-path-layers")[1]
    noise = [int(layers[f"encoder.{layer}"]) for layer in range(3) if layer != PLANTED]
    assert sum(noise) == 0
    assert int(layers[f"encoder.{PLANTED}"]) == int(pruned["heads"]) > 0
    assert float(pruned["accuracy"]) > 95
    mask = HeadMask.load(study.folder / "masks" / "all-0.02.json")
    assert mask.count == int(pruned["heads"])


def test_the_control_is_trained_from_scratch(study: TunedStudy) -> None:
    rows = {row["model"]: row for row in read_rows(study.folder, "l0-path-scratch")}
    assert float(rows["all 0.02"]["from scratch"]) < float(rows["all 0.02"]["from trained"])
    assert (rows["paper, WMT"]["heads"], len(rows)) == ("5/9/12", 4), "rows of the same name are kept once here"
    assert any("from scratch" in claim.text for claim in study.claims)


def test_a_finished_study_is_loaded_shown_and_not_trained_again(
    study: TunedStudy, plan: L0PathPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert L0_PATH.load(study.folder) == study
    write_report(tmp_path / "report.html", report_of(study.folder))
    assert "from scratch" in (tmp_path / "report.html").read_text()
    monkeypatch.setattr(MaskJudge, "results", lambda *_: pytest.fail("measured twice"))
    assert L0_PATH.run(plan, study.folder) == study


def test_an_interrupted_study_ends_with_the_same_numbers(
    study: TunedStudy, plan: L0PathPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = 0

    def killed(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return train(*arguments, **options)

    train = train_model
    with monkeypatch.context() as patch:
        patch.setattr(l0, "train_model", killed)
        with pytest.raises(KeyboardInterrupt):
            L0_PATH.run(plan, tmp_path / "study")
    resumed = L0_PATH.run(plan, tmp_path / "study")
    assert resumed.results == study.results
    assert resumed.claims == study.claims


def test_gates_of_a_translation_model_by_type_with_bleu_and_chrf(tmp_path: Path) -> None:
    model = BY_NAME["marian"].build(**IDS)
    save(tmp_path / "model", model)
    (tmp_path / "data" / "mt").mkdir(parents=True)
    lines = [f"w{n} w{m}\tw5 w6 w7 w8 w{n}" for n in range(4, 24) for m in range(30, 40)]
    (tmp_path / "data" / "mt" / "en-de.tsv").write_text("\n".join(lines) + "\n")
    scoring = ScoringPlan(str(tmp_path / "model"), "translation", str(tmp_path / "data"), "en-de")
    plan = L0PathPlan(
        scoring, lams=[9.0], epochs=3, batch_tokens=32, limit_train=24, limit_test=3, gate_learning_rate=2.0,
        resamples=50,
    )  # fmt: skip
    found = L0_PATH.run(plan, tmp_path / "study")
    none, encoder, everything = read_rows(found.folder, "l0-path")
    assert none["encoder/decoder/cross"] == "12/12/12"
    assert encoder["encoder/decoder/cross"] == "0/12/12"
    assert everything["encoder/decoder/cross"] == "0/0/0"
    assert {"bleu", "chrf"} <= none.keys()


def evaluation(right: int, of: int = 200) -> tuple[Evaluation, ...]:
    """An accuracy with the same examples right as far as there are enough."""
    statistics = np.stack([np.arange(of) < right, np.ones(of)], axis=1).astype(float)
    return (Evaluation.of(Accuracy(), statistics),)


def point(lam: float, encoder: list[int], decoder: list[int], cross: list[int], right: int) -> L0Point:
    """A point with numbers of heads kept in each layer, of 8."""
    kept = {"encoder": encoder, "decoder": decoder, "cross": cross}
    names = [(f"{kind}.{layer}.{head}", head < count) for kind, counts in kept.items()
             for layer, count in enumerate(counts) for head in range(8)]  # fmt: skip
    players, on = zip(*names, strict=True)
    return L0Point(lam, HeadMask(players, on), (), evaluation(right))


FULL = [8] * 6


def planted_claims(right: int, scratch: int) -> dict[str, str]:
    """The verdicts if a quarter of the encoder heads gives `right` right answers, and the control `scratch`."""
    encoder = point(0, FULL, FULL, FULL, 180), point(0.1, [2] * 6, FULL, FULL, right)
    half = point(0.1, [1] * 6, [7, 6, 5, 3, 2, 1], [3, 4, 6, 7, 8, 8], 170)
    measured = Measured(
        "en-fr", evaluation(180), {"encoder": encoder, "all": (point(0, FULL, FULL, FULL, 180), half)},
        {WHOLE: evaluation(150), condition_of("all", 0.1): evaluation(scratch)},
    )  # fmt: skip
    settings = L0PathPlan(ScoringPlan("m", "translation", "d"), lams=[0, 0.1], resamples=500)
    found = resampled(measured, [str(n) for n in range(200)], Accuracy(), 500)
    return {claim.text: claim.verdict for claim in claims(settings, measured, found, "accuracy")}


def test_claims_recover_what_is_planted() -> None:
    found = planted_claims(right=180, scratch=60)
    assert list(found.values()) == ["yes"] * 5
    assert next(iter(found)) == "Without 36 of 48 encoder heads, accuracy drops by at most 0.5."


def test_claims_that_do_not_hold_are_denied() -> None:
    verdicts = list(planted_claims(right=120, scratch=150).values())
    assert verdicts[0] == "no"
    assert verdicts[-1] == "no"


def test_the_closest_point_is_the_smallest_penalty_of_equal_ones() -> None:
    points = [point(lam, [4] * 6, FULL, FULL, 100) for lam in (0.1, 0.2)]
    assert closest(points, 0.5, ("encoder",)).lam == 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lams": [0.2, 0.1]}, "lams: .*ascending"),
        ({"sites": ["head"]}, "sites: a list of all, encoder"),
        ({"scratch_lams": [0.7]}, "scratch_lams: some of 'lams', which 0.7 is not"),
        ({"test_split": "dev"}, "test_split"),
        ({"tolerance": -1}, "tolerance"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_mistakes_are_named(plan: L0PathPlan, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        dataclasses.replace(plan, **changes)


def test_several_languages_are_refused(plan: L0PathPlan, tmp_path: Path) -> None:
    several = dataclasses.replace(plan, scoring=dataclasses.replace(plan.scoring, languages="en,es"))
    with pytest.raises(HeadwiseError, match="languages: one language or pair"):
        L0_PATH.run(several, tmp_path / "study")


@pytest.mark.parametrize("size", ["tiny", "small", "full"])
def test_the_plan_has_three_sizes(size: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWISE_DATA", str(tmp_path))
    assert isinstance(find_plan("l0-path", [f"size={size}"]), L0PathPlan)
