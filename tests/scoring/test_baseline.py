"""Scoring under mean ablation: the baseline is a part of the run, and pruning uses the means of the run."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise import HeadMask, HeadScores, HeadwiseError, MeanOutputs, evaluate, gated, load_pruned, mean_outputs
from headwise import refine as refine_scores
from headwise import score as score_heads
from headwise.heads import find_heads
from headwise.methods import METHODS
from headwise.models import load_model, load_tokenizer
from headwise.runs.config import read_config, write_config
from headwise.scoring import RefinementPlan, ScoringPlan, make_problems, plan_of, refine_run, run_scoring
from headwise.scoring.choose import choose_mask
from headwise.scoring.merge import merge_scoring
from headwise.scoring.run_folder import compare_runs
from headwise.studies import TargetedPlan
from headwise.studies.targeted import TARGETED
from tests.cli.running import run
from tests.families import difference
from tests.scoring.world import save_data, save_model


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ScoringPlan:
    folder = tmp_path_factory.mktemp("world")
    model, data = str(save_model(folder / "model")), str(save_data(folder / "data"))
    return ScoringPlan(model, "pos", data, "en,sw", budget=900, baseline="mean")


@pytest.fixture(scope="module")
def scored(plan: ScoringPlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of two languages under mean ablation."""
    folder = tmp_path_factory.mktemp("run") / "run"
    run_scoring(plan, folder)
    return folder


def test_a_run_keeps_its_baseline_and_the_means(plan: ScoringPlan, scored: Path) -> None:
    scores = HeadScores.load(scored / "scores" / "sw.json")
    assert scores.provenance.baseline == "mean"
    assert plan_of(scored).baseline == "mean"
    kept = MeanOutputs.load(scored / "means" / "sw.safetensors")
    fresh = mean_outputs(plan.model, data=plan.data, task="pos", languages="sw")["sw"]
    assert kept.language == "sw"
    assert all(torch.equal(kept.values[name], fresh.values[name]) for name in fresh.values)
    english = MeanOutputs.load(scored / "means" / "en.safetensors")
    assert not torch.equal(kept.values["encoder.1"], english.values["encoder.1"])


def test_the_baseline_changes_the_values(plan: ScoringPlan, scored: Path, tmp_path: Path) -> None:
    zero = run_scoring(dataclasses.replace(plan, baseline="zero"), tmp_path / "zero")
    assert zero.means == {}
    assert not (tmp_path / "zero" / "means").exists()
    assert zero.scores["sw"].provenance.baseline == "zero"
    assert zero.scores["sw"].value != HeadScores.load(scored / "scores" / "sw.json").value
    assert set(compare_runs(scored, tmp_path / "zero")) == {"en", "sw"}  # decisions side by side
    with pytest.raises(HeadwiseError, match="'baseline' = 'zero', not 'mean'"):
        run_scoring(plan, tmp_path / "zero")


def test_a_run_without_the_field_has_the_baseline_zero(plan: ScoringPlan, tmp_path: Path) -> None:
    zero = dataclasses.replace(plan, baseline="zero")
    first = run_scoring(zero, tmp_path / "run")
    config = read_config(tmp_path / "run")
    del config["baseline"]
    write_config(tmp_path / "run", config)
    path = tmp_path / "run" / "scores" / "sw.json"
    old = json.loads(path.read_text())
    del old["provenance"]["baseline"]
    path.write_text(json.dumps(old))
    assert HeadScores.load(path) == first.scores["sw"]
    assert plan_of(tmp_path / "run").baseline == "zero"
    assert run_scoring(zero, tmp_path / "run").languages == first.languages
    with pytest.raises(HeadwiseError, match="'baseline' = 'zero', not 'mean'"):
        run_scoring(plan, tmp_path / "run")


def test_a_resumed_run_uses_the_means_that_it_kept(plan: ScoringPlan, tmp_path: Path) -> None:
    first = run_scoring(plan, tmp_path / "run")
    path = tmp_path / "run" / "means" / "sw.safetensors"
    other = MeanOutputs.load(path)
    dataclasses.replace(other, values={name: mean + 1 for name, mean in other.values.items()}).save(path)
    problems, _ = make_problems(plan)
    again = run_scoring(plan, tmp_path / "run")
    assert torch.equal(again.means["sw"].values["encoder.0"], other.values["encoder.0"] + 1)
    assert problems["sw"].baseline is not None
    assert torch.equal(problems["sw"].baseline.values["encoder.0"], first.means["sw"].values["encoder.0"])


#: Methods that close no gate: a baseline changes nothing for them.
WITHOUT_GATES = ("random", "layers", "confidence", "entropy", "gradient", "relevance")


@pytest.mark.parametrize("method", [name for name in METHODS if name != "exact"])
def test_every_method_scores_under_the_baseline(plan: ScoringPlan, method: str, tmp_path: Path) -> None:
    if method in ("shapiq", "captum"):
        pytest.importorskip(method)
    quick = dataclasses.replace(plan, method=method, budget=600, languages="sw")
    found, zero = (
        run_scoring(dataclasses.replace(quick, baseline=baseline), tmp_path / baseline).scores["sw"]
        for baseline in ("mean", "zero")
    )
    assert found.provenance.baseline == "mean"
    same = np.array_equal(found.values(), zero.values(), equal_nan=True)
    assert same == (method in WITHOUT_GATES)


def test_michel_is_the_gradient_of_the_mixing_gate(plan: ScoringPlan) -> None:
    problems, _ = make_problems(dataclasses.replace(plan, languages="sw"))
    problem = problems["sw"]
    everything = np.ones((len(problem.examples), len(problem.players)))
    found = problem.engine().gradients(everything, np.arange(len(problem.examples))).gradients
    step = 1e-2
    for player in (0, 5, 11):
        lower, upper = everything.copy(), everything.copy()
        lower[:, player] -= step
        upper[:, player] += step
        index = np.arange(len(problem.examples))
        slope = (problem.engine().values(upper, index).values - problem.engine().values(lower, index).values) / 2 / step
        torch.testing.assert_close(found[:, player], slope, atol=2e-4, rtol=1e-2)


def test_layers_have_no_mean(plan: ScoringPlan, tmp_path: Path) -> None:
    with pytest.raises(HeadwiseError, match="baseline: a layer that is off"):
        run_scoring(dataclasses.replace(plan, players="layers"), tmp_path / "run")
    with pytest.raises(HeadwiseError, match="baseline: must be one of zero, mean"):
        run_scoring(dataclasses.replace(plan, baseline="median"), tmp_path / "run")


@pytest.mark.parametrize("kind", ["shrunk", "folded", "mask"])
@torch.no_grad()
def test_pruning_a_run_replaces_heads_by_their_means(
    plan: ScoringPlan, scored: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    command = ("prune", scored, "--language", "sw", "--count", 5, "--export", kind, "--out", out)
    assert run(monkeypatch, *command) == 0
    model, ids = load_model(plan.model), torch.tensor([[2, 3, 4, 5]])
    choice = choose_mask(scored, language="sw", count=5)
    assert choice.means is not None
    with gated(model, choice.mask, baseline=MeanOutputs.load(choice.means)):
        expected = model(ids).logits
    if kind == "mask":
        with gated(model, HeadMask.load(out / "mask.json"), baseline=MeanOutputs.load(out / "means.safetensors")):
            assert torch.equal(model(ids).logits, expected)
        files = ("--mask", out / "mask.json", "--means", out / "means.safetensors")
        assert run(monkeypatch, "prune", plan.model, *files, "--out", tmp_path / "again") == 0
        assert difference(load_pruned(tmp_path / "again")(ids).logits, expected) < 1e-5
        return
    loaded = load_pruned(out) if kind == "shrunk" else load_model(str(out))
    assert difference(loaded(ids).logits, expected) < 1e-5


def test_missing_means_are_named(scored: Path, tmp_path: Path) -> None:
    import shutil

    copied = shutil.copytree(scored, tmp_path / "run")
    (copied / "means" / "sw.safetensors").unlink()
    with pytest.raises(HeadwiseError, match=r"sw\.safetensors: missing"):
        choose_mask(copied, language="sw", count=2)


def test_evaluating_under_a_mask_and_its_means(
    plan: ScoringPlan, scored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, tokenizer = load_model(plan.model), load_tokenizer(plan.model)
    scores = score_heads(
        model, tokenizer, plan.data, task="pos", languages="en,sw", budget=900, baseline="mean", progress=False
    )
    mask = scores["sw"].mask(count=6)
    found = evaluate(
        model, tokenizer, plan.data, task="pos", languages="sw", mask=mask, baseline=scores.means, progress=False
    )
    with gated(model, mask, baseline=scores.means["sw"]):
        plain = evaluate_plainly(model, tokenizer, plan)
    assert found["sw"].results[0].value == plain
    mask.save(scored / "tried.json")
    command = ("eval", plan.model, "--task", "pos", "--data", plan.data, "--languages", "sw", "--json")
    means = ("--mask", scored / "tried.json", "--means", scored / "means" / "sw.safetensors")
    assert run(monkeypatch, *command, *means) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == pytest.approx(plain)
    masks = refine_scores(scores, languages=["sw"], rounds=2, progress=False)
    assert masks["sw"].players == find_heads(model).players()


def evaluate_plainly(model: object, tokenizer: object, plan: ScoringPlan) -> float:
    from headwise.data.catalog import open_dataset
    from headwise.engine.evaluation import measure
    from headwise.tasks.dispatch import task_of

    dataset = open_dataset(plan.data, "pos")
    return measure(model, task_of(model, "pos"), dataset.examples("sw", "test"), tokenizer).results[0].value


def test_refining_and_merging_use_the_means_of_the_run(plan: ScoringPlan, scored: Path, tmp_path: Path) -> None:
    refined = refine_run(scored, ["sw"], RefinementPlan(rounds=2))["sw"]
    problems, _ = make_problems(plan)
    engine = problems["sw"].engine()
    masks = np.ones((len(problems["sw"].examples), 12), dtype=bool)
    start = HeadScores.load(scored / "scores" / "sw.json").mask("harmful")
    masks[:, [not on for on in start.on]] = False
    value = engine.values(masks, np.arange(len(masks))).values.double().mean()
    assert refined.steps[0].value == pytest.approx(float(value), abs=1e-6)
    run_scoring(dataclasses.replace(plan, seed=1), tmp_path / "other")
    merged = merge_scoring([scored, tmp_path / "other"], tmp_path / "merged")
    assert merged["sw"].provenance.baseline == "mean"
    assert choose_mask(tmp_path / "merged", language="sw", count=2).means is not None


def test_a_targeted_study_judges_masks_under_their_baseline(plan: ScoringPlan, tmp_path: Path) -> None:
    options = {"bases": 4, "flips": 6, "error_rate": 0.5}
    mean = dataclasses.replace(plan, languages="sw", budget=1250, estimand="truncated", options=options)
    study = TARGETED.run(TargetedPlan(mean, randoms=1, resamples=50, refine=2), tmp_path / "study")
    mask = study.scores["sw"].mask("harmful")
    assert mask.off, "the study has to find a harmful head"
    means = MeanOutputs.load(tmp_path / "study" / "scoring" / "means" / "sw.safetensors")
    model = load_model(plan.model)
    with gated(model, mask, baseline=means):
        expected = evaluate_plainly(model, load_tokenizer(plan.model), plan)
    assert study.languages["sw"].masks["targeted"].value == pytest.approx(expected)
    again = TARGETED.run(TargetedPlan(mean, randoms=1, resamples=50, refine=2), tmp_path / "study")
    assert again.to_dict() == study.to_dict()
    assert choose_mask(tmp_path / "study", language="sw", rule="refined").means is not None
