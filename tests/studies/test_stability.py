"""The stability study: one run per seed, their agreement, and the comparison of languages."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.scores import HeadScores
from headwise.scoring import ScoringPlan, run_scoring
from headwise.studies import StabilityPlan, StabilityStudy, find_plan
from headwise.studies.stability import STABILITY, pool_seeds
from tests.cli.running import run
from tests.report.samples import scores_of
from tests.scoring.world import Dawdler, DawdlerRounds, save_data, save_model


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.scoring.run.find_method", lambda name, **options: Dawdler(**options))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_model(folder / "model")
    save_data(folder / "data")
    return folder


@pytest.fixture
def plan(world: Path) -> StabilityPlan:
    return StabilityPlan(
        ScoringPlan(str(world / "model"), "pos", str(world / "data"), "sw,en", budget=24), seeds=(3, 1)
    )


def study_of(*seeds: dict[str, HeadScores]) -> StabilityStudy:
    return StabilityStudy(Path("run"), dict(enumerate(seeds)), {}, ())


def rows_of(study: StabilityStudy, name: str) -> list[tuple[Any, ...]]:
    [found] = [table for table in study.tables() if table.name == name]
    return list(found.rows)


def test_seeds_are_compared_pair_by_pair() -> None:
    study = study_of(
        {"a": scores_of([5, 4, 3, -1, -2], "++?--")},
        {"a": scores_of([4, 5, 3, -2, -1], "++?-?")},
        {"a": scores_of([5, 4, 3, -2, -1], "++?+-")},
    )
    found = study.languages["a"]
    assert found.harmful == (2, 1, 1)
    assert found.always == ()
    assert found.jaccard == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)
    # 1 − 6·Σd²/(n³ − n): Σd² is 4, 2 and 2 of 120.
    assert found.correlation == pytest.approx((0.8 + 0.9 + 0.9) / 3)
    assert found.opposed == ("encoder.0.3",)
    assert found.undecided == pytest.approx(4 / 3)
    [row] = rows_of(study, "stability")
    assert row[:5] == ("a", 2, 1, 1, 0)
    assert [table.name for table in study.tables()] == ["stability"]


def test_heads_that_every_seed_finds_harmful_are_counted() -> None:
    study = study_of({"a": scores_of([1, 2, -3, -4], "++--")}, {"a": scores_of([1, 2, -3, -4], "?---")})
    [section] = study.sections()
    assert section.headline == (
        "Of the heads that one of two seeds finds harmful, 67% are harmful for both (mean over 1 language and pairs of "
        "seeds). The rank correlation of their values is 1.00. 1 head is harmful for one seed and helpful for another."
    )
    found = study.languages["a"]
    assert found.always == ("encoder.0.2", "encoder.0.3")
    assert found.jaccard == pytest.approx(2 / 3)
    assert found.opposed == ("encoder.0.1",)


def test_languages_are_compared_by_their_mean_over_seeds() -> None:
    # The two seeds of b differ widely; their mean has the ranks (1, 2, 4, 3).
    study = study_of(
        {"a": scores_of([1, 2, 3, 4]), "b": scores_of([9, 2, 8, 7])},
        {"a": scores_of([1, 2, 3, 4]), "b": scores_of([-9, 2, 0, -1])},
    )
    assert rows_of(study, "likeness") == [("a", 1.0, pytest.approx(0.8)), ("b", pytest.approx(0.8), 1.0)]


def test_constant_values_have_no_rank_correlation() -> None:
    study = study_of(*[{"a": scores_of([1, 2, 3, 4]), "b": scores_of([1] * 4)}] * 2)
    assert rows_of(study, "likeness") == [("a", 1.0, None), ("b", None, None)]
    assert study.languages["b"].correlation is None
    assert "NaN" not in json.dumps(study.to_dict())


def test_agnostic_heads_are_listed_with_their_mean_value() -> None:
    study = study_of(
        {"a": scores_of([4, 6, 2, 1, 0]), "b": scores_of([3, 4, 0, 1, 2])},
        {"a": scores_of([6, 8, 2, 1, 0]), "b": scores_of([3, 4, 0, 1, 2])},
    )
    assert rows_of(study, "agnostic") == [("encoder.0.1", 5.5), ("encoder.0.0", 4.0)]


def test_specific_heads_are_decided_by_every_seed_in_every_language() -> None:
    values = [0.1] * 4
    first = {"a": scores_of(values, "--++"), "b": scores_of(values, "+++-"), "c": scores_of(values, "++++")}
    second = first | {"c": scores_of(values, "+?++")}
    assert rows_of(study_of(first, second), "specific") == [
        ("encoder.0.0", "a", "b, c", "a", ""),
        ("encoder.0.3", "b", "a, c", "b", ""),
        ("encoder.0.1", None, "b", "a", "c"),
    ]
    affinity = study_of(first, second).to_dict()["affinity"]
    assert affinity["specific"] == {"encoder.0.0": "a", "encoder.0.3": "b"}
    assert affinity["opposed"] == ["encoder.0.0", "encoder.0.3", "encoder.0.1"]


def test_pooled_scores_add_up_counts_and_units() -> None:
    one = scores_of([1, 2, 3], "+-?")
    one = replace(one, provenance=replace(one.provenance, seed=1, units=10))
    pooled = pool_seeds([one, one, one, one])
    assert pooled.stderr == pytest.approx((0.05,) * 3)
    assert (pooled.count, pooled.decision) == ((36,) * 3, one.decision)
    assert (pooled.provenance.seed, pooled.provenance.units) == (None, 40)


def test_every_seed_is_a_separate_run(plan: StabilityPlan, tmp_path: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    study = STABILITY.run(plan, tmp_path / "run", lambda *step: steps.append(step))
    for seed, name in ((3, "scoring"), (1, "scoring-seed-1")):
        alone = run_scoring(replace(plan.scoring, seed=seed), tmp_path / str(seed))
        assert study.runs[seed] == alone.scores
        assert (tmp_path / "run" / name / "scores" / "sw.json").is_file()
    assert list(study.scores) == ["sw", "en"]
    assert study.runs[3] != study.runs[1]
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][:2] == (96, 96)
    assert STABILITY.load(study.folder) == study


def test_nothing_is_scored_twice(plan: StabilityPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, drawn = DawdlerRounds.draw, []

    def stop_in_second(self: DawdlerRounds, first_draw: int) -> Any:
        if self.seed == 1 and first_draw:
            raise KeyboardInterrupt
        return draw(self, first_draw)

    def note(self: DawdlerRounds, first_draw: int) -> Any:
        drawn.append((self.seed, first_draw))
        return draw(self, first_draw)

    monkeypatch.setattr(DawdlerRounds, "draw", stop_in_second)
    with pytest.raises(KeyboardInterrupt):
        STABILITY.run(plan, tmp_path)
    with pytest.raises(HeadwiseError, match="no finished study"):
        STABILITY.load(tmp_path)
    monkeypatch.setattr(DawdlerRounds, "draw", note)
    study = STABILITY.run(plan, tmp_path)
    assert drawn == [(1, 8), (1, 16), (1, 0), (1, 8), (1, 16)]
    assert STABILITY.run(plan, tmp_path).runs == study.runs
    assert len(drawn) == 5


def test_other_seeds_are_an_error_before_scoring(plan: StabilityPlan, tmp_path: Path) -> None:
    STABILITY.run(plan, tmp_path)
    with pytest.raises(HeadwiseError, match="'seeds' = \\[3, 1\\]"):
        STABILITY.run(replace(plan, seeds=(3, 2)), tmp_path)
    assert not (tmp_path / "scoring-seed-2").exists()


@pytest.mark.parametrize("seeds", [(), (1,), (1, 1), ("a", "b"), 3])
def test_fewer_than_two_different_seeds_are_an_error(seeds: Any) -> None:
    with pytest.raises(HeadwiseError, match="seeds: at least two"):
        StabilityPlan(ScoringPlan("m", "pos", "d"), seeds)


def test_a_seed_in_the_scoring_plan_is_an_error() -> None:
    with pytest.raises(HeadwiseError, match="seed: a stability study does not use it"):
        StabilityPlan(ScoringPlan("m", "pos", "d", seed=4))


def test_the_plan_of_the_package_has_three_seeds() -> None:
    plan = find_plan("stability")
    assert isinstance(plan, StabilityPlan)
    assert (list(plan.seeds), plan.scoring.languages, plan.scoring.budget) == ([0, 1, 2], "zh,tr,de,ar", 8000)


def test_the_command_prints_tables_and_writes_files(
    plan: StabilityPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "mine.yaml", tmp_path / "run"
    path.write_text(
        f"study: stability\nmodel: {plan.scoring.model}\ntask: pos\ndata: {plan.scoring.data}\nlanguages: en,sw,fi\n"
        "budget: 24\nseeds: [0, 1]\n"
    )
    assert run(monkeypatch, "study", path, "--out", folder) == 0
    shown = capsys.readouterr().out
    assert "harmful, seed 1" in shown
    assert "Spearman’s rank correlation of values averaged over the seeds." in shown
    assert run(monkeypatch, "study", path, "--out", folder, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == json.loads((folder / "stability.json").read_text())
    assert figures["format"] == "headwise-stability-study"
    with (folder / "likeness.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["language"] for row in rows] == ["en", "sw", "fi"]
    assert float(rows[0]["sw"]) == float(rows[1]["en"]) == pytest.approx(figures["affinity"]["likeness"][0][1])
    for name in ("stability", "agnostic", "specific"):
        assert (folder / f"{name}.csv").is_file()
    assert run(monkeypatch, "report", folder) == 0
    page = (folder / "report.html").read_text()
    assert "Similarity of languages" in page
    assert "encoder.2.3" in page
