"""Scoring by name: problems, run folders, budgets, and what is found again in them."""

import contextlib
import dataclasses
import json
import sqlite3
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from safetensors.torch import load_file, save_file

from headwise import HeadMask, HeadScores, HeadwiseError
from headwise.data.examples import WordExample
from headwise.methods import Estimand
from headwise.runs import read_run
from headwise.runs.config import read_config, write_config
from headwise.scores.tables import load_table
from headwise.scoring import (
    ScoringPlan,
    find_estimand,
    fingerprint_examples,
    make_problems,
    plan_of,
    run_scoring,
)
from headwise.scoring.choose import choose_mask
from headwise.scoring.run_folder import compare_runs, list_runs, load_scores
from headwise.tasks.encoding import Encoded
from tests.scoring.world import DRAWS, Dawdler, save_data, save_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ScoringPlan:
    """A plan for a tiny tagger on tiny treebanks."""
    folder = tmp_path_factory.mktemp("world")
    return ScoringPlan(
        model=str(save_model(folder / "model")),
        task="pos",
        data=str(save_data(folder / "data")),
        languages="en,sw",
        method="dawdler",
        budget=40,
    )


@pytest.fixture(autouse=True)
def dawdler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.scoring.run.find_method", lambda name, **options: Dawdler(**options))


def test_a_run_leaves_scores_masks_and_a_table(world: ScoringPlan, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    found = run_scoring(world, tmp_path / "run", progress=lambda *how: seen.append(how))
    assert list(found.languages) == ["en", "sw"]
    english = found.languages["en"]
    assert (english.examples, english.cut, english.finished) == (4, 0, True)
    assert english.scores.provenance.units == 40
    assert english.scores.provenance.language == "en"
    assert english.seconds > 0
    assert HeadScores.load(tmp_path / "run" / "scores" / "en.json") == english.scores
    mask = HeadMask.load(tmp_path / "run" / "masks" / "en.json")
    assert mask.off == english.scores.decided("harmful")
    assert mask.off
    assert mask.language == "en"
    assert load_table(tmp_path / "run" / "scores.parquet") == tuple(each.scores for each in found.languages.values())
    assert seen[0] == (8, 80, "en: 8 draws")
    assert seen[-1] == (80, 80, "sw: 40 draws")


def test_time_that_runs_out_does_not_fill_the_bar(
    world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAUSE", "0.6")
    seen: list[tuple[int, int, str]] = []
    plan = dataclasses.replace(world, budget=4000)
    found = run_scoring(plan, tmp_path / "run", seconds=0.1, progress=lambda *how: seen.append(how))
    units = sum(each.scores.provenance.units for each in found.languages.values())
    assert units < 100
    assert seen[-1][:2] == (units, 8000)


def test_what_a_finished_language_leaves_of_its_budget_is_not_counted(
    world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.scoring.run.find_method", lambda name, **options: Dawdler(rounds=2))
    seen: list[tuple[int, int, str]] = []
    run_scoring(world, tmp_path / "run", progress=lambda *how: seen.append(how))
    assert [how[:2] for how in seen] == [(8, 80), (16, 80), (16, 56), (24, 56), (32, 56), (32, 32)]


def test_without_pyarrow_a_run_has_no_table_and_says_so(
    world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = run_scoring(world, tmp_path / "run")
    assert found.notes[-1].startswith("scores.parquet is not written: ")
    assert found.notes[-1].endswith("pip install 'headwise[cli]'")
    assert not (tmp_path / "run" / "scores.parquet").exists()
    assert HeadScores.load(tmp_path / "run" / "scores" / "sw.json") == found.scores["sw"]


def test_a_finished_run_is_only_read_again(world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_scoring(world, tmp_path / "run")
    monkeypatch.setattr("tests.scoring.world.DawdlerRounds.draw", lambda *_: pytest.fail("nothing is left to do"))
    assert run_scoring(world, tmp_path / "run").languages == first.languages


def test_a_larger_budget_extends_and_ends_like_one_run(world: ScoringPlan, tmp_path: Path) -> None:
    more = dataclasses.replace(world, budget=80)
    run_scoring(world, tmp_path / "run")
    extended, whole = run_scoring(more, tmp_path / "run"), run_scoring(more, tmp_path / "whole")
    for language in ("en", "sw"):
        assert extended.languages[language].scores == whole.languages[language].scores
    with pytest.raises(HeadwiseError, match="'budget' of this run is 80 and cannot be reduced to 40"):
        run_scoring(world, tmp_path / "run")


def test_a_run_stopped_by_ctrl_c_goes_on(world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOP_AT", "3")
    with pytest.raises(KeyboardInterrupt):
        run_scoring(world, tmp_path / "run")
    assert not (tmp_path / "run" / "scores").exists()
    monkeypatch.delenv("STOP_AT")
    for name in ("run", "whole"):
        run_scoring(world, tmp_path / name)
    for language in ("en", "sw"):
        files = [(tmp_path / name / "scores" / f"{language}.json").read_bytes() for name in ("run", "whole")]
        assert files[0] == files[1]


def test_time_ends_a_run_that_can_go_on(world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAUSE", "0.6")
    found = run_scoring(dataclasses.replace(world, languages="en"), tmp_path / "run", seconds=0.1)
    assert not found.languages["en"].finished
    assert 0 < found.languages["en"].scores.provenance.units < 40
    monkeypatch.delenv("PAUSE")
    found = run_scoring(dataclasses.replace(world, languages="en"), tmp_path / "run")
    assert found.languages["en"].finished
    assert found.languages["en"].seconds > 0.6, "time of earlier sittings counts"


def test_the_config_tells_all_there_is_to_repeat(world: ScoringPlan, tmp_path: Path) -> None:
    run_scoring(dataclasses.replace(world, options={"rounds": 2}, estimand="truncated"), tmp_path / "run")
    config = read_config(tmp_path / "run")
    assert config["options"] == {"error_rate": 0.1, "rounds": 2}
    assert (config["estimand"], config["languages"], config["seed"]) == ("truncated(0.5)", ["en", "sw"], 0)
    assert set(config["examples"]) == {"en", "sw"}
    assert run_scoring(plan_of(tmp_path / "run"), tmp_path / "run")


def test_a_run_may_change_its_device_but_not_its_dtype(
    world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    run_scoring(dataclasses.replace(world, device="cpu"), tmp_path / "run")
    assert "device" not in read_config(tmp_path / "run")
    assert plan_of(tmp_path / "run").device == "auto"
    assert run_scoring(world, tmp_path / "run")
    with pytest.raises(HeadwiseError, match="cuda is not available on this machine: use cpu or auto"):
        run_scoring(dataclasses.replace(world, device="cuda"), tmp_path / "run")
    half = dataclasses.replace(world, dtype="bfloat16")
    with pytest.raises(HeadwiseError, match="contains a run with 'dtype' = 'float32', not 'bfloat16'"):
        run_scoring(half, tmp_path / "run")
    found = run_scoring(half, tmp_path / "half").scores["en"]
    assert found.provenance.fingerprint == run_scoring(world, tmp_path / "run").scores["en"].provenance.fingerprint
    assert plan_of(tmp_path / "half").dtype == "bfloat16"


def test_a_run_of_an_earlier_version_has_no_dtype_and_goes_on(world: ScoringPlan, tmp_path: Path) -> None:
    run_scoring(world, tmp_path / "run")
    config = read_config(tmp_path / "run")
    write_config(tmp_path / "run", {key: value for key, value in config.items() if key != "dtype"})
    assert plan_of(tmp_path / "run").dtype == "float32"
    run_scoring(dataclasses.replace(world, budget=80), tmp_path / "run")
    write_config(tmp_path / "run", {key: value for key, value in config.items() if key != "dtype"})
    with pytest.raises(HeadwiseError, match="'dtype' = 'float32', not 'bfloat16'"):
        run_scoring(dataclasses.replace(world, dtype="bfloat16"), tmp_path / "run")


def test_changed_data_are_noticed(world: ScoringPlan, tmp_path: Path) -> None:
    plan = dataclasses.replace(world, data=str(save_data(tmp_path / "data")))
    run_scoring(plan, tmp_path / "run")
    treebank = tmp_path / "data" / "ud" / "sw_toy-ud-dev.conllu"
    treebank.write_text(treebank.read_text().replace("VERB", "NOUN"))
    with pytest.raises(HeadwiseError, match=r"contains a run with 'examples\.sw'"):
        run_scoring(plan, tmp_path / "run")


def test_a_changed_config_of_the_model_is_noticed(world: ScoringPlan, tmp_path: Path) -> None:
    plan = dataclasses.replace(world, model=str(save_model(tmp_path / "model")), languages="en")
    run_scoring(plan, tmp_path / "run")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"layer_norm_eps": 0.1}))
    with pytest.raises(HeadwiseError, match="contains a run with 'model_config'"):
        run_scoring(plan, tmp_path / "run")


@pytest.mark.parametrize("part", ["classifier.bias", "bert.encoder.layer.1.output.dense.weight"])
def test_changed_weights_are_noticed_wherever_they_are(world: ScoringPlan, tmp_path: Path, part: str) -> None:
    plan = dataclasses.replace(world, model=str(save_model(tmp_path / "model")), languages="en")
    run_scoring(plan, tmp_path / "run")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights[part] *= 1.1
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HeadwiseError, match="contains a run with 'weights'"):
        run_scoring(plan, tmp_path / "run")


@pytest.mark.parametrize(("part", "place"), [("bert.embeddings.word_embeddings.weight", 77), ("classifier.weight", 0)])
def test_a_single_weight_that_changed_by_the_least_is_noticed(
    world: ScoringPlan, tmp_path: Path, part: str, place: int
) -> None:
    plan = dataclasses.replace(world, model=str(save_model(tmp_path / "model")), languages="en")
    run_scoring(plan, tmp_path / "run")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights[part].view(-1)[place] = torch.nextafter(weights[part].view(-1)[place], torch.tensor(9.0))
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HeadwiseError, match="contains a run with 'all_weights'"):
        run_scoring(plan, tmp_path / "run")


def test_a_run_of_an_earlier_version_has_no_hash_of_all_weights_and_goes_on(world: ScoringPlan, tmp_path: Path) -> None:
    first = run_scoring(world, tmp_path / "run")
    config = read_config(tmp_path / "run")
    known = config.pop("all_weights")
    write_config(tmp_path / "run", config)
    assert run_scoring(world, tmp_path / "run").scores == first.scores
    assert read_config(tmp_path / "run")["all_weights"] == known, "from now on it is checked"


@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**63 - 1, -1, -(2**63)])
def test_seeds_at_the_limits_are_stored_and_resumed(world: ScoringPlan, tmp_path: Path, seed: int) -> None:
    plan = dataclasses.replace(world, languages="en", seed=seed)
    first = run_scoring(plan, tmp_path / "run")
    assert run_scoring(dataclasses.replace(plan, budget=80), tmp_path / "run").scores != first.scores
    assert plan_of(tmp_path / "run").seed == seed


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_seeds_beyond_the_limits_are_named(world: ScoringPlan, tmp_path: Path, seed: int) -> None:
    with pytest.raises(HeadwiseError, match="'seed' must be a whole number of at most 64 bits"):
        run_scoring(dataclasses.replace(world, languages="en", seed=seed), tmp_path / "run")


def test_a_round_without_a_field_is_named(world: ScoringPlan, tmp_path: Path) -> None:
    run_scoring(world, tmp_path / "run")
    for changed, said in (
        ({"total": np.zeros(12), "squares": np.zeros(12)}, "round 1 of 'en': it has no field 'units'"),
        ({"total": np.zeros(12), "squares": np.zeros(12), "units": np.array(np.nan)}, "a cost or a time is nan"),
        ({"total": np.zeros(5), "squares": np.zeros(12), "units": np.array(8.0)}, "its arrays do not fit the run"),
        ({"total": np.zeros((0, 1)), "squares": np.zeros(12), "units": np.array(8.0)}, "its arrays do not fit the run"),
    ):
        packed = save(changed)
        with contextlib.closing(sqlite3.connect(tmp_path / "run" / "journal.sqlite")) as journal, journal:
            change = "UPDATE rounds SET arrays = ?, checksum = ? WHERE stream = 'en' AND number = 1"
            journal.execute(change, (packed, zlib.crc32(packed)))
        with pytest.raises(HeadwiseError, match=said):
            run_scoring(world, tmp_path / "run")


def test_a_budget_below_one_round_is_refused(world: ScoringPlan, tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match=f"budget: 7 units do not cover .* may take {DRAWS}: raise it"):
        run_scoring(dataclasses.replace(world, budget=7), tmp_path / "run")


@pytest.mark.parametrize(("players", "count"), [("heads", 12), ("ffn", 3), ("layers", 3), ("kv", 12)])
def test_any_players_can_be_scored(world: ScoringPlan, tmp_path: Path, players: str, count: int) -> None:
    plan = dataclasses.replace(world, players=players, languages="en")
    scores = run_scoring(plan, tmp_path / players).languages["en"].scores
    assert len(scores.players) == count
    mask = HeadMask.load(tmp_path / players / "masks" / "en.json")
    assert mask.kind == scores.kind == ("heads" if players == "kv" else players)
    assert len(mask.off) == len(scores.decided("harmful"))


def test_problems_are_what_the_plan_says(world: ScoringPlan) -> None:
    plan = dataclasses.replace(world, game="accuracy", estimand="truncated(0.25)", limit=2, bfloat16=True)
    problems, notes = make_problems(plan)
    problem = problems["sw"]
    assert (problem.game.name, problem.estimand, len(problem.examples)) == ("accuracy", Estimand(0.25), 2)
    assert problem.settings.bfloat16
    assert problem.data != problems["en"].data
    assert len(notes) == 1
    assert "aligned" in notes[0]


def examples_of(*ids: str) -> tuple[WordExample, ...]:
    return tuple(WordExample(each, ("w",), ("X",)) for each in ids)


def test_a_fingerprint_depends_on_ids_tokens_and_labels() -> None:
    examples, encoded = examples_of("a", "b"), [Encoded((1, 2), (0,), (3,)), Encoded((1,), (0,), (4,))]
    found = {fingerprint_examples(examples, encoded)}
    found.add(fingerprint_examples(examples_of("a", "c"), encoded))
    found.add(fingerprint_examples(examples, [encoded[0], Encoded((2,), (0,), (4,))]))
    found.add(fingerprint_examples(examples, [encoded[0], Encoded((1,), (0,), (5,))]))
    found.add(fingerprint_examples(examples, [encoded[0], Encoded((1,), (-1,), (4,))]))
    found.add(fingerprint_examples(examples[::-1], encoded[::-1]))
    assert len(found) == 6
    assert fingerprint_examples(examples, encoded) in found


def test_estimands_have_names() -> None:
    assert [find_estimand(name).share for name in ("full", "truncated", "truncated(.3)")] == [0.0, 0.5, 0.3]
    for wrong in ("half", "truncated(1)", "truncated(-0.5)", "truncated(x)", "full(0.5)"):
        with pytest.raises(HeadwiseError, match="estimand: 'full', 'truncated' or"):
            find_estimand(wrong)


def test_folders_have_safe_names() -> None:
    plan = ScoringPlan("../models/my tagger", "pos", "phrasebook")
    assert str(plan.folder) == "runs/models-my-tagger-pos-stars"


def test_runs_are_compared_listed_and_pruned_from(world: ScoringPlan, tmp_path: Path) -> None:
    run_scoring(world, tmp_path / "runs" / "a")
    run_scoring(dataclasses.replace(world, seed=1, languages="sw,fi"), tmp_path / "runs" / "b")
    assert list(load_scores(tmp_path / "runs" / "b")) == ["fi", "sw"]
    compared = compare_runs(tmp_path / "runs" / "a", tmp_path / "runs" / "b")
    assert list(compared) == ["sw"]
    assert compared["sw"].compared == 12
    assert [config["seed"] for config in list_runs(tmp_path / "runs").values()] == [0, 1]
    assert list_runs(tmp_path / "nowhere") == {}
    (tmp_path / "runs" / "b" / "config.yaml").write_text("[")
    one, other = list_runs(tmp_path / "runs").values()
    assert one["seed"] == 0
    assert "config.yaml, line 1: not YAML" in other["error"]
    (tmp_path / "runs" / "b" / "config.yaml").write_bytes((tmp_path / "runs" / "a" / "config.yaml").read_bytes())
    mask = tmp_path / "mask.json"
    load_scores(tmp_path / "runs" / "a")["sw"].mask(count=2).save(mask)
    by_scores = choose_mask(tmp_path / "runs" / "a", language="sw", count=2)
    assert (by_scores.model, by_scores.rule) == (world.model, "count")
    assert by_scores.mask == load_scores(tmp_path / "runs" / "a")["sw"].mask(count=2)
    by_file = choose_mask("model", mask)
    assert (by_file.model, by_file.rule, by_file.source) == ("model", "mask file", mask)


def test_runs_without_what_is_wanted_are_named(world: ScoringPlan, tmp_path: Path) -> None:
    run_scoring(dataclasses.replace(world, languages="en"), tmp_path / "en")
    run_scoring(dataclasses.replace(world, languages="fi"), tmp_path / "fi")
    with pytest.raises(HeadwiseError, match=r"en has scores of en, .*fi of fi: none in common"):
        compare_runs(tmp_path / "en", tmp_path / "fi")
    with pytest.raises(HeadwiseError, match="has no scores of --language sw: it has en"):
        choose_mask(tmp_path / "en", language="sw")
    with pytest.raises(HeadwiseError, match="not a run folder"):
        load_scores(tmp_path)
    (tmp_path / "en" / "scores" / "en.json").unlink()
    with pytest.raises(HeadwiseError, match="the run has no scores yet"):
        load_scores(tmp_path / "en")
    for mask, language in ((None, None), (Path("m.json"), "en")):
        with pytest.raises(HeadwiseError, match="give a model and --mask, or a run folder and --language"):
            choose_mask("model", mask, language=language)
    with pytest.raises(HeadwiseError, match="rule: one of likely, harmful, refined, soft, not 'best'"):
        choose_mask(tmp_path / "en", language="en", rule="best")


def test_rounds_of_another_version_of_a_method_are_not_mixed(
    world: ScoringPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_scoring(world, tmp_path / "run")
    monkeypatch.setattr(Dawdler, "version", 7)
    with pytest.raises(HeadwiseError, match="'version' = 1, not 7: choose another folder"):
        run_scoring(dataclasses.replace(world, budget=80), tmp_path / "run")


def test_peers_are_told_what_they_may_spend(
    world: ScoringPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: dict[str, object] = {}

    class Planner(Dawdler):
        needs_units = True

    def find(name: str, **options: object) -> Dawdler:
        told.update(options)
        return Planner()

    monkeypatch.setattr("headwise.scoring.run.find_method", find)
    run_scoring(dataclasses.replace(world, method="shapiq"), tmp_path / "run")
    assert told == {"units": 40}


def test_lost_and_damaged_result_files_are_written_again_from_the_journal(world: ScoringPlan, tmp_path: Path) -> None:
    first = run_scoring(world, tmp_path / "run")
    files = {path: path.read_bytes() for path in sorted((tmp_path / "run").glob("*/*.json"))}
    assert len(files) >= 4
    for number, path in enumerate(files):
        if number % 2:
            path.unlink()
        else:
            path.write_text("{")
    with read_run(tmp_path / "run") as run:
        rounds = {stream: run.journal.count(stream) for stream in run.journal.streams()}
    again = run_scoring(world, tmp_path / "run")
    assert again.scores == first.scores
    assert {path: path.read_bytes() for path in files} == files
    with read_run(tmp_path / "run") as run:
        assert {stream: run.journal.count(stream) for stream in run.journal.streams()} == rounds, "nothing is computed"
