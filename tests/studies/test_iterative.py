"""The iterative study: the metric on test data as heads are removed, lowest-ranked first."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from headwise import HeadMask, HeadwiseError, find_heads, gated
from headwise.data.catalog import open_dataset
from headwise.engine.evaluation import JudgedMasks, MaskJudge, evaluate
from headwise.heads import PlayerKind
from headwise.models import load_model, load_tokenizer
from headwise.report import Curve
from headwise.scoring import ScoringPlan
from headwise.scoring.run_folder import load_scores
from headwise.studies import IterativePlan, IterativeStudy, find_plan
from headwise.studies.iterative import ITERATIVE, area, best, removable
from headwise.studies.page import report_of
from headwise.tasks import Evaluation, find_task
from tests.cli.running import run
from tests.report.reading import read
from tests.report.samples import scores_of
from tests.scoring.world import SENTENCES, WORDS, save_data, save_model

RANKINGS = ("stars", "gradient-screen", "michel", "random", "permutation", "tmab")
OPTIONS = {"bases": 4, "flips": 6, "error_rate": 0.5}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    teach(save_model(folder / "model"))
    save_data(folder / "data")
    return folder


def teach(folder: Path) -> None:
    """Fit the tagger's last layer, so that it is correct with all heads and worse without them."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    states, labels = [], []
    for text in (text for sentences in SENTENCES.values() for text in sentences):
        encoded = tokenizer(text.split(), is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            states.append(model.bert(encoded["input_ids"]).last_hidden_state[0])
        labels += [model.config.label2id[WORDS[word]] for word in text.split()]
    target = torch.nn.functional.one_hot(torch.tensor(labels), model.config.num_labels).float()
    with torch.no_grad():
        model.classifier.weight.copy_(torch.linalg.lstsq(torch.cat(states), target, driver="gelsd").solution.T)
        model.classifier.bias.zero_()
    model.save_pretrained(folder)


@pytest.fixture(scope="module")
def plan(world: Path) -> IterativePlan:
    scoring = ScoringPlan(
        str(world / "model"), "pos", str(world / "data"), "en,sw", budget=600, seed=5, estimand="truncated",
        options=OPTIONS,
    )  # fmt: skip
    return IterativePlan(scoring, RANKINGS, step=5, randoms=2, resamples=200)


@pytest.fixture(scope="module")
def study(plan: IterativePlan, tmp_path_factory: pytest.TempPathFactory) -> IterativeStudy:
    return ITERATIVE.run(plan, tmp_path_factory.mktemp("run") / "study")


def without(world: Path, language: str, off: tuple[str, ...], limit: int | None = None) -> Evaluation:
    """A plain evaluation on test without some heads."""
    model = load_model(world / "model")
    examples = open_dataset(str(world / "data"), "pos").examples(language, "test")[:limit]
    with gated(model, HeadMask.without(find_heads(model), off)):
        return evaluate(model, find_task("pos"), examples, load_tokenizer(world / "model"))


def curve_of(study: IterativeStudy, language: str, ranking: str) -> Curve:
    [found] = [each for each in study.lines if (each.language, each.ranking) == (language, ranking)]
    return found


def test_the_points_go_from_none_to_all(study: IterativeStudy, plan: IterativePlan) -> None:
    players = len(study.scores["en"].players)
    assert players % 5, "the last step should be a shorter one"
    assert {curve.removed for curve in study.lines} == {(*range(0, players, 5), players)}
    assert [(each.language, each.ranking) for each in study.lines] == [
        (language, ranking) for language in ("en", "sw") for ranking in RANKINGS
    ]
    assert plan.points(5) == (0, 5)
    assert plan.points(4) == (0, 4)


@pytest.mark.parametrize("ranking", ["stars", "michel", "tmab"])
def test_values_are_those_of_a_plain_evaluation(study: IterativeStudy, world: Path, ranking: str) -> None:
    folder = study.folder / ("scoring" if ranking == "stars" else f"scoring-{ranking}")
    for language, scores in load_scores(folder).items():
        order = [scores.players[place] for place in np.argsort(scores.shrunk or scores.value, kind="stable")]
        curve = curve_of(study, language, ranking)
        expected = [without(world, language, tuple(order[:removed])).value for removed in curve.removed]
        assert curve.value == pytest.approx(expected)
        assert len(set(expected)) > 1


def test_random_is_the_mean_of_its_draws_with_their_range_as_band(study: IterativeStudy, world: Path) -> None:
    draws = [load_scores(study.folder / f"scoring-random-{draw}")["en"] for draw in range(2)]
    assert [each.provenance.seed for each in draws] == [5, 6]
    curve = curve_of(study, "en", "random")
    values = np.array([[without(world, "en", each.ranked()[:n]).value for n in curve.removed] for each in draws])
    assert (values[0] != values[1]).any()
    assert curve.value == pytest.approx(values.mean(0))
    assert curve.low == pytest.approx(values.min(0))
    assert curve.high == pytest.approx(values.max(0))


def test_all_rankings_start_and_end_at_the_same_values(study: IterativeStudy, world: Path) -> None:
    players = study.scores["en"].players
    for curve in study.lines:
        assert curve.value[0] == pytest.approx(without(world, curve.language, ()).value)
        assert curve.value[-1] == pytest.approx(without(world, curve.language, players).value)
        assert all(low <= value <= high for low, value, high in zip(curve.low, curve.value, curve.high, strict=True))


def test_bands_are_bootstrap_intervals(study: IterativeStudy, world: Path) -> None:
    curve, order = curve_of(study, "en", "michel"), load_scores(study.folder / "scoring-michel")["en"].ranked()
    rows = np.random.default_rng(0).integers(4, size=(200, 4))
    for removed, low, high in zip(curve.removed, curve.low, curve.high, strict=True):
        right, words = without(world, "en", order[:removed]).statistics.T
        drawn = 100 * right[rows].sum(1) / words[rows].sum(1)
        assert (low, high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))
    assert any(low < high for low, high in zip(curve.low, curve.high, strict=True))


def test_options_apply_only_to_the_method_of_the_plan(study: IterativeStudy, plan: IterativePlan) -> None:
    config = (study.folder / "scoring" / "config.yaml").read_text()
    assert "flips: 6" in config
    assert "error_rate: 0.1" in (study.folder / "scoring-permutation" / "config.yaml").read_text()
    assert study.scores == load_scores(study.folder / "scoring")
    assert set(study.seconds) == {"en", "sw"}


def test_a_resumed_study_measures_nothing_twice(
    study: IterativeStudy, plan: IterativePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(plan, rankings=["stars", "michel"], step=3)
    calls, stop_at = [0], [7]
    measure = MaskJudge.measure

    def counted(judge: MaskJudge, masks: Sequence[HeadMask], only: Any = None) -> JudgedMasks:
        if calls[0] >= stop_at[0] >= 0:
            raise KeyboardInterrupt
        calls[0] += len(masks)
        return measure(judge, masks, only)

    monkeypatch.setattr(MaskJudge, "measure", counted)
    with pytest.raises(KeyboardInterrupt):
        ITERATIVE.run(small, tmp_path)
    with pytest.raises(HeadwiseError, match="no finished study"):
        ITERATIVE.load(tmp_path)
    stop_at[0] = -1
    found = ITERATIVE.run(small, tmp_path)
    assert calls[0] == len(_masks(found))
    again = ITERATIVE.run(small, tmp_path)
    assert calls[0] == len(_masks(found))
    assert again.lines == found.lines


def _masks(study: IterativeStudy) -> set[tuple[str, frozenset[str]]]:
    """All distinct pairs of a language and a set of removed heads on the curves."""
    found = set()
    for curve in study.lines:
        folder = study.folder / ("scoring" if curve.ranking == "stars" else f"scoring-{curve.ranking}")
        order = load_scores(folder)[curve.language].ranked()
        found |= {(curve.language, frozenset(order[:removed])) for removed in curve.removed}
    return found


def test_a_finished_study_can_be_loaded(study: IterativeStudy) -> None:
    assert ITERATIVE.load(study.folder) == study
    assert ITERATIVE.load(study.folder) == study


def test_the_number_of_test_examples_can_be_limited(plan: IterativePlan, world: Path, tmp_path: Path) -> None:
    scoring = replace(plan.scoring, languages="en")
    found = ITERATIVE.run(replace(plan, scoring=scoring, rankings=["stars"], limit_test=2), tmp_path)
    curve, order = curve_of(found, "en", "stars"), found.scores["en"].ranked()
    few, all_of_them = ([without(world, "en", order[:n], limit).value for n in curve.removed] for limit in (2, None))
    assert curve.value == pytest.approx(few)
    assert few != pytest.approx(all_of_them)


def test_the_method_of_the_plan_may_be_random(plan: IterativePlan, tmp_path: Path) -> None:
    scoring = replace(plan.scoring, method="random", options={}, languages="en")
    found = ITERATIVE.run(replace(plan, scoring=scoring, rankings=["random"], step=100), tmp_path)
    assert found.scores["en"].provenance.method == "random"
    folders = {path.parent.name: load_scores(path.parent)["en"].provenance.seed for path in tmp_path.glob("*/scores")}
    assert folders == {"scoring": 5, "scoring-random-1": 6}


def test_heads_without_a_value_cannot_be_ranked(plan: IterativePlan, tmp_path: Path) -> None:
    scoring = replace(plan.scoring, method="permutation", options={"walks": 1}, budget=10)
    with pytest.raises(HeadwiseError, match=r"budget: .* of en have no value by permutation"):
        ITERATIVE.run(replace(plan, scoring=scoring, rankings=["permutation"]), tmp_path)


def test_area_removable_heads_and_best_point_of_a_curve() -> None:
    curve = Curve("zh", "stars", removed=(0, 4, 8, 10), value=(80.0, 84.0, 79.0, 10.0))
    # Mean heights 82 and 81.5 over four tenths each, 44.5 over the last two tenths.
    assert area(curve) == pytest.approx(0.4 * 82 + 0.4 * 81.5 + 0.2 * 44.5)
    assert removable(curve) == 8
    assert removable(replace(curve, value=(80.0, 84.0, 78.9, 10.0))) == 4
    assert removable(replace(curve, value=(80.0, 60.0, 79.5, 10.0))) == 8
    assert best(curve) == (4, 84.0)
    assert best(replace(curve, value=(80.0, 80.0, 79.0, 10.0))) == (0, 80.0)


def test_tables_of_areas_removable_heads_and_best_points() -> None:
    lines = (
        Curve("zh", "stars", (0, 5, 10), (80.0, 82.0, 40.0), (79.0, 81.0, 39.0), (81.0, 83.0, 41.0)),
        Curve("zh", "random", (0, 5, 10), (80.0, 60.0, 40.0), (80.0, 50.0, 40.0), (80.0, 70.0, 40.0)),
        Curve("tr", "stars", (0, 5, 10), (70.0, 69.5, 30.0), (69.0, 68.0, 29.0), (71.0, 70.0, 31.0)),
        Curve("tr", "random", (0, 5, 10), (70.0, 50.0, 30.0), (70.0, 45.0, 30.0), (70.0, 55.0, 30.0)),
    )
    study = IterativeStudy(Path(), "accuracy", lines, {}, {}, ())
    assert study.sections()[0].headline == (
        "5 of 10 heads can be removed for at most 1 point of accuracy, on average over 2 languages, if stars ranks "
        "them; 0 with random."
    )
    areas, limits, tops, points = study.tables()
    assert areas.columns == ("language", "none", "stars", "random")
    assert areas.rows == (("zh", 80.0, 71.0, 60.0), ("tr", 70.0, 59.75, 50.0), ("mean", 75.0, 65.375, 55.0))
    assert limits.columns == ("language", "all", "stars", "random")
    assert limits.rows == (("zh", 10, 5, 0), ("tr", 10, 5, 0))
    assert tops.columns == ("language", "none", "ranking", "off", "best")
    assert tops.rows[:2] == (("zh", 80.0, "stars", 5, 82.0), ("zh", 80.0, "random", 0, 80.0))
    assert tops.rows[2:] == (("tr", 70.0, "stars", 0, 70.0), ("tr", 70.0, "random", 0, 70.0))
    assert "upper bound" in limits.note
    assert "upper bound" in tops.note
    assert points.rows[1] == ("zh", "stars", 5, 82.0, 81.0, 83.0)
    assert (len(points.rows), points.printed) == (12, False)


def test_tables_name_the_kind_of_players() -> None:
    lines = (Curve("zh", "stars", (0, 5), (80.0, 40.0), (79.0, 39.0), (81.0, 41.0)),)
    for kind, noun in (("heads", "head"), ("ffn", "feed-forward block"), ("layers", "layer")):
        scores = {"zh": replace(scores_of([1, 2], "++"), kind=cast(PlayerKind, kind))}
        areas, limits, _, points = IterativeStudy(Path(), "accuracy", lines, scores, {}, ()).tables()
        assert f"{noun}s removed" in areas.title
        assert f"{noun}s removable" in limits.title
        assert f"{noun}s removed" in points.title


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rankings": ("stars", "shap")}, "rankings: there is no method 'shap'"),
        ({"rankings": "stars,random"}, "rankings: a list of methods"),
        ({"rankings": []}, "rankings: a list of methods"),
        ({"rankings": ["stars", "random", "stars"]}, "rankings: 'stars' occurs twice"),
        ({"rankings": ["michel"]}, "rankings: the method 'stars' is missing"),
        ({"step": 0}, "step: a whole number"),
        ({"step": "six"}, "step: a whole number"),
        ({"step": None}, "step: a whole number"),
        ({"randoms": 0}, "randoms: a whole number"),
        ({"resamples": 1.5}, "resamples: a whole number"),
        ({"limit_test": 0}, "limit_test: a whole number"),
    ],
)
def test_mistakes_in_plans_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        IterativePlan(ScoringPlan("m", "pos", "d"), **fields)


def test_plans_come_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "study: iterative\nmodel: m\ntask: pos\ndata: d\nmethod: tmab\nrankings: [tmab, random]\nstep: 12\n"
        "limit_test: 50\ntest_split: dev2\n"
    )
    scoring = ScoringPlan("m", "pos", "d", method="tmab")
    assert find_plan(str(path)) == IterativePlan(
        scoring, rankings=["tmab", "random"], step=12, limit_test=50, test_split="dev2"
    )
    shipped = find_plan("curves")
    assert type(shipped) is IterativePlan
    assert list(shipped.rankings) == ["stars", "permutation", "tmab", "michel", "random"]
    assert shipped.points(144)[-2:] == (138, 144)


def test_the_command_prints_tables_and_writes_csv_json_and_a_page(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "mine.yaml", tmp_path / "run"
    path.write_text(
        f"study: iterative\nmodel: {world / 'model'}\ntask: pos\ndata: {world / 'data'}\nlanguages: en,sw\n"
        f"budget: 600\noptions: {json.dumps(OPTIONS)}\nrankings: [stars, michel, random]\nstep: 4\nrandoms: 2\n"
        "resamples: 100\n"
    )
    assert run(monkeypatch, "study", path, "--out", out) == 0
    shown = capsys.readouterr().out
    assert "mean" in shown
    assert "removable" in shown
    assert "upper bound" in shown
    assert shown.count(" language ") == 3, "the long table is only written to a file"
    assert run(monkeypatch, "study", path, "--out", out, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures == json.loads((out / "iterative.json").read_text())
    assert (figures["format"], figures["version"]) == ("headwise-iterative-study", 1)

    with (out / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    first = figures["curves"][0]
    kept = [row for row in rows if (row["language"], row["ranking"]) == (first["language"], first["ranking"])]
    assert [int(row["removed"]) for row in kept] == first["removed"]
    assert [float(row["value"]) for row in kept] == first["value"]
    assert {path.name for path in out.glob("*.csv")} == {"iterative.csv", "removable.csv", "best.csv", "curves.csv"}

    assert run(monkeypatch, "report", out) == 0
    page = read((out / "report.html").read_text())
    drawn = page.all("polyline")
    assert [each.attributes["data-name"] for each in drawn] == ["stars", "michel", "random"] * 2
    assert len(page.all("polygon")) == 6
    points = (drawn[0].attributes["points"] or "").split()
    assert points == [f"{n},{value:.1f}" for n, value in zip(first["removed"], first["value"], strict=True)]
    assert report_of(out).scores["en"].provenance.method == "stars"
