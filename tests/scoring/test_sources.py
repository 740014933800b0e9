"""Rankings from several source languages: pooled examples, summed matrices, each language in turn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.engine.evaluation import MaskJudge
from headwise.games import LikelihoodGame
from headwise.methods import Budget, find_method, run_method, score
from headwise.methods.gradient import GradientRounds
from headwise.runs import open_run
from headwise.scores.sources import sum_sources
from headwise.scoring import ScoringPlan, Setting, load_setting, make_problems
from headwise.scoring.sources import JudgedRanking, RankingChoice, judge_rankings, pool_problems, rank_sources
from tests.scoring.world import save_data, save_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScoringPlan, Setting]:
    folder = tmp_path_factory.mktemp("world")
    model, data = str(save_model(folder / "model")), str(save_data(folder / "data"))
    return ScoringPlan(model, "pos", data, "en,fi", method="gradient"), load_setting(model, "pos", data)


def test_pooled_examples_give_the_weighted_mean_of_means(world: tuple[ScoringPlan, Setting]) -> None:
    problems, _ = make_problems(*world)
    sizes = np.array([len(each.examples) for each in problems.values()])
    assert sizes.tolist() == [4, 2]
    pooled = pool_problems(problems)
    assert (pooled.language, len(pooled.examples)) == ("en+fi", 6)
    each = [score(find_method("michel"), problem, Budget()).values() for problem in problems.values()]
    found = score(find_method("michel"), pooled, Budget()).values()
    np.testing.assert_allclose(found, (4 * each[0] + 2 * each[1]) / 6, rtol=1e-5)


def test_md_normalises_after_pooling(world: tuple[ScoringPlan, Setting]) -> None:
    plan, setting = world
    sums = np.zeros(12)
    for problem in make_problems(plan, setting)[0].values():
        rounds = run_method(find_method("gradient"), problem, Budget()).rounds
        assert isinstance(rounds, GradientRounds)
        sums += rounds.sums.total
    by_layer = sums.reshape(3, 4) / sums.reshape(3, 4).sum(1, keepdims=True)
    expected = (by_layer - by_layer.min()) / np.ptp(by_layer)
    found = rank_sources(plan, "MD", setting)
    assert list(found) == ["MD"]
    np.testing.assert_allclose(found["MD"].values(), expected.ravel(), rtol=1e-4, atol=1e-5)
    assert found["MD"].provenance.units == pytest.approx(3 * 6)


def test_sd_sums_what_ec_tries_in_turn(world: tuple[ScoringPlan, Setting]) -> None:
    plan, setting = world
    each = rank_sources(plan, "EC", setting)
    assert list(each) == ["en", "fi"]
    assert rank_sources(plan, "SD", setting)["SD"].value == sum_sources(each).value


def test_every_method_can_be_pooled(world: tuple[ScoringPlan, Setting]) -> None:
    plan, setting = world
    shapley = replace(plan, method="stars", budget=400)
    assert rank_sources(shapley, "MD", setting)["MD"].provenance.language == "en+fi"
    assert rank_sources(shapley, "SD", setting)["SD"].provenance.signed


def test_rounds_are_kept(world: tuple[ScoringPlan, Setting], tmp_path: Path) -> None:
    plan, setting = world
    for _ in range(2):
        with open_run(tmp_path / "run", {"seed": 0}) as run:
            rank_sources(plan, "MD", setting, run.journal)
            assert run.journal.count("en+fi") == 1


def test_rankings_are_measured_as_the_judge_measures_masks(world: tuple[ScoringPlan, Setting]) -> None:
    plan, setting = world
    dev, test = (
        MaskJudge(setting.model, setting.heads, setting.task, examples, setting.tokenizer, "sw")
        for examples in (
            setting.examples("sw", "dev").examples["sw"],
            setting.examples("sw", "test").examples["sw"][:2],
        )
    )
    rankings = rank_sources(plan, "EC", setting)
    found = judge_rankings(rankings, [0, 3, 9], dev, test)
    assert [(each.ranking, each.removed) for each in found.results] == [
        (name, count) for name in ("en", "fi") for count in (0, 3, 9)
    ]
    for each in found.results:
        [statistics] = test.measure([rankings[each.ranking].mask(count=each.removed)]).statistics
        assert each.test == pytest.approx(float(test.metric.value(statistics.sum(0))))


def test_the_best_is_chosen_on_dev_and_the_best_on_test_is_shown_beside_it() -> None:
    results = (
        JudgedRanking("en", 4, 70.0, 68.0),
        JudgedRanking("ar", 4, 69.0, 69.5),
        JudgedRanking("zh", 4, 70.0, 1.0),
    )
    assert RankingChoice(results).best_on_dev == results[0]
    assert RankingChoice(results).best_on_test == results[1]
    assert RankingChoice(results, higher_is_better=False).best_on_test == results[2]


def test_wrong_sources_are_refused(world: tuple[ScoringPlan, Setting]) -> None:
    plan, setting = world
    with pytest.raises(HeadwiseError, match="at least 2 languages, not 1"):
        rank_sources(replace(plan, languages="en"), "SD", setting)
    with pytest.raises(HeadwiseError, match="must be one of MD, SD, EC, not 'XX'"):
        rank_sources(plan, "XX", setting)  # type: ignore[arg-type]
    problems, _ = make_problems(plan, setting)
    with pytest.raises(HeadwiseError, match="differ in more than their examples"):
        pool_problems({**problems, "fi": replace(problems["fi"], game=LikelihoodGame())})
