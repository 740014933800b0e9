"""The targeted study: masks from dev data, judged on test data and compared with controls of the same size."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadMask, HeadScores, HeadwiseError, Provenance, find_heads
from headwise.engine import kv_groups
from headwise.engine.evaluation import evaluate
from headwise.files import write_json
from headwise.methods.head_scores import UNDECIDED
from headwise.scoring import ScoringPlan
from headwise.stats import PairedTest
from headwise.studies import LanguageOutcome, Outcome, TargetedPlan, TargetedStudy, find_plan, plan_names
from headwise.studies.page import load_study
from headwise.studies.tables import save_tables, show_cell
from headwise.studies.targeted import TARGETED, players_off, random_mask
from headwise.tasks import find_task
from tests.families import BY_NAME
from tests.scoring.world import save_data, save_model

#: A minimal plan in YAML.
PLAN = "study: targeted\nmodel: m\ntask: pos\ndata: d\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_model(folder / "model")
    save_data(folder / "data")
    return folder


@pytest.fixture(scope="module")
def plan(world: Path) -> TargetedPlan:
    scoring = ScoringPlan(
        str(world / "model"), "pos", str(world / "data"), "en,sw", budget=2500, estimand="truncated",
        options={"bases": 4, "flips": 6, "error_rate": 0.5},
    )  # fmt: skip
    return TargetedPlan(scoring, randoms=3, resamples=200)


@pytest.fixture(scope="module")
def study(plan: TargetedPlan, tmp_path_factory: pytest.TempPathFactory) -> TargetedStudy:
    return TARGETED.run(plan, tmp_path_factory.mktemp("run") / "study")


def test_controls_have_the_size_of_the_mask(study: TargetedStudy) -> None:
    assert set(study.languages) == {"en", "sw"}
    assert any(outcome.masks["targeted"].removed for outcome in study.languages.values())
    for language, outcome in study.languages.items():
        harmful = study.scores[language].decided("harmful")
        assert outcome.masks["targeted"].removed == outcome.masks["michel"].removed == len(harmful)
        assert {kind: len(values) for kind, values in outcome.randoms.items()} == {"targeted": 3, "refined": 3}
        assert outcome.masks["zero-shot"].removed == len(study.scores["en"].decided("harmful"))


def test_the_likely_mask_is_in_the_tables(study: TargetedStudy, world: Path) -> None:
    for language, outcome in study.languages.items():
        assert outcome.masks["likely"].removed == len(study.scores[language].mask("likely").off)
    gains, controls = study.tables()
    assert gains.columns[2::2] == ("targeted off", "likely off", "refined off")
    assert [row[4] for row in gains.rows[:2]] == [each.masks["likely"].removed for each in study.languages.values()]
    assert controls.columns[2:] == ("random as targeted", "random as refined", "michel", "zero-shot", "pooled")


def test_masks_are_recorded_with_the_size_of_the_pruned_model(study: TargetedStudy, world: Path) -> None:
    from headwise import shrink
    from headwise.models import load_model

    model = load_model(world / "model")
    for language, outcome in study.languages.items():
        assert outcome.masks["targeted"].off == study.scores[language].mask("harmful").off
        refined = HeadMask.load(study.folder / "masks" / f"{language}.json")
        assert outcome.masks["refined"].off == refined.off
        small = shrink(model, refined) if refined.off else model
        sizes = tuple(sum(weight.numel() for weight in each.parameters()) for each in (model, small))
        assert outcome.masks["refined"].parameters == sizes
        assert outcome.masks["michel"].parameters is None
        assert outcome.masks["michel"].flops is None
        before, after = outcome.masks["refined"].flops or (0.0, 0.0)
        assert (after < before) if refined.off else (after == before)


def test_the_cost_of_all_steps_is_counted(study: TargetedStudy, plan: TargetedPlan) -> None:
    for language, units in study.units().items():
        outcome = study.languages[language]
        sizes = {len(mask.off) for mask in outcome.masks.values()}
        least = outcome.examples * len(sizes | {0})
        assert least <= units["testing"] <= outcome.examples * (1 + len(outcome.masks) + 2 * plan.randoms)
        assert units["refining"] > 0
        assert units["controls"] > 0


def test_the_report_has_one_section_of_gains_with_masks_and_commands(study: TargetedStudy) -> None:
    [section] = study.sections()
    assert section.title == "Gains"
    assert section.masks["refined"] == {name: each.masks["refined"].off for name, each in study.languages.items()}
    if any(each.masks["refined"].off for each in study.languages.values()):
        assert f"headwise prune {study.folder} --language " in section.body


def test_values_are_those_of_a_plain_evaluation_on_test(study: TargetedStudy, world: Path) -> None:
    from headwise import find_heads, gated
    from headwise.data.catalog import open_dataset
    from headwise.models import load_model, load_tokenizer

    model, tokenizer = load_model(world / "model"), load_tokenizer(world / "model")
    data = open_dataset(str(world / "data"), "pos")
    for language, outcome in study.languages.items():
        examples = data.examples(language, "test")
        assert outcome.base == pytest.approx(evaluate(model, find_task("pos"), examples, tokenizer).value)
        mask = HeadMask.without(find_heads(model), study.scores[language].decided("harmful"))
        with gated(model, mask):
            pruned = evaluate(model, find_task("pos"), examples, tokenizer).value
        assert outcome.masks["targeted"].value == pytest.approx(pruned)
        assert outcome.masks["targeted"].test.difference == pytest.approx(pruned - outcome.base)


def test_random_masks_may_be_judged_on_a_part_of_the_test_data(
    plan: TargetedPlan, study: TargetedStudy, world: Path, tmp_path: Path
) -> None:
    from headwise import gated
    from headwise.data.catalog import open_dataset
    from headwise.models import load_model, load_tokenizer

    found = TARGETED.run(replace(plan, random_examples=3), tmp_path).languages["sw"]
    whole = study.languages["sw"]
    assert (found.base, found.masks) == (whole.base, whole.masks)
    model, tokenizer = load_model(world / "model"), load_tokenizer(world / "model")
    examples = open_dataset(str(world / "data"), "pos").examples("sw", "test")
    off = random_mask(study.scores["sw"], whole.masks["refined"].removed, seed=0, draw=2)
    words = evaluate(model, find_task("pos"), examples, tokenizer).statistics
    with gated(model, off):
        masked = evaluate(model, find_task("pos"), examples, tokenizer).statistics
    # Three of the four examples are drawn, so one of the four differences without one example must be right.
    shares = [np.delete(each, place, axis=0).sum(0) for place in range(4) for each in (masked, words)]
    differences = [100 * (a[0] / a[1] - b[0] / b[1]) for a, b in zip(shares[::2], shares[1::2], strict=True)]
    assert any(found.randoms["refined"][2] - found.base == pytest.approx(each) for each in differences)
    assert TARGETED.run(replace(plan, random_examples=99), tmp_path / "all").languages == study.languages


def test_a_finished_study_is_not_measured_again(
    study: TargetedStudy, plan: TargetedPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("headwise.engine.evaluation.MaskJudge.measure", fail)
    again = TARGETED.run(plan, study.folder)
    assert again.languages == study.languages
    assert again.scores == study.scores


def test_a_larger_budget_refines_the_masks_of_the_new_scores(plan: TargetedPlan, tmp_path: Path) -> None:
    small, large = (replace(plan, scoring=replace(plan.scoring, budget=budget), randoms=0) for budget in (200, 2500))
    before = TARGETED.run(small, tmp_path / "study")
    grown = TARGETED.run(large, tmp_path / "study")
    assert any(before.scores[name].decision != grown.scores[name].decision for name in grown.scores)
    assert grown.languages == TARGETED.run(large, tmp_path / "at once").languages
    for language in grown.languages:
        masks = [HeadMask.load(tmp_path / name / "masks" / f"{language}.json") for name in ("study", "at once")]
        assert masks[0] == masks[1]


def test_changed_test_data_are_measured_again(plan: TargetedPlan, world: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(world / "data", data)
    here = replace(plan, scoring=replace(plan.scoring, data=str(data)), randoms=0, refine=0)
    first = TARGETED.run(here, tmp_path / "study")
    file = data / "ud" / "sw_toy-ud-test.conllu"
    sentence = file.read_text().split("\n\n")[0].replace("sent_id = 0", "sent_id = 9")
    file.write_text(f"{file.read_text()}{sentence}\n\n")
    again = TARGETED.run(here, tmp_path / "study")
    assert (first.languages["sw"].examples, again.languages["sw"].examples) == (4, 5)
    assert again.languages["en"] == first.languages["en"]


def rows_of(file: Path) -> dict[str, dict[str, str]]:
    """The rows of a table, by their first column."""
    with file.open(encoding="utf-8") as lines:
        return {row["language"]: row for row in csv.DictReader(lines)}


def test_figures_masks_and_tables_are_written(study: TargetedStudy) -> None:
    assert (study.folder / "targeted.json").is_file()
    assert (study.folder / "scoring" / "masks" / "sw.json").is_file()
    chosen = HeadMask.load(study.folder / "masks" / "sw.json")
    assert len(chosen.off) == study.languages["sw"].masks["refined"].removed
    rows, controls = (rows_of(study.folder / name) for name in ("targeted.csv", "controls.csv"))
    assert list(rows) == ["en", "sw", "mean gain", "worst gain"]
    refined = study.languages["sw"].masks["refined"]
    assert float(rows["sw"]["refined"]) == refined.value
    assert float(rows["sw"]["refined P"]) == refined.test.p_value
    spread = np.std(study.languages["sw"].randoms["refined"])
    assert float(controls["sw"]["random as refined sd"]) == pytest.approx(spread)


def test_gains_are_printed_with_their_sign_and_saved_unrounded(tmp_path: Path) -> None:
    gains = {"en": 1 / 3, "sw": -1 / 7}
    outcomes = {
        name: LanguageOutcome(
            0.0, 9, {"targeted": Outcome(gain, 2, PairedTest(gain, 0.0, 1.0, 0.5, 99))}, {"targeted": (gain,)}
        )
        for name, gain in gains.items()
    }
    tables = TargetedStudy(tmp_path, "accuracy", outcomes, {}, {}, ()).tables()
    assert [show_cell(cell) for cell in tables[0].rows[-1]] == ["worst gain", "", "", "-0.14"]
    assert [show_cell(cell) for cell in tables[0].rows[-2]] == ["mean gain", "", "", "+0.10"]
    save_tables(tables, tmp_path)
    for name, column in (("targeted", "targeted"), ("controls", "random as targeted")):
        rows = rows_of(tmp_path / f"{name}.csv")
        assert float(rows["mean gain"][column]) == np.mean(list(gains.values()))
        assert float(rows["worst gain"][column]) == gains["sw"]
    header, _, english, *_ = (tmp_path / "targeted.md").read_text(encoding="utf-8").splitlines()
    assert header == "| language | none | targeted off | targeted | P |"
    assert english == "| en | 0.00 | 2 | 0.33 | 0.500 |"
    assert "| en | 0.00 | 0.33 ± 0.0 |" in (tmp_path / "controls.md").read_text(encoding="utf-8")


def test_a_finished_study_can_be_loaded(study: TargetedStudy) -> None:
    assert TARGETED.load(study.folder) == study


def test_without_refinement_there_are_no_refined_masks(plan: TargetedPlan, tmp_path: Path) -> None:
    without = TARGETED.run(replace(plan, refine=0, randoms=0), tmp_path / "without")
    assert all("refined" not in each.masks for each in without.languages.values())
    assert all("refined" not in table.columns for table in without.tables())


@pytest.mark.parametrize("players", ["ffn", "layers"])
def test_blocks_and_layers_are_studied_like_heads(plan: TargetedPlan, tmp_path: Path, players: str) -> None:
    scoring = replace(plan.scoring, players=players, languages="en", budget=1500)
    found = TARGETED.run(replace(plan, scoring=scoring), tmp_path / players)
    assert found.scores["en"].kind == players
    assert HeadMask.load(found.folder / "masks" / "en.json").kind == players
    assert found.languages["en"].masks["targeted"].removed == len(found.scores["en"].decided("harmful"))
    assert len(found.languages["en"].randoms["targeted"]) == 3


def test_random_masks_remove_as_many_groups_of_heads_as_the_refined_mask() -> None:
    heads = find_heads(BY_NAME["llama"].build())
    players = kv_groups(heads)
    groups = players.names
    assert len(groups) < len(heads.players())
    n = len(groups)
    scores = HeadScores(groups, (0.0,) * n, (1.0,) * n, (1,) * n, UNDECIDED * n, Provenance("stars", "full"),
                        members=players.members(heads))  # fmt: skip
    for off in range(n + 1):
        mask = scores.without(groups[:off])
        assert players_off(mask, scores) == off
        assert len(random_mask(scores, off, seed=0, draw=0).off) == len(mask.off)


@pytest.mark.parametrize("method", ["gradient-screen", "michel"])
def test_methods_with_biased_or_unsigned_values_have_no_likely_mask(
    plan: TargetedPlan, tmp_path: Path, method: str
) -> None:
    scoring = replace(plan.scoring, method=method, options={}, estimand="full", budget=200)
    found = TARGETED.run(replace(plan, scoring=scoring, randoms=0, refine=0), tmp_path / "study")
    assert all(set(each.masks) == {"targeted", "michel", "zero-shot"} for each in found.languages.values())


@pytest.mark.parametrize(
    "change",
    [
        {"languages": []},
        {"languages": {"sw": []}},
        {"seconds": {"sw": "long"}},
        {"notes": "none"},
        {"metric": 3},
        {"languages": {"sw": {"base": "high", "examples": 4, "masks": {}, "randoms": {}}}},
        {"languages": {"sw": {"base": 1.0, "examples": 4, "masks": {}, "randoms": {"targeted": "ab"}}}},
        {"languages": {"sw": {"base": 1.0, "examples": 4, "masks": {}, "randoms": {}, "units": {"testing": "many"}}}},
    ],
)
def test_damaged_figures_are_named(study: TargetedStudy, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = shutil.copytree(study.folder, tmp_path / "study")
    write_json(folder / "targeted.json", {**study.to_dict(), **change})
    with pytest.raises(HeadwiseError, match=r"targeted\.json: not complete: .*: run the study again"):
        load_study(folder)


def test_scores_with_an_invalid_language_are_an_error(study: TargetedStudy, tmp_path: Path) -> None:
    folder = shutil.copytree(study.folder, tmp_path / "study")
    file = folder / "scoring" / "scores" / "sw.json"
    file.write_text(file.read_text().replace('"language": "sw"', '"language": ["sw"]'))
    with pytest.raises(HeadwiseError, match=r"scores/sw\.json: .* its language is \['sw'\], not a code"):
        load_study(folder)


def test_the_pooled_mask_is_saved(study: TargetedStudy) -> None:
    mask = HeadMask.load(study.folder / "pooled.json")
    assert mask.language is None
    assert mask.off
    assert {len(mask.off)} == {outcome.masks["pooled"].removed for outcome in study.languages.values()}


def test_random_masks_differ(study: TargetedStudy) -> None:
    masks = {random_mask(study.scores["en"], 5, seed=0, draw=draw).off for draw in range(10)}
    assert {len(off) for off in masks} == {5}
    assert len(masks) > 8


def test_plans_come_with_the_package_and_from_files(tmp_path: Path) -> None:
    assert set(plan_names()) >= {"phrasebook", "pos", "nli", "intents"}
    assert find_plan("phrasebook").scoring.data == "phrasebook"
    path = tmp_path / "mine.yaml"
    path.write_text(f"{PLAN}randoms: 2\nbudget: 500\nlimit: null\noptions: {{bases: 4}}\n")
    scoring = ScoringPlan("m", "pos", "d", budget=500, options={"bases": 4})
    assert find_plan(str(path)) == TargetedPlan(scoring, randoms=2)


def test_fields_of_a_plan_can_be_changed() -> None:
    plan = find_plan("phrasebook")
    scoring = replace(plan.scoring, languages="zh,tr", bfloat16=True, options={"bases": 4})
    changes = ["languages=zh,tr", "bfloat16=true", "options={bases: 4}", "limit_test=9"]
    assert find_plan("phrasebook", changes) == replace(plan, scoring=scoring, limit_test=9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("budget", "budget: a change is FIELD=VALUE"),
        ("=3", "=3: a change is FIELD=VALUE"),
        ("study=curves", "study=curves: a change is FIELD=VALUE"),
        ("options={", "options={, line 1: not YAML"),
        ("colour=red", "^--set colour=red: unknown field 'colour': choose from .*budget"),
        ("budget=much", "^--set budget=much: 'budget' must be a number, not 'much'"),
        ("languages=", "^--set languages=: 'languages' must be text, not None"),
    ],
)
def test_mistakes_in_changes_are_named(change: str, message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        find_plan("phrasebook", [change])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study: other", "it needs a field 'study'"),
        ("study: targeted\nmodel: m\ntask: pos\ndata: d\ncolour: red", "unknown field 'colour': choose from .*budget"),
        ("study: targeted\nmodel: m\ntask: pos", "the field 'data' is missing: add it; the fields are .*budget"),
        ("a: [", "mine.yaml, line 1: not YAML"),
        ("targeted", "mine.yaml: has no fields"),
        (f"{PLAN}rankings: stars", "mine.yaml: unknown field 'rankings'"),
        (f"{PLAN}refine: yes", "mine.yaml: 'refine' must be a whole number, not True"),
        (f"{PLAN}refine: -1", "refine: a whole number of at least 0, not -1"),
        (f"{PLAN}refine_examples: 0", "refine_examples: a whole number of at least 1, not 0"),
        (f"{PLAN}randoms: ten", "'randoms' must be a whole number, not 'ten'"),
        (f"{PLAN}random_examples: 0", "random_examples: a whole number of at least 1, not 0"),
        (f"{PLAN}resamples: 0", "resamples: a whole number of at least 1, not 0"),
        (f"{PLAN}source: no", "'source' must be text, not False: put it in quotes"),
        (f"{PLAN}languages: [en, no]", r"'languages' must be text, not \['en', False\]"),
        (f"{PLAN}budget: 2e", "'budget' must be a number, not '2e'"),
        (f"{PLAN}limit: 2.5", "'limit' must be a whole number or null, not 2.5"),
        (f"{PLAN}limit: 0", "limit: a whole number of at least 1, not 0"),
        (f"{PLAN}options: 3", "'options' must be a map of names and values, not 3"),
        (f"{PLAN}bfloat16: 1", "'bfloat16' must be true or false, not 1"),
        (f"{PLAN}test_split: dev", "test_split: heads are also scored on 'dev'"),
        (f"{PLAN}test_split: all", "test_split: 'all' also contains 'dev'"),
        (f"{PLAN}split: all", "split: 'all' also contains 'test'"),
        (f"{PLAN}split: all\ntest_split: all", "test_split: heads are also scored on 'all'"),
        (f"{PLAN}budget: .nan", "mine.yaml: 'budget' must be a finite number, not nan"),
        (f"{PLAN}budget: .inf", "mine.yaml: 'budget' must be a finite number, not inf"),
        (
            "study: iterative\nmodel: m\ntask: pos\ndata: d\nrankings: stars",
            "must be a list, each item text, not 'stars'",
        ),
        ("study: stability\nmodel: m\ntask: pos\ndata: d\nseeds: [0, a]", "must be a list, each item a whole number"),
        ("study: iterative\nmodel: m\ntask: pos\ndata: d\nsplit: test", "test_split: heads are also scored on 'test'"),
        ("study: iterative\nmodel: m\ntask: pos\ndata: d\nsplit: all", "split: 'all' also contains 'test'"),
    ],
)
def test_mistakes_in_plans_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(HeadwiseError, match=message):
        find_plan(str(path))


def test_languages_can_be_a_list(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{PLAN}languages: [en, sw]")
    assert find_plan(str(path)).scoring.languages == "en,sw"


def test_a_missing_test_split_is_an_error_before_scoring(world: Path, tmp_path: Path) -> None:
    scoring = ScoringPlan(str(world / "model"), "pos", str(world / "data"), "en,sw")
    with pytest.raises(HeadwiseError, match="has no split 'tets': it has "):
        TARGETED.run(TargetedPlan(scoring, test_split="tets"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_study_is_named() -> None:
    with pytest.raises(HeadwiseError, match="nothing: no such study"):
        find_plan("nothing")
