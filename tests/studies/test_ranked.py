"""Choosing the number of heads on dev, series of models, and random orders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.report import Curve
from headwise.scoring import ScoringPlan
from headwise.studies.ranked import (
    RankedPlan,
    Trial,
    Trials,
    check_learned,
    choose,
    count_curves,
    gain,
    random_orders,
    the_source,
)
from headwise.studies.resampled import Resampled
from headwise.tuning import EpochResult, TuningResult
from headwise.tuning.untuned import load_untuned


def trial(condition: str, count: int, dev: float, test: float, order: str = "", draw: int = 0) -> Trial:
    return Trial("de", condition, draw, order, count, dev, test, np.zeros((1, 2)))


def test_the_best_model_is_that_of_dev_and_the_paper_takes_that_of_test() -> None:
    every = [
        trial("MD", 1, 80.0, 70.0), trial("MD", 2, 81.0, 60.0), trial("MD", 3, 79.0, 75.0),
        trial("SD", 1, 50.0, 50.0),
    ]  # fmt: skip
    assert {key[1]: each.count for key, each in choose(every, "dev").items()} == {"MD": 2, "SD": 1}
    assert {key[1]: each.count for key, each in choose(every, "test").items()} == {"MD": 3, "SD": 1}


def test_of_equal_models_the_one_with_the_fewest_heads_removed_is_chosen() -> None:
    every = [trial("EC", 4, 80.0, 1.0, "en"), trial("EC", 2, 80.0, 2.0, "ar"), trial("EC", 2, 80.0, 3.0, "zh")]
    assert [each.order for each in choose(every, "dev").values()] == ["ar"]


def test_draws_choose_for_themselves_and_are_averaged() -> None:
    every = (
        trial("MD", 1, 80.0, 70.0, draw=0), trial("MD", 2, 70.0, 71.0, draw=0),
        trial("MD", 1, 60.0, 50.0, draw=1), trial("MD", 2, 70.0, 54.0, draw=1),
    )  # fmt: skip
    values = np.array([[[70.0, 54.0]]])
    trials = Trials(every, Resampled(("de",), ("MD",), values, values.mean(-1)[None]))
    assert trials.value("de", "MD", "dev") == 62
    assert trials.removed("de", "MD", "dev") == 1.5
    assert trials.chosen_on_test(["MD"]) == pytest.approx(0.5)


def test_gains_are_means_over_languages_of_means_over_conditions() -> None:
    generator = np.random.default_rng(0)
    values = generator.uniform(50, 60, (3, 4, 2))  # (languages, conditions, draws)
    drawn = generator.uniform(50, 60, (5, 3, 4))
    found = Resampled(("de", "ar", "zh"), ("unpruned", "MD", "SD", "EC"), values, drawn)
    contrast = gain(found, ["MD", "EC"], ["SD"])
    means = values.mean(-1)
    expected = np.mean([(means[row, 1] + means[row, 3]) / 2 - means[row, 2] for row in range(3)])
    assert float(contrast(found.mean)) == pytest.approx(float(expected))
    assert contrast(found.drawn).shape == (5,)


def test_curves_start_at_the_whole_model_and_bands_are_the_range_of_orders() -> None:
    every = (
        trial("unpruned", 0, 0, 60.0), trial("MD", 2, 0, 61.0, "MD"),
        trial("random 1", 2, 0, 50.0, "random 1"), trial("random 2", 2, 0, 54.0, "random 2"),
    )  # fmt: skip
    values = np.zeros((1, 1, 1))
    trials = Trials(every, Resampled(("de",), ("unpruned",), values, values))
    assert count_curves(trials, {"MD": ["MD"], "random": ["random 1", "random 2"], "EC de": ["de"]}) == (
        Curve("de", "MD", (0, 2), (60.0, 61.0)),
        Curve("de", "random", (0, 2), (60.0, 52.0), (60.0, 50.0), (60.0, 54.0)),
        Curve("de", "EC de", (), ()),
    )


def test_random_orders_are_different_permutations(planted: Path) -> None:
    heads = load_untuned(ScoringPlan(str(planted / "model"), "pos", str(planted / "data")), "en")[0].heads
    orders = random_orders(heads, 3, seed=0)
    assert list(orders) == ["random 1", "random 2", "random 3"]
    assert len(set(orders.values())) == 3
    assert all(sorted(order) == sorted(heads.players()) for order in orders.values())
    assert orders["random 1"] == random_orders(heads, 1, seed=0)["random 1"]
    assert random_orders(heads, 0, seed=0) == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"counts": [3, 2]}, "counts"),
        ({"counts": [0, 2]}, "counts"),
        ({"test_split": "dev"}, "test_split"),
        ({"scoring": ScoringPlan("m", "pos", "d", players="ffn")}, "players"),
        ({"scoring": ScoringPlan("m", "pos", "d", baseline="mean")}, "baseline"),
        ({"scoring": ScoringPlan("m", "pos", "d", split="test")}, "test_split"),
    ],
)
def test_mistakes_in_a_plan_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        RankedPlan(**{"scoring": ScoringPlan("m", "pos", "d"), **fields})


def test_a_source_is_one_language() -> None:
    with pytest.raises(HeadwiseError, match="train_languages"):
        the_source(RankedPlan(ScoringPlan("m", "pos", "d"), train_languages="en,de"))


def test_a_model_that_has_learned_nothing_ends_the_study() -> None:
    check_learned(TuningResult("f1", 2, 0.1, (EpochResult(0.41, 0.0), EpochResult(0.30, 0.1)), 200, 45_000))
    with pytest.raises(HeadwiseError, match=r"^learning_rate: the tuned model has 0 f1 on dev: change it, or raise"):
        check_learned(TuningResult("f1", 1, 0.0, (EpochResult(0.41, 0.0),), 200, 45_000))
