"""Prune, then tune: planted heads are found, results equal tuning by hand, parts merge, claims follow the numbers."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError, shrink
from headwise.engine.evaluation import evaluate
from headwise.report import write_report
from headwise.scoring import ScoringPlan
from headwise.stats import PairedTest
from headwise.studies import find_plan, report_of
from headwise.studies.kinds import run_part, run_study
from headwise.studies.parts import Part
from headwise.studies.prune_then_tune import PRUNE_THEN_TUNE, PruneThenTunePlan
from headwise.studies.prune_then_tune_study import (
    Arm,
    Point,
    PruneThenTuneStudy,
    TargetOutcome,
    load_prune_then_tune,
)
from headwise.tasks import Task
from headwise.tuning import tune
from headwise.tuning.untuned import load_untuned
from tests.studies.planted import PLANTED


@pytest.fixture(scope="module")
def plan(planted: Path) -> PruneThenTunePlan:
    """Four or six of twelve heads; the four of the middle layer are the only ones that do anything."""
    return PruneThenTunePlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "es,tr", method="leave-one-out"),
        counts=[4, 6], randoms=2, epochs=1, learning_rate=1e-4, resamples=100,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study(plan: PruneThenTunePlan, tmp_path_factory: pytest.TempPathFactory) -> PruneThenTuneStudy:
    return PRUNE_THEN_TUNE.run(plan, tmp_path_factory.mktemp("run") / "study")


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_planted_heads_are_ranked_highest_and_must_stay(study: PruneThenTuneStudy) -> None:
    ranked = study.scores["en"].ranked()
    assert {name.split(".")[1] for name in ranked[-4:]} == {str(PLANTED)}
    assert len(study.outcomes) == 4
    for each in study.outcomes:
        assert each.base > 95
        assert abs(each.gain("lowest")) < 2, "heads without effect can go"
        assert each.gain("highest") < -15, "without the planted heads, half of the ambiguous words are wrong"
        assert each.gain("highest") < each.gain("random") < 1


def test_the_result_is_chosen_on_dev_and_equals_tuning_by_hand(
    plan: PruneThenTunePlan, study: PruneThenTuneStudy
) -> None:
    setting, _ = load_untuned(plan.scoring, "en")
    assert isinstance(setting.task, Task)
    for mode, trained in (("cross", ("en",)), ("multi", ("en", "tr"))):
        [found] = [each for each in study.outcomes if (each.mode, each.language) == (mode, "tr")]
        for point in found.arms["highest"].points:
            off = study.scores["en"].ranked()[-point.count :]
            small = shrink(setting.model, study.scores["en"].without(off).moved_to(setting.heads))
            tuned = tune(
                small, setting.tokenizer, setting.dataset, setting.task, trained, settings=plan.tuning(trained).settings
            )
            assert tuned.result.best_value == point.dev
            examples = setting.dataset.examples("tr", "test")
            assert evaluate(tuned.model, setting.task, examples, setting.tokenizer).value == point.test


def test_tables_report_and_reloading(study: PruneThenTuneStudy) -> None:
    main = rows(study.folder, "prune-then-tune")
    assert [(row["mode"], row["target"]) for row in main] == [
        ("cross", "es"), ("cross", "tr"), ("multi", "es"), ("multi", "tr"),
        ("cross", "mean gain"), ("multi", "mean gain"),
    ]  # fmt: skip
    assert float(main[1]["best on dev"]) == study.outcomes[1].arms["lowest"].best.test
    assert "paper mBERT unpruned" in main[0]
    points = rows(study.folder, "points")
    assert len(points) == 4 * (1 + 4 * 2)
    assert load_prune_then_tune(study.folder) == dataclasses.replace(
        study, scores=load_prune_then_tune(study.folder).scores
    )
    write_report(study.folder / "report.html", report_of(study.folder))
    page = (study.folder / "report.html").read_text()
    assert "Pruned, then tuned" in page
    assert "<polyline" in page
    assert "sign-flip" in page


def test_parts_on_several_machines_give_the_same_study(
    plan: PruneThenTunePlan, study: PruneThenTuneStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = [run_part(plan, tmp_path / str(shard), Part(shard=shard, shards=2)) for shard in (1, 2)]
    assert sum(part.measured for part in shards) == shards[0].cells
    monkeypatch.setattr("headwise.studies.tuned.train_encoded", None)  # nothing is tuned again
    merged = run_study(plan, tmp_path / "all", parts=[part.folder for part in shards])
    assert merged.to_dict() == {**study.to_dict(), "seconds": merged.to_dict()["seconds"]}
    with pytest.raises(HeadwiseError, match="randoms"):
        run_study(dataclasses.replace(plan, randoms=1), tmp_path / "other", parts=[shards[0].folder])
    with pytest.raises(HeadwiseError, match="none of the"):
        run_part(plan, shards[0].folder, Part("nothing like this"))


class KilledError(Exception):
    """Stands for a kill."""


def test_a_study_killed_five_times_gives_the_same_tables(
    plan: PruneThenTunePlan, study: PruneThenTuneStudy, tmp_path: Path
) -> None:
    small = dataclasses.replace(plan, patience=1, modes=["cross"], randoms=1, epochs=2, batch_tokens=48)
    whole = PRUNE_THEN_TUNE.run(small, tmp_path / "whole")
    for _ in range(5):
        calls = 0

        def stop(_done: int, _total: int, status: str) -> None:
            nonlocal calls
            calls += "epoch" in status
            if calls == 6:  # in the second epoch of a model, or in the first epoch of the next one
                raise KilledError

        with pytest.raises(KilledError):
            PRUNE_THEN_TUNE.run(small, tmp_path / "killed", stop)
    again = PRUNE_THEN_TUNE.run(small, tmp_path / "killed")
    for name in ("prune-then-tune", "controls", "claims", "points"):
        assert (tmp_path / "killed" / f"{name}.csv").read_text() == (whole.folder / f"{name}.csv").read_text()
    assert again.outcomes == whole.outcomes


def test_patience_stops_a_series(plan: PruneThenTunePlan, study: PruneThenTuneStudy, tmp_path: Path) -> None:
    patient = dataclasses.replace(plan, patience=1, modes=["cross"], randoms=0, counts=[1, 2, 3, 4])
    found = PRUNE_THEN_TUNE.run(patient, tmp_path / "run")
    for arm in found.outcomes[0].arms.values():
        dev = [point.dev for point in arm.points]
        assert all(value > max(dev[:place]) for place, value in enumerate(dev[:-1]) if place), (
            "it went on while dev rose"
        )
        assert len(dev) == 4 or dev[-1] <= max(dev[:-1])
    assert min(len(arm.points) for arm in found.outcomes[0].arms.values()) < 4


def outcome(language: str, gains: dict[str, float], mode: str = "cross") -> TargetOutcome:
    test = PairedTest(0.0, 0.0, 0.0, 1.0, 100)
    arms = {arm: Arm((Point(1, 90.0, 50 + gain), Point(2, 89.0, 60 + gain)), test) for arm, gain in gains.items()}
    return TargetOutcome(mode, language, 50.0, 90.0, 100, arms)


def claims_of(gains: list[dict[str, float]]) -> list[str]:
    outcomes = tuple(outcome(f"l{place}", each) for place, each in enumerate(gains))
    found = PruneThenTuneStudy(Path(), "accuracy", "pos", "en", "gradient", outcomes, {}, {}, ())
    assert "adds 10.00 points" in found.paragraph, "the best on test is the second point, the best on dev the first"
    return [claim.verdict for claim in found.claims]


def test_claims_follow_the_numbers() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, (8, 4))
    arms = ("lowest", "highest", "random 1", "random 2")

    def world(*means: float) -> list[dict[str, float]]:
        return [dict(zip(arms, (np.array(means) + row).tolist(), strict=True)) for row in noise]

    assert claims_of(world(1, -1, -0.5, -0.5)) == ["yes", "yes", "yes", "yes"]
    assert claims_of(world(-1, 1, 0.5, 0.5)) == ["no", "no", "no", "no"]
    assert claims_of(world(0, 0, 0, 0))[0] == "undecided"
    assert claims_of(world(1, -1, -0.5, -0.5)[:4]) == ["undecided"] * 4, "four languages are too few"


def test_plans_have_sizes() -> None:
    for name in ("pos", "ner", "slots"):
        plans = {size: _plan(name, size) for size in ("tiny", "small", "full")}
        assert plans["small"]["model"] == "e5-small"
        assert len(plans["small"]["languages"].split(",")) >= 8
        assert plans["full"]["model"] == "bert-base-multilingual-cased"
        assert plans["full"]["counts"] == list(range(1, 13))
        assert plans["full"]["epochs"] == 3


def _plan(name: str, size: str) -> dict[str, Any]:
    found = find_plan(f"prune-then-tune-{name}", [f"size={size}", "data=phrasebook"])
    fields: dict[str, Any] = json.loads(json.dumps({**dataclasses.asdict(found), **dataclasses.asdict(found.scoring)}))
    return fields


def test_mistakes_in_a_plan_are_named(plan: PruneThenTunePlan, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"counts": [3, 2], "modes": ["both"], "test_split": "dev", "share": 0}
    for field, value in changes.items():
        with pytest.raises(HeadwiseError, match=field):
            dataclasses.replace(plan, **{field: value})
    with pytest.raises(HeadwiseError, match="size 'huge'"):
        find_plan("prune-then-tune-pos", ["size=huge"])
    with pytest.raises(HeadwiseError, match="12 heads"):
        PRUNE_THEN_TUNE.run(dataclasses.replace(plan, counts=[12]), tmp_path / "run")
