"""The best mask: every example is measured under masks made without it, and nothing is computed twice."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwise as hw
from headwise import HeadMask, HeadwiseError
from headwise.engine.evaluation import MaskJudge
from headwise.methods import Problem
from headwise.runs import open_run
from headwise.runs.config import read_config
from headwise.scoring import BestMask, BestMaskPlan, RefinementPlan, ScoringPlan, best_of_run, refine_mask, run_scoring
from headwise.scoring.best import _Comparison, fold_numbers
from tests.scoring.world import WORDS, save_model

KINDS: Any = ("harmful", "likely", "refined", "pooled", "soft")
QUICK = BestMaskPlan(refine=RefinementPlan(rounds=3, cross_fit=True), resamples=100)
PLAN: dict[str, Any] = {"budget": 900, "options": {"bases": 4, "flips": 6}}


def save_data(folder: Path, sentences: int = 24) -> Path:
    """Treebanks of random sentences in two languages that have the same items."""
    draw, words = np.random.default_rng(0), list(WORDS)
    (folder / "ud").mkdir(parents=True)
    for language in ("en", "sw"):
        lines = []
        for number in range(sentences):
            chosen = [words[place] for place in draw.integers(len(words), size=4)]
            lines.append(f"# sent_id = {number}\n# text = {' '.join(chosen)}\n")
            lines += [
                f"{place}\t{word}\t_\t{WORDS[word]}\t_\t_\t{int(place > 1)}\t{'dep' if place > 1 else 'root'}\t_\t_\n"
                for place, word in enumerate(chosen, 1)
            ]
            lines.append("\n")
        (folder / "ud" / f"{language}_toy-ud-dev.conllu").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ScoringPlan:
    folder = tmp_path_factory.mktemp("world")
    return ScoringPlan(str(save_model(folder / "model")), "pos", str(save_data(folder / "data")), "en,sw", **PLAN)


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
    assert best.units > 900 * 4 / 3 * 0.5
    if best.chosen == "none":
        assert (best.gain, best.chance_of_loss, best.mask.off) == (0.0, 0.0, ())
    else:
        assert best.low < best.gain < best.high
        assert best.chance_of_loss <= QUICK.risk


def test_a_repeated_call_measures_nothing(folder: Path, best: BestMask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("values", "gradients", "flips"):
        monkeypatch.setattr(f"headwise.engine.LocalEngine.{name}", None)
    assert best_of_run(folder, "en", QUICK) == best


def test_a_call_that_was_killed_goes_on_and_finds_the_same(world: ScoringPlan, best: BestMask, tmp_path: Path) -> None:
    run_scoring(world, tmp_path / "run")
    for last in (2, 7, 13):

        def stop(done: int, _: int, __: str, last: int = last) -> None:
            if done == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            best_of_run(tmp_path / "run", "en", QUICK, stop)
    assert best_of_run(tmp_path / "run", "en", QUICK) == best


def test_every_mask_is_measured_on_examples_that_it_was_made_without(
    world: ScoringPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Which examples an engine reads while a mask is made, and on which the mask is measured."""
    run_scoring(world, tmp_path / "run")
    seen: dict[str, set[int]] = {}
    made: list[tuple[str, int, set[Any], set[int]]] = []
    whole = _Comparison._make
    measure = MaskJudge.measure

    def make(self: _Comparison, kind: Any, fold: Any) -> Any:
        if fold is not None and kind != "pooled":
            part = self._without(fold)
            outside = {self.problem.examples.encoded[place] for place in np.flatnonzero(self.folds == fold)}
            inside = list(part.examples.encoded)
            assert len(inside) + (self.folds == fold).sum() == len(self.folds)
            made.append((kind, fold, outside, set()))
        return whole(self, kind, fold)

    def judged(self: MaskJudge, masks: Any, only: Any = None) -> Any:
        seen.setdefault("judged", set()).update(int(each) for part in only for each in part)
        return measure(self, masks, only)

    monkeypatch.setattr(_Comparison, "_make", make)
    monkeypatch.setattr(MaskJudge, "measure", judged)
    best_of_run(tmp_path / "run", "sw", dataclasses.replace(QUICK, kinds=("harmful", "likely")))
    assert {(kind, fold) for kind, fold, _, _ in made} == {
        (kind, fold) for kind in ("harmful", "likely") for fold in range(4)
    }
    assert seen["judged"] == set(range(24))


def test_scores_without_a_fold_do_not_depend_on_its_examples(folder: Path, best: BestMask) -> None:
    """The rounds of a fold are left out exactly."""
    streams = [f"best en fold {fold} of 4" for fold in range(4)]
    with open_run(folder, read_config(folder)) as run:
        units = [sum(float(each.arrays["units"]) for each in run.journal.rounds(stream)) for stream in streams]
    assert all(0 < each <= 900 / 3 for each in units)


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
    measured = search.measure(np.ones(len(problem.players), dtype=bool))
    expected = problem.engine().values(np.ones((12, len(problem.players)), dtype=bool), search.holding).values
    assert measured.values == pytest.approx(expected.double().numpy())
    slopes = problem.engine().gradients(np.ones((12, len(problem.players)), dtype=bool), search.choosing).gradients
    assert measured.slopes.mean == pytest.approx(slopes.double().numpy().mean(0), abs=1e-6)


def test_objects_in_hand_give_the_same_as_a_run_folder(world: ScoringPlan, best: BestMask) -> None:
    model, tokenizer = hw.load(world.model)
    data = hw.open_dataset(world.data, task="pos")
    scores = hw.score(model, tokenizer, data, languages=["en", "sw"], progress=False, **PLAN)
    found = hw.best_mask(
        scores, "en", progress=False, kinds=("harmful", "likely", "refined"), refine=QUICK.refine, resamples=100
    )
    gains = {each.kind: each.gain for each in best.candidates}
    assert {each.kind: each.gain for each in found.candidates} == pytest.approx(
        {kind: gains[kind] for kind in ("harmful", "likely", "refined")}
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: best_of_run(folder, "fi"), "no scores of fi: there are en, sw"),
        (lambda folder: best_of_run(folder, "en", BestMaskPlan(folds=5)), "at least 25 examples, but en has 24"),
        (lambda folder: BestMaskPlan(kinds=("random",)), "kinds"),
        (lambda folder: BestMaskPlan(kinds=()), "kinds"),
        (lambda folder: BestMaskPlan(folds=1), "folds"),
        (lambda folder: BestMaskPlan(risk=1.5), "risk"),
    ],
)
def test_wrong_arguments_are_errors(folder: Path, call: Callable[[Path], Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        call(folder)
