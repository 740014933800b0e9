"""Refining the masks of a model: nothing is measured twice, and what is chosen is what was measured."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headwise import HeadMask, HeadwiseError
from headwise.methods import Problem
from headwise.runs import open_run
from headwise.scoring import (
    Refined,
    RefinementPlan,
    ScoringPlan,
    make_problems,
    plan_of,
    refine_mask,
    refine_run,
    run_scoring,
)
from headwise.support.steps import Steps
from tests.scoring.world import Dawdler, save_data, save_model


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    folder = tmp_path_factory.mktemp("world")
    plan = ScoringPlan(str(save_model(folder / "model")), "pos", str(save_data(folder / "data")), "en")
    return make_problems(plan)[0]["en"]


def test_the_value_of_a_refined_mask_is_the_last_that_was_kept(problem: Problem) -> None:
    start = HeadMask.full(problem.heads)
    found = refine_mask(problem, start)
    assert found.verdict == "refined"
    index = np.arange(len(problem.examples))
    values = problem.engine().values(np.tile(found.mask.on, (len(index), 1)), index).values
    assert float(values.mean()) == pytest.approx([step.value for step in found.steps if step.kept][-1], abs=1e-5)
    assert found.mask.language == "en"
    assert found.mask.fingerprint == problem.heads.fingerprint
    assert found.units == 2 * len(index) * len(found.steps) + 2 * len(index)


def test_a_mask_that_accuracy_speaks_against_is_not_taken(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    start = HeadMask.without(problem.heads, ["encoder.0.0"])
    worse = {True: 1.0, False: 0.5}  # the mask at the start is better than any other

    def hard_value(_: object, on: np.ndarray) -> Steps[float]:
        yield from ()
        return worse[bool((on == np.array(start.on)).all())]

    monkeypatch.setattr("headwise.scoring.refine._Search.hard_value", hard_value)
    found = refine_mask(problem, start)
    assert found.verdict == "as it was"
    assert found.mask == start
    assert len(found.steps) > 1
    assert found.step == found.steps[0]


def test_a_run_that_was_stopped_goes_on_with_what_it_measured(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, plan = HeadMask.full(problem.heads), RefinementPlan(rounds=5)

    def run() -> Refined:
        with open_run(tmp_path / "run", {"seed": 0}) as opened:
            return refine_mask(problem, start, plan, opened.journal)

    def stop(done: int, _: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_run(tmp_path / "run", {"seed": 0}) as opened:
        refine_mask(problem, start, plan, opened.journal, stop)
    whole = refine_mask(problem, start, plan)
    assert run() == whole
    monkeypatch.setattr("headwise.engine.LocalEngine.gradients", None)  # all is known by now
    assert run() == whole


@pytest.mark.parametrize(
    "plan",
    [
        RefinementPlan(rounds=5),
        RefinementPlan(rounds=2),
        RefinementPlan(rounds=5, width=3),
        RefinementPlan(rounds=5, examples=3),
        RefinementPlan(rounds=5, examples=3, seed=1),
    ],
)
@pytest.mark.parametrize("off", [(), ("encoder.0.0", "encoder.1.2", "encoder.2.3")])
def test_what_was_measured_for_another_start_or_plan_is_not_taken_for_this_one(
    problem: Problem, tmp_path: Path, plan: RefinementPlan, off: tuple[str, ...]
) -> None:
    start = HeadMask.without(problem.heads, off)
    with open_run(tmp_path / "run", {"seed": 0}) as opened:
        refine_mask(problem, HeadMask.without(problem.heads, ["encoder.1.1"]), RefinementPlan(3), opened.journal)
        assert refine_mask(problem, start, plan, opened.journal) == refine_mask(problem, start, plan)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two languages that share all but one of ten items."""
    monkeypatch.setattr("headwise.scoring.run.find_method", lambda name, **options: Dawdler(**options))
    save_model(tmp_path / "model")
    write_treebanks(tmp_path / "data", {"en": range(10), "sw": range(1, 11)})
    run_scoring(
        ScoringPlan(str(tmp_path / "model"), "pos", str(tmp_path / "data"), "en,sw", budget=24), tmp_path / "run"
    )
    return tmp_path


def write_treebanks(folder: Path, items: dict[str, range], word: str = "cat") -> None:
    (folder / "ud").mkdir(parents=True, exist_ok=True)
    for language, numbers in items.items():
        sentences = [f"# sent_id = {n}\n1\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n" for n in numbers]
        for split in ("dev", "test"):
            (folder / "ud" / f"{language}_toy-ud-{split}.conllu").write_text("".join(sentences))


def test_one_language_of_a_run_is_refined_on_the_examples_that_it_was_scored_on(world: Path) -> None:
    alone, both = refine_run(world / "run", ["en"]), refine_run(world / "run")
    assert alone["en"] == both["en"]
    assert alone["en"].verdict == "refined"
    assert alone["en"].units == 2 * 9 * len(alone["en"].steps) + 2 * 9


def test_other_examples_than_those_that_were_scored_are_refused(world: Path) -> None:
    write_treebanks(world / "data", {"en": range(10), "sw": range(1, 11)}, word="paka")
    with pytest.raises(HeadwiseError, match="the examples of en have changed since they were scored"):
        refine_run(world / "run", ["en"])


def test_a_run_is_refined_once(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = refine_run(world / "run")
    monkeypatch.setattr("headwise.engine.LocalEngine.gradients", None)
    assert refine_run(world / "run") == found


def test_a_refined_mask_goes_when_the_mask_that_it_was_made_from_does(world: Path) -> None:
    found = refine_run(world / "run")
    again = plan_of(world / "run")
    run_scoring(again, world / "run")
    assert {path.stem for path in (world / "run" / "refined").iterdir()} == {"en", "sw"}
    found["sw"].mask.save(world / "run" / "masks" / "sw.json")  # as if less had been known before
    run_scoring(again, world / "run")
    assert {path.stem for path in (world / "run" / "refined").iterdir()} == {"en"}


@pytest.mark.parametrize("field", ["rounds", "width", "examples"])
@pytest.mark.parametrize("number", [0, -1, 2.5, True])
def test_numbers_that_make_no_plan_are_named(field: str, number: object) -> None:
    with pytest.raises(HeadwiseError, match=f"{field}: a whole number of at least 1"):
        RefinementPlan(**{field: cast(Any, number)})
