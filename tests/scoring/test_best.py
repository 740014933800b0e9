"""The best mask: every example is measured under masks made without it, and nothing is computed twice."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import headwise as hw
from headwise import HeadMask, HeadwiseError
from headwise.methods import Problem
from headwise.runs import open_run
from headwise.runs.config import read_config
from headwise.scoring import BestMask, BestMaskPlan, RefinementPlan, ScoringPlan, best_of_run, refine_mask, run_scoring
from headwise.scoring.best_result import Candidate
from headwise.scoring.folds import Folds, fold_numbers
from headwise.support.steps import run_steps
from tests.cli.running import run
from tests.scoring.planted import save_planted

KINDS: Any = ("harmful", "likely", "lowest", "refined", "pooled", "soft")
QUICK = BestMaskPlan(folds=4, refine=RefinementPlan(rounds=3, cross_fit=True))
PLAN: dict[str, Any] = {"budget": 900, "options": {"bases": 4, "flips": 6}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ScoringPlan:
    """A tagger with three harmful heads: without them, all answers are right."""
    model, data = save_planted(tmp_path_factory.mktemp("world"), ("encoder.0.0", "encoder.0.3", "encoder.1.1"))
    return ScoringPlan(str(model), "pos", str(data), "en,sw", **PLAN)


@pytest.fixture(scope="module")
def folder(world: ScoringPlan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = run_scoring(world, tmp_path_factory.mktemp("scored") / "run").folder
    assert found is not None
    return found


@pytest.fixture(scope="module")
def best(folder: Path) -> BestMask:
    return best_of_run(folder, "en", QUICK)


def test_all_kinds_are_compared_and_the_mask_is_written(folder: Path, best: BestMask) -> None:
    assert tuple(each.kind for each in best.candidates) == KINDS
    assert best.chosen in (*KINDS, "none")
    assert hw.load_mask(folder / "best" / "en.json") == best.mask
    assert best.metric == "accuracy"
    assert best.units > 900 * 0.5
    assert best.chosen != "none"  # half of the answers are wrong because of three heads
    assert 0 < best.low < best.gain < best.high
    assert best.chance_of_loss < 0.01
    gains = {each.kind: each.gain for each in best.candidates}
    assert best.gain < gains[best.chosen]  # without the optimism of choosing


def test_the_command_line_compares_masks_and_resumes(
    folder: Path, best: BestMask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """From a run folder to a smaller model, by the default of the command; `en` is in the journal already."""
    monkeypatch.setattr("headwise.scoring.best.BestMaskPlan", lambda: QUICK)
    assert run(monkeypatch, "prune", folder, "--language", "en", "--json", "--out", tmp_path / "small") == 0
    shown = capsys.readouterr()
    about = json.loads(shown.out)
    assert about["rule"] == "best"
    assert about["best"] == best.to_dict()
    assert "Expected gain in accuracy" in shown.err
    model, tokenizer = hw.load(tmp_path / "small")
    small = hw.evaluate(model, tokenizer, read_config(folder)["data"], task="pos", languages="en", progress=False)
    assert small["en"].results[0].value > 54.2  # the value of the whole model is 54.17


def test_a_repeated_call_measures_nothing(folder: Path, best: BestMask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("values", "gradients", "flips"):
        monkeypatch.setattr(f"headwise.engine.LocalEngine.{name}", None)
    assert best_of_run(folder, "en", QUICK) == best


def test_a_call_that_was_killed_goes_on_and_finds_the_same(world: ScoringPlan, best: BestMask, tmp_path: Path) -> None:
    run_scoring(world, tmp_path / "run")
    for last in (2, 15):

        def stop(done: int, _: int, __: str, last: int = last) -> None:
            if done == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            best_of_run(tmp_path / "run", "en", QUICK, stop)
    assert best_of_run(tmp_path / "run", "en", QUICK) == best


def test_every_mask_is_made_without_the_examples_it_is_measured_on(
    folder: Path, best: BestMask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks without a fold are made from a problem without its examples, and are measured only on them."""
    measured: list[tuple[int, ...]] = []
    problems: dict[int, int] = {}
    whole, part = Folds.measure, Folds.problem

    def measure(self: Folds, mask: Any, folds: list[int]) -> Any:
        measured.append(tuple(np.flatnonzero(self.numbers == folds[0]).tolist()))
        return whole(self, mask, folds)

    def problem(self: Folds, folds: list[int]) -> Problem:
        found = part(self, folds)
        if len(folds) > 1:
            [left] = set(range(4)) - set(folds)
            kept = np.flatnonzero(self.numbers != left)
            assert found.examples.encoded == tuple(self.whole.examples.encoded[place] for place in kept)
            problems[left] = len(found.examples)
        return found

    monkeypatch.setattr(Folds, "measure", measure)
    monkeypatch.setattr(Folds, "problem", problem)
    assert best_of_run(folder, "en", QUICK) == best
    folds = best.examples // 12  # 2 if one kind is clearly the best after half of them
    assert problems == dict.fromkeys(range(folds), 36)
    places = [place for each in set(measured) for place in each]
    assert len(places) == len(set(places)) == best.examples
    dropped = sum(each.dropped for each in best.candidates)
    assert len(measured) == folds * 7 - 2 * dropped  # no mask and six kinds, for each fold


def test_scores_without_a_fold_do_not_depend_on_its_examples(folder: Path, best: BestMask) -> None:
    """The rounds of a fold are left out exactly."""
    streams = [f"best en fold {fold} of 4" for fold in range(4)]
    with open_run(folder, read_config(folder)) as run:
        units = [sum(float(each.arrays["units"]) for each in run.journal.rounds(stream)) for stream in streams]
    assert all(0 < each <= 900 / 4 for each in units)


def test_folds_are_random_equal_and_the_same_for_all_languages() -> None:
    found = fold_numbers(23, 4, seed=3)
    assert sorted(np.bincount(found).tolist()) == [5, 6, 6, 6]
    assert (found == fold_numbers(23, 4, seed=3)).all()
    assert (found != fold_numbers(23, 4, seed=4)).any()


def test_a_refinement_step_must_hold_on_examples_of_its_own(world: ScoringPlan) -> None:
    """Steps are chosen by gradients of one half of the examples, and kept by values of the other half."""
    from headwise.scoring import make_problems

    problem: Problem = make_problems(world)[0]["en"]
    start, plan = HeadMask.full(problem.heads), RefinementPlan(rounds=6, cross_fit=True)
    found = refine_mask(problem, start, plan)
    assert len(found.steps) > 1
    from headwise.scoring.refine import _Search

    search = _Search(problem, plan, None)
    assert not set(search.choosing.tolist()) & set(search.holding.tolist())
    assert len(search.choosing) + len(search.holding) == len(problem.examples)
    measured = run_steps(search.measure(np.ones(len(problem.players), dtype=bool)))
    expected = problem.engine().values(np.ones((24, len(problem.players)), dtype=bool), search.holding).values
    assert measured.values == pytest.approx(expected.double().numpy())
    slopes = problem.engine().gradients(np.ones((24, len(problem.players)), dtype=bool), search.choosing).gradients
    assert measured.slopes.mean == pytest.approx(slopes.double().numpy().mean(0), abs=1e-6)


def test_objects_in_hand_give_the_same_as_a_run_folder(world: ScoringPlan, folder: Path) -> None:
    model, tokenizer = hw.load(world.model)
    data = hw.open_dataset(world.data, task="pos")
    scores = hw.score(model, tokenizer, data, languages=["en", "sw"], progress=False, **PLAN)
    plan = dataclasses.replace(QUICK, folds=2, kinds=("harmful", "likely", "refined"))
    kept = best_of_run(folder, "en", plan)
    found = hw.best_mask(scores, "en", progress=False, kinds=plan.kinds, folds=2, refine=plan.refine)
    assert [each.gain for each in found.candidates] == pytest.approx([each.gain for each in kept.candidates])


@pytest.mark.parametrize(
    ("harmful", "likely", "examples"), [(0.5, 1.0, 24), (0.95, 1.0, 48), (0.5, 0.5, 48), (0.1, 0.2, 24)]
)
def test_the_comparison_ends_when_one_kind_is_clearly_the_best_or_none_is_left(
    harmful: float, likely: float, examples: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are replaced: half are right without a mask, and another share under the masks of each kind."""
    scored, scores = set(), hw.HeadScores.load(folder / "scores" / "en.json")
    masks = {"harmful": scores.mask(count=1), "likely": scores.mask(count=2)}

    def measure(self: Folds, mask: HeadMask, folds: list[int]) -> Any:
        size = int(np.isin(self.numbers, folds).sum())
        right = np.arange(size) < (0.5, harmful, likely)[len(mask.off)] * size
        return np.stack([right, np.ones(size)], axis=1).astype(float)

    monkeypatch.setattr(Folds, "measure", measure)
    monkeypatch.setattr(Folds, "score", lambda _, fold: scored.add(fold))
    monkeypatch.setattr("headwise.scoring.best._Makers.mask", lambda _, kind, __: masks[kind])
    found = best_of_run(folder, "en", dataclasses.replace(QUICK, folds=2, kinds=("harmful", "likely")))
    assert found.chosen == ("likely" if likely == 1 else "none")
    assert found.examples == examples
    assert scored == ({1} if examples == 24 else {0, 1})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: best_of_run(folder, "fi"), "no scores of fi: there are en, sw"),
        (lambda folder: best_of_run(folder, "en", BestMaskPlan(folds=10)), "at least 50 examples, but en has 48"),
        (lambda folder: BestMaskPlan(kinds=cast(Any, ("random",))), "kinds"),
        (lambda folder: BestMaskPlan(kinds=()), "kinds"),
        (lambda folder: BestMaskPlan(folds=1), "folds"),
        (lambda folder: BestMaskPlan(risk=1.5), "risk"),
        (lambda folder: BestMaskPlan(units=0), "units"),
    ],
)
def test_wrong_arguments_are_errors(folder: Path, call: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        call(folder)


def test_the_command_line_uses_the_best_mask_by_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The comparison itself is replaced: only what is done with its result is tested."""
    scores = hw.HeadScores.load(folder / "scores" / "sw.json")
    mask = scores.mask(count=2)
    found = BestMask("sw", "likely", mask, "accuracy", 1.5, 0.5, 2.5, 0.01, (Candidate("likely", 1.75),), 24, 999.0)
    monkeypatch.setattr("headwise.scoring.best_run.compare_masks", lambda *_: found)
    command = ("prune", folder, "--language", "sw", "--export", "mask", "--json", "--out")
    assert run(monkeypatch, *command, tmp_path / "default") == 0
    shown = capsys.readouterr()
    about = json.loads(shown.out)
    assert (about["rule"], about["removed"], about["best"]["gain"]) == ("best", 2, 1.5)
    assert "chance of a loss 1.0%" in shown.err
    assert "999 units" in shown.err
    assert HeadMask.load(tmp_path / "default" / "mask.json").off == mask.off
    assert run(monkeypatch, *command, tmp_path / "named", "--mask", "best") == 0
    assert json.loads(capsys.readouterr().out)["best"]["chosen"] == "likely"
    none = dataclasses.replace(found, chosen="none", mask=scores.without(()), gain=0.0)
    monkeypatch.setattr("headwise.scoring.best_run.compare_masks", lambda *_: none)
    assert run(monkeypatch, *command, tmp_path / "none") == 1
    assert "no mask is likely enough to be better than none" in capsys.readouterr().err
    assert run(monkeypatch, *command, tmp_path / "both", "--mask", "best", "--likely") == 1
    assert "--mask best chooses the heads" in capsys.readouterr().err
    assert run(monkeypatch, "prune", folder, "--mask", "best", "--out", tmp_path / "no language") == 1
    assert "give its folder and --language" in capsys.readouterr().err
    assert run(monkeypatch, *command, tmp_path / "repaired", "--repair") == 1  # writes weights, not a mask
    assert "--repair needs the examples of a run and writes weights" in capsys.readouterr().err


def test_without_a_comparison_likely_harmful_heads_go_and_the_command_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise HeadwiseError("data: no such folder")

    monkeypatch.setattr("headwise.scoring.best_run.load_setting", fail)
    scores = hw.HeadScores.load(folder / "scores" / "sw.json")
    command = ("prune", folder, "--language", "sw", "--export", "mask", "--json", "--out")
    code = run(monkeypatch, *command, tmp_path / "likely")
    shown = capsys.readouterr()
    assert "masks cannot be compared (data: no such folder)" in shown.err
    assert code == int(not scores.mask("likely").off)
    assert run(monkeypatch, *command, tmp_path / "named", "--mask", "best") == 1
    assert "data: no such folder" in capsys.readouterr().err
