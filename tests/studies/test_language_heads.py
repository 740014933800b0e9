"""The study of language heads: planted heads are found, their effects are measured, and a killed run resumes."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headwise import HeadMask, HeadwiseError, find_heads, load_mask
from headwise.models import load_model, load_tokenizer
from headwise.scoring import ScoringPlan
from headwise.studies import LanguageHeadsPlan, TunedStudy, find_plan, load_study, report_of, run_study, save_plots
from headwise.studies.grid import Grid
from headwise.studies.plots import CurvePlot
from headwise.studies.tables import Figure
from headwise.tasks.causal import measure_texts
from tests.cli.running import run
from tests.studies.languages import HARMFUL, HELPFUL, HURT, LANGUAGES, REPAIRED, save_language_world, texts

GAME = "log-likelihood-per-byte"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_world(tmp_path_factory.mktemp("languages"))


@pytest.fixture(scope="module")
def plan(world: Path) -> LanguageHeadsPlan:
    scoring = ScoringPlan(
        str(world / "model"), "lm", str(world / "data"), ",".join(LANGUAGES), game=GAME, budget=1500, device="cpu"
    )
    return LanguageHeadsPlan(
        scoring, count=1, chg_epochs=3, soft_epochs=4, randoms=2, scales=(0, 0.5, 1, 2), resamples=200
    )


@pytest.fixture(scope="module")
def study(plan: LanguageHeadsPlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    found = run_study(plan, tmp_path_factory.mktemp("study") / "run")
    assert isinstance(found, TunedStudy)
    return found


def rows_of(study: TunedStudy, name: str) -> dict[Any, tuple[Any, ...]]:
    [table] = [table for table in study.tables() if table.name == name]
    return {row[0]: row for row in table.rows}


def column(study: TunedStudy, name: str, title: str) -> dict[Any, Any]:
    [table] = [table for table in study.tables() if table.name == name]
    place = table.columns.index(title)
    return {row[0]: row[place] for row in table.rows}


def test_the_head_that_hurts_one_language_is_decided_to_be_harmful_there_alone(study: TunedStudy) -> None:
    assert HARMFUL in study.scores[HURT].decided("harmful")
    others = {code: study.scores[code] for code in LANGUAGES if code != HURT}
    own = study.scores[HURT].value[0]
    assert all(each.value[0] > 0.2 * own for each in others.values()), "much less harmful elsewhere"
    assert study.scores[HURT].ranked()[0] == HARMFUL
    gains = column(study, "gains", "stars")
    assert gains[HURT].value > 5
    assert gains[HURT].mark == "+"
    assert column(study, "gains", "harmful")[HURT].mark == "+"


def test_the_head_that_repairs_one_language_is_of_that_language(study: TunedStudy) -> None:
    assert HELPFUL in rows_of(study, "classes")[REPAIRED][-1].split(", ")
    assert HELPFUL not in rows_of(study, "classes")["general"][-1]
    mask = HeadMask.load(study.folder / "language-heads" / f"{REPAIRED}.json")
    assert (mask.off, mask.language) == ((HELPFUL,), REPAIRED)


def test_the_heads_that_copy_are_general(study: TunedStudy) -> None:
    general = rows_of(study, "classes")["general"][-1].split(", ")
    assert general
    assert all(name.startswith("decoder.1.") for name in general)


def test_turning_the_heads_of_a_language_off_hurts_that_language_most(study: TunedStudy) -> None:
    row = dict(zip(LANGUAGES, rows_of(study, "without-stars")[REPAIRED][1:], strict=True))
    assert row[REPAIRED].mark == "-"
    assert row[REPAIRED].value == min(each.value for each in row.values())
    others = [abs(each.value) for code, each in row.items() if code != REPAIRED]
    assert abs(row[REPAIRED].value) > 4 * max(others)


def test_steering_measures_every_scale(study: TunedStudy) -> None:
    [table] = [table for table in study.tables() if table.name == "steering"]
    own = {row[0]: row[2:] for row in table.rows if row[1] == "own"}
    assert table.columns[2:] == ("x 0", "x 0.5", "x 1", "x 2")
    off, half, same, double = (cast(Figure, each).value for each in own[REPAIRED])
    assert same == 0
    assert off < half < same
    assert double < same
    without = rows_of(study, "without-stars")[REPAIRED][1 + LANGUAGES.index(REPAIRED)]
    assert off == without.value
    [plot] = study.plots()
    assert isinstance(plot, CurvePlot)
    assert {curve.language for curve in plot.curves} == set(LANGUAGES)
    assert plot.curves[0].removed == (0, 50, 100, 200)


def test_bits_per_byte_are_those_of_a_plain_evaluation(study: TunedStudy, world: Path) -> None:
    model, tokenizer = load_model(world / "model"), load_tokenizer(world / "model")
    lines = texts("de", 32, seed=1)[1::2]  # the half that heads are not scored on
    _, per_byte, per_character = measure_texts(model, lines, tokenizer, window=12)
    row = rows_of(study, "gains")["de"]
    assert row[1] == pytest.approx(per_byte.value, rel=1e-5)
    assert row[2] == pytest.approx(per_character.value, rel=1e-5)


def test_intervals_of_all_conditions_are_in_a_csv_file(study: TunedStudy) -> None:
    with (study.folder / "conditions.csv").open() as file:
        rows = list(csv.DictReader(file))
    rankings = {"stars", "lahis", "chg", "michel", "harmful", "likely", "soft", "random 1", "random 2", "whole"}
    assert rankings <= {row["condition"] for row in rows}
    assert all(float(row["low"]) <= float(row["gain %"]) + 1e-9 for row in rows)
    removed = {row["condition"]: row["off"] for row in rows if row["language"] == HURT}
    assert {removed[name] for name in ("stars", "lahis", "chg", "michel", "random 1")} == {"1"}
    with (study.folder / "heads.csv").open() as file:
        heads = {row["head"]: row for row in csv.DictReader(file)}
    assert heads[HELPFUL]["class"] == REPAIRED
    assert f"harmful {HURT}" in heads[HARMFUL]["decisions"]
    assert 0 <= float(heads[HARMFUL]["retrieval"]) <= 1
    assert "induction" in heads[HARMFUL]


def test_soft_masks_and_rankings_are_kept_as_files(study: TunedStudy) -> None:
    gates = dict(
        zip(study.scores[HURT].players, load_mask(study.folder / "soft" / f"{HURT}.json").tensor(), strict=True)
    )
    assert gates[HARMFUL] < 0.8
    assert column(study, "gains", "soft")[HURT].value > 0
    assert (study.folder / "rankings" / "chg" / "en.json").is_file()
    assert HeadMask.load(study.folder / "masks" / f"{HURT}.json").off == (HARMFUL,)


def test_claims_are_checked_over_all_languages(study: TunedStudy) -> None:
    verdicts = {claim.text: claim.verdict for claim in study.claims}
    assert verdicts["Heads of a language by stars: turning them off costs that language more than the others."] == "yes"
    assert verdicts["The lowest heads by stars are better removed than those by random."] == "yes"


def test_costs_are_counted(study: TunedStudy) -> None:
    row = rows_of(study, "cost")["en"]
    [table] = [table for table in study.tables() if table.name == "cost"]
    costs = dict(zip(table.columns, row, strict=True))
    assert 0 < costs["scoring"] <= 1500
    assert (costs["lahis"], costs["michel"]) == (32, 32)  # a forward and a backward pass of 16 texts
    assert costs["chg"] == 3 * 3 * 32
    assert costs["testing"] > 0
    assert costs["minutes"] > 0


def test_a_finished_study_is_loaded_reported_and_drawn(study: TunedStudy) -> None:
    loaded = load_study(study.folder)
    assert isinstance(loaded, TunedStudy)
    assert loaded.results == study.results
    assert loaded.scores == study.scores
    page = report_of(study.folder)
    assert {"Steering by scaling heads", "Gain of removing heads"} <= {each.title for each in page.sections}
    pytest.importorskip("matplotlib")
    assert next(path.name for path in save_plots(study, study.folder)) == "steering-by-scaling-heads.svg"


def test_a_stopped_study_resumes_with_the_same_result(
    plan: LanguageHeadsPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring = replace(plan.scoring, languages="en,sw", budget=400, limit=8)
    small = replace(plan, scoring=scoring, rankings=("chg",), soft_epochs=2, limit_test=4)
    whole = run_study(small, tmp_path / "whole")
    record, calls = Grid._record, []

    def stop(self: Grid, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        record(self, *arguments)

    monkeypatch.setattr(Grid, "_record", stop)
    with pytest.raises(KeyboardInterrupt):
        run_study(small, tmp_path / "run")
    monkeypatch.setattr(Grid, "_record", record)
    again = run_study(small, tmp_path / "run")
    kept = {table.name: table.rows for table in whole.tables() if table.name != "cost"}
    assert {table.name: table.rows for table in again.tables() if table.name != "cost"} == kept


def test_languages_that_a_model_knows_little_of_are_named(study: TunedStudy) -> None:
    per_character = column(study, "gains", "bits/char")
    known_little = [code for code in LANGUAGES if per_character[code] > 2.5]
    notes = " ".join(study.notes)
    assert all(f"{code} (" in notes for code in known_little)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "count: "),
        ({"scales": (1, 0)}, "scales: ascending numbers"),
        ({"rankings": ("gradient",)}, "rankings: some of lahis, chg, michel"),
        ({"test_split": "dev"}, "heads are also scored on 'dev'"),
    ],
)
def test_wrong_fields_are_errors(plan: LanguageHeadsPlan, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        replace(plan, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"game": "probability"}, "game: must be 'log-likelihood-per-byte'"),
        ({"task": "pos"}, "task: must be one of lm, translation"),
        ({"method": "michel"}, "method: must give unbiased values"),
        ({"players": "kv"}, "players: must be 'heads'"),
    ],
)
def test_wrong_scoring_plans_are_errors(plan: LanguageHeadsPlan, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        replace(plan, scoring=replace(plan.scoring, **changes))


def test_too_many_heads_and_too_few_languages_are_errors(plan: LanguageHeadsPlan, tmp_path: Path) -> None:
    small = replace(plan.scoring, budget=200)
    with pytest.raises(HeadwiseError, match="at least two languages"):
        run_study(replace(plan, scoring=replace(small, languages="en")), tmp_path / "one")
    with pytest.raises(HeadwiseError, match="count: the model has only 8 heads"):
        run_study(replace(plan, count=8, scoring=replace(small, languages="en,de")), tmp_path / "many")


@pytest.mark.parametrize("size", ["tiny", "small", "full"])
def test_the_plan_has_sizes(size: str) -> None:
    plan = find_plan("language-heads", [f"size={size}", "data=d"])
    assert isinstance(plan, LanguageHeadsPlan)
    assert len(plan.scoring.languages.split(",")) >= 6
    assert (plan.scoring.model, plan.scoring.game) == ("smollm2-135m", GAME)


def test_the_command_prints_the_tables(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {"model": world / "model", "data": world / "data", "languages": "en,sw,tr", "budget": 300, "count": 1}
    more = {"size": "tiny", "limit": 6, "limit_test": 4}
    changes = [part for each in (fields | more).items() for part in ("--set", "=".join(map(str, each)))]
    assert run(monkeypatch, "study", "language-heads", *changes, "--out", tmp_path / "run") == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("gain of removing heads", "general", "the heads of one language are off, by stars", "minutes"):
        assert words in shown
    assert run(monkeypatch, "study", "language-heads", *changes, "--out", tmp_path / "run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["format"] == "headwise-language-heads-study"
    assert run(monkeypatch, "report", tmp_path / "run") == 0
    assert len(np.unique([path.name for path in tmp_path.joinpath("run").glob("*.csv")])) >= 8
    assert find_heads(load_model(world / "model")).players()[0] == HARMFUL
