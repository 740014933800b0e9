"""On a cluster, rounds of several languages overlap; each language gets the bits that it gets alone."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.simulated_workers import Fault

from headwise.engine import EngineSettings
from headwise.masks import HeadMask
from headwise.methods import Problem
from headwise.runs import open_run, read_run
from headwise.scoring import RefinementPlan, ScoringPlan, make_problems, run_scoring, score_languages
from headwise.scoring.refine import refine_languages
from tests.engine.clusters import FakeCluster
from tests.scoring.world import save_data, save_model

LANGUAGES = ("en", "sw", "fi")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ScoringPlan:
    folder = tmp_path_factory.mktemp("world")
    model, data = str(save_model(folder / "model")), str(save_data(folder / "data"))
    return ScoringPlan(model, "pos", data, ",".join(LANGUAGES), budget=600, options={"error_rate": 1e-9})


def on_workers(plan: ScoringPlan, cluster: FakeCluster) -> dict[str, Problem]:
    problems, _ = make_problems(plan, make_engine=cluster.make_engine)
    return {name: replace(each, settings=EngineSettings(token_budget=32)) for name, each in problems.items()}


def here(plan: ScoringPlan) -> dict[str, Problem]:
    problems, _ = make_problems(plan)
    return {name: replace(each, settings=EngineSettings(token_budget=32)) for name, each in problems.items()}


def rounds_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    with read_run(folder) as run:
        return {
            stream: [
                {name: array for name, array in each.arrays.items() if name != "seconds"}
                for each in run.journal.rounds(stream)
            ]
            for stream in run.journal.streams()
        }


def same(one: dict[str, list[dict[str, Any]]], other: dict[str, list[dict[str, Any]]]) -> bool:
    return one.keys() == other.keys() and all(
        len(one[key]) == len(other[key]) and all(
            left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)
            for left, right in zip(one[key], other[key], strict=True)
        )
        for key in one
    )  # fmt: skip


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_any_number_of_workers_records_the_same_rounds(plan: ScoringPlan, tmp_path: Path, workers: int) -> None:
    def fault(worker: int, _: object) -> Fault:
        return "dies" if worker == 1 else None

    with open_run(tmp_path / "here", {"seed": 0}) as run:
        expected = dict(score_languages(plan, here(plan), run.journal))
    with FakeCluster(workers, fault) as cluster, open_run(tmp_path / "workers", {"seed": 0}) as run:
        found = dict(score_languages(plan, on_workers(plan, cluster), run.journal))
        assert 0 <= cluster.idle_share < 1
    assert {name: each.scores for name, each in found.items()} == {name: each.scores for name, each in expected.items()}
    assert len(rounds_of(tmp_path / "here")["en"]) > 1
    assert same(rounds_of(tmp_path / "workers"), rounds_of(tmp_path / "here"))


def test_the_first_rounds_of_all_languages_are_computed_at_the_same_time(plan: ScoringPlan) -> None:
    meeting, met = threading.Barrier(len(LANGUAGES), timeout=30), 0

    class Meeting(FakeCluster):
        """The first call of each thread waits for those of the other languages."""

        def answers(self, jobs: Any) -> Any:
            nonlocal met
            if met < len(LANGUAGES):
                met += 1
                meeting.wait()
            return super().answers(jobs)

    with Meeting(2) as cluster:
        found = dict(score_languages(plan, on_workers(plan, cluster)))
    assert set(found) == set(LANGUAGES)
    assert not meeting.broken


def test_a_run_that_is_stopped_and_resumed_has_the_same_scores(plan: ScoringPlan, tmp_path: Path) -> None:
    expected = run_scoring(plan, tmp_path / "whole")
    reports = 0

    def stop(*_: Any) -> None:
        nonlocal reports
        reports += 1
        if reports == 5:
            raise KeyboardInterrupt

    with FakeCluster(2) as cluster, pytest.raises(KeyboardInterrupt):
        run_scoring(plan, tmp_path / "stopped", progress=stop, make_engine=cluster.make_engine)
    assert rounds_of(tmp_path / "stopped").keys() <= set(LANGUAGES)
    with FakeCluster(3) as cluster:
        found = run_scoring(plan, tmp_path / "stopped", make_engine=cluster.make_engine)
    assert list(found.languages) == list(LANGUAGES), "in the order of the plan, whichever finished first"
    assert found.scores == expected.scores
    assert same(rounds_of(tmp_path / "stopped"), rounds_of(tmp_path / "whole"))


def test_progress_counts_the_units_of_all_languages_together(plan: ScoringPlan) -> None:
    shown: list[tuple[int, int, str]] = []
    with FakeCluster(2) as cluster:
        problems = on_workers(plan, cluster)
        found = dict(score_languages(plan, problems, progress=lambda *each: shown.append(each)))
    assert [done for done, _, _ in shown] == sorted(done for done, _, _ in shown)
    assert shown[-1][0] == shown[-1][1] == int(sum(each.scores.provenance.units for each in found.values()))


def test_refined_masks_are_the_same(plan: ScoringPlan, tmp_path: Path) -> None:
    how = RefinementPlan(rounds=4, width=2)
    local = here(plan)
    starts = {name: HeadMask.full(each.heads) for name, each in local.items()}
    with open_run(tmp_path / "here", {"seed": 0}) as run:
        expected = refine_languages(local, starts, how, run.journal)
    with FakeCluster(3) as cluster, open_run(tmp_path / "workers", {"seed": 0}) as run:
        found = refine_languages(on_workers(plan, cluster), starts, how, run.journal)
    assert list(found) == list(starts)
    assert found == expected
    assert same(rounds_of(tmp_path / "workers"), rounds_of(tmp_path / "here"))
