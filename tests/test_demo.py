"""The demo: real model, real data, every number measured."""

from pathlib import Path

import pytest

from headwise.demo import demo_plan, run_demo


def test_the_demo_scores_on_one_half_and_judges_on_the_other() -> None:
    for plan in (demo_plan(), demo_plan(fast=True)):
        assert (plan.scoring.split, plan.test_split) == ("dev", "test")
        assert plan.source in plan.scoring.languages.split(",")
    assert len(demo_plan().scoring.languages.split(",")) >= 6
    assert demo_plan(fast=True).scoring.budget < demo_plan().scoring.budget


@pytest.mark.slow
def test_the_fast_demo_runs_and_runs_again_from_what_is_there(tmp_path: Path) -> None:
    study = run_demo(tmp_path / "demo", fast=True)
    assert study.languages["en"].base > 90
    assert study.languages["zh"].base > 70
    for language, found in study.languages.items():
        assert len(study.scores[language].players) == 144
        assert len(found.randoms["refined"]) == 3
    assert run_demo(tmp_path / "demo", fast=True).languages == study.languages
