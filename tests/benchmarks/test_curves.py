"""Areas under pruning curves, against plain loops."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.curves import PruningCurve, area, draw_curves, mean_area, measure_curve, points_of

from headwise.engine.evaluation import MaskJudge
from headwise.methods import Budget, score
from headwise.methods.random_ranking import RandomRanking
from headwise.scoring import ScoringPlan, load_setting, make_problems
from headwise.tasks.metrics import Accuracy
from tests.scoring.world import save_data, save_model


def test_points_go_from_none_to_all() -> None:
    assert points_of(144).tolist() == [0, 6, 12, 24, 36, 48, 72, 96, 120, 144]
    assert points_of(12).tolist() == [0, 1, 2, 3, 4, 6, 8, 10, 12]


def test_the_area_is_the_mean_height() -> None:
    assert area(np.array([0, 2, 3]), np.array([90.0, 60.0, 30.0])) == pytest.approx(65)
    np.testing.assert_allclose(area(np.array([0, 4]), np.array([[1.0, 3.0], [5.0, 5.0]])), [2, 5])


def test_the_mean_area_of_curves_has_an_interval_over_examples() -> None:
    draw = np.random.default_rng(0)
    removed = np.array([0, 3, 4])
    curves = [np.stack([draw.integers(0, 5, (60, 3)), np.full((60, 3), 4)], axis=2).astype(float) for _ in range(3)]
    found, low, high = mean_area(removed, curves, Accuracy().value)
    expected = [
        area(removed, np.array([100 * curve[:, point, 0].sum() / 240 for point in range(3)])) for curve in curves
    ]
    assert found == pytest.approx(np.mean(expected))
    assert low < found < high
    assert high - low < 15


def test_curves_are_measured_under_the_masks_of_the_ranking(tmp_path: Path) -> None:
    model, data = str(save_model(tmp_path / "model")), str(save_data(tmp_path / "data"))
    setting = load_setting(model, "pos", data)
    [problem] = make_problems(ScoringPlan(model, "pos", data, "en"), setting)[0].values()
    scores = score(RandomRanking(), problem, Budget(), seed=1)
    judge = MaskJudge(
        setting.model, setting.heads, setting.task, setting.examples("en", "test").examples["en"], setting.tokenizer
    )
    found = measure_curve(judge, scores)
    removed = points_of(12)
    for side, ranked in (("lowest", scores.ranked()), ("highest", scores.ranked()[::-1])):
        for point, count in enumerate(removed):
            [statistics] = judge.measure([scores.without(ranked[:count])]).statistics
            np.testing.assert_allclose(found[side][:, point], statistics)
    curve = PruningCurve(removed, found["lowest"], found["highest"])
    pytest.importorskip("matplotlib")
    draw_curves({"random": [curve, curve]}, Accuracy().value, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000
