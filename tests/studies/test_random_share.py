"""Random shares of heads: sizes and independence of the draws, drops by group, and claims from planted drops."""

import copy
import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from headwise import HeadMap, HeadwiseError, shrink
from headwise.engine.evaluation import evaluate
from headwise.report import write_report
from headwise.scoring import ScoringPlan, Setting
from headwise.studies import report_of
from headwise.studies.group_tables import Groups, drop_table, find_groups
from headwise.studies.random_share import RANDOM_SHARE, RandomSharePlan, claims, random_mask
from headwise.studies.resampled import Resampled, resample
from headwise.studies.tuned_study import TunedStudy
from headwise.tasks import Task
from headwise.tasks.metrics import Accuracy
from headwise.tuning import tune
from headwise.tuning.untuned import load_untuned
from tests.studies.planted import PLANTED

PAPER_LANGUAGES = ("en", "es", "de", "vi", "zh", "hi", "el", "ur", "ar", "tr", "sw")


@pytest.fixture(scope="module")
def plan(planted: Path) -> RandomSharePlan:
    return RandomSharePlan(
        ScoringPlan(str(planted / "model"), "pos", str(planted / "data"), "en,es,tr"),
        draws=2, shares=[0.25, 0.5, 0.9], epochs=1, learning_rate=1e-4, resamples=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def study(plan: RandomSharePlan, tmp_path_factory: pytest.TempPathFactory) -> TunedStudy:
    return RANDOM_SHARE.run(plan, tmp_path_factory.mktemp("run") / "study")


def setting_of(plan: RandomSharePlan) -> Setting:
    return load_untuned(plan.scoring, "en")[0]


def heads_of(plan: RandomSharePlan) -> HeadMap:
    return setting_of(plan).heads


def rows(study: TunedStudy, name: str) -> dict[str, dict[str, str]]:
    with (study.folder / f"{name}.csv").open() as file:
        found = list(csv.DictReader(file))
    return {next(iter(row.values())): row for row in found}


def test_masks_have_the_share_and_are_independent(plan: RandomSharePlan) -> None:
    heads = heads_of(plan)
    masks = {(percent, draw): random_mask(heads, percent, draw, 0) for percent in (25, 50, 90) for draw in range(3)}
    for (percent, _), mask in masks.items():
        assert mask is not None
        assert len(mask.off) == round(percent / 100 * 12)
    offs = {key: set(mask.off) for key, mask in masks.items() if mask is not None}
    assert not offs[25, 0] <= offs[50, 0] or not offs[25, 1] <= offs[50, 1], "sets of different shares are not nested"
    assert len({frozenset(offs[50, draw]) for draw in range(3)}) == 3
    assert random_mask(heads, 50, 1, 0) == random_mask(heads, 50, 1, 0)
    assert random_mask(heads, 0, 0, 0) is None


def test_every_head_is_equally_likely(plan: RandomSharePlan) -> None:
    heads = heads_of(plan)
    masks = [random_mask(heads, 25, draw, 0) for draw in range(400)]
    removed = np.array([[name in mask.off for name in mask.players] for mask in masks if mask is not None]).mean(0)
    assert removed.min() > 0.16
    assert removed.max() < 0.34


def test_a_value_is_the_mean_of_pruned_and_tuned_models(plan: RandomSharePlan, study: TunedStudy) -> None:
    setting, values = setting_of(plan), []
    assert isinstance(setting.task, Task)
    for draw in range(2):
        mask = random_mask(setting.heads, 50, draw, 0)
        assert mask is not None
        small = shrink(copy.deepcopy(setting.model), mask)
        tuned = tune(small, setting.tokenizer, setting.dataset, setting.task, ("en",), settings=plan.settings(draw))
        values.append(
            evaluate(tuned.model, setting.task, setting.dataset.examples("tr", "test"), setting.tokenizer).value
        )
    row = rows(study, "random-share-languages")["tr"]
    assert float(row["50%"]) == pytest.approx(np.mean(values))
    assert float(row["50% sd"]) == pytest.approx(np.std(values, ddof=1))


def test_the_loss_comes_from_the_planted_heads(plan: RandomSharePlan, study: TunedStudy) -> None:
    heads = heads_of(plan)

    def kept(percent: int) -> list[int]:
        masks = [random_mask(heads, percent, draw, 0) for draw in range(2)]
        return [sum(name.startswith(f"encoder.{PLANTED}.") for name in heads.players() if name not in mask.off)
                for mask in masks if mask is not None]  # fmt: skip

    assert max(kept(90)) <= 1 < 2 <= min(kept(25)), "with another seed this would test nothing"
    row = rows(study, "random-share-paper")
    for group in ("in-language", "cross-language", "SVO", "Agglutinative", "high", "medium"):
        assert float(row["0%"][group]) == 0
        assert abs(float(row["25%"][group])) < 3
        assert float(row["90%"][group]) > 15


def test_report_and_figures_load(study: TunedStudy, tmp_path: Path) -> None:
    assert RANDOM_SHARE.load(study.folder) == study
    write_report(tmp_path / "report.html", report_of(study.folder))
    page = (tmp_path / "report.html").read_text()
    assert "Relative drop by group" in page
    assert "% of heads removed" in page
    [plot] = study.curves
    assert {curve.language for curve in plot.curves} == {
        "word order (paper)", "resources (paper)", "word order (typology)", "resources (typology)", "transfer",
    }  # fmt: skip
    assert all(curve.removed == (0, 25, 50, 90) and curve.value[0] == 0 for curve in plot.curves)
    beside = rows(study, "random-share")
    assert beside["50%"]["paper: cross-language"] == "5"
    assert beside["90%"]["paper: in-language"] == "7.5"


def planted_drops(drops: Mapping[str, float], base: float = 0.8, examples: int = 1000, draws: int = 3) -> Resampled:
    """Languages that lose the given percent of their accuracy at 20%, at 50% and at 90%."""
    generator = np.random.default_rng(0)
    measured = {}
    for language, drop in drops.items():
        luck = generator.uniform(size=examples)
        for place, condition in enumerate(("0%", "20%", "50%", "90%")):
            for draw in range(draws):
                right = luck + generator.normal(0, 0.01, examples) < base * (1 - (0, 0.2, 1, 2)[place] * drop / 100)
                measured[language, condition, draw] = np.stack([right, np.ones(examples)], axis=1).astype(float)
    ids = {language: tuple(map(str, range(examples))) for language in drops}
    return resample(measured, ids, Accuracy(), 300)


def verdicts(drops: Mapping[str, float]) -> dict[str, str]:
    plan = RandomSharePlan(ScoringPlan("m", "nli", "/nowhere"), shares=[0.2, 0.5, 0.9], resamples=2000)
    groups = find_groups(plan, list(drops))
    return {claim.text: claim.verdict for claim in claims(plan, planted_drops(drops), groups)}


def by_words(found: Mapping[str, str], *words: str) -> str:
    [verdict] = [verdict for text, verdict in found.items() if all(word in text for word in words)]
    return verdict


def test_planted_drops_of_the_paper_are_confirmed() -> None:
    far = {"SVO": 4.0, "SOV": 8.0, "VSO": 10.0, "Agglutinative": 14.0}
    plan = RandomSharePlan(ScoringPlan("m", "nli", "/nowhere"))
    order = find_groups(plan, PAPER_LANGUAGES).groupings[0]
    found = verdicts({code: 1.0 if code == "en" else far[order.classes[code]] for code in PAPER_LANGUAGES})
    assert by_words(found, "Cross-language results suffer more") == "yes"
    assert by_words(found, "word order", "paper") == "yes"
    assert by_words(found, "Without 20%") == "yes"


def test_planted_drops_against_the_paper_are_refuted() -> None:
    plan = RandomSharePlan(ScoringPlan("m", "nli", "/nowhere"))
    order = find_groups(plan, PAPER_LANGUAGES).groupings[0]
    found = verdicts(
        {code: 30.0 if code == "en" else 22.0 - 3 * (order.distance(code) or 0) for code in PAPER_LANGUAGES}
    )
    assert by_words(found, "Cross-language results suffer more") == "no"
    assert by_words(found, "word order", "paper") == "no"
    assert by_words(found, "Without 20%") == "no"


def test_equal_drops_leave_claims_undecided() -> None:
    found = verdicts(dict.fromkeys(PAPER_LANGUAGES, 5.0))
    assert by_words(found, "Cross-language results suffer more") == "undecided"
    assert by_words(found, "word order", "paper") == "undecided"


def test_groups_without_a_typology_table_say_so() -> None:
    plan = RandomSharePlan(ScoringPlan("m", "nli", "/nowhere"))
    groups = find_groups(plan, PAPER_LANGUAGES)
    assert groups.sources == ("paper",)
    assert "give a file as 'typology'" in groups.notes[0]
    with pytest.raises(HeadwiseError, match="cannot be read"):
        find_groups(dataclasses.replace(plan, typology="/nowhere.tsv"), PAPER_LANGUAGES)


def test_the_table_of_the_paper_groups_greek_as_sov(tmp_path: Path) -> None:
    table = tmp_path / "languages.tsv"
    table.write_text(
        "code\tword_order_81A\tresource_level\nen\tSVO\thigh\nel\tNo dominant order\tmedium\nsw\tSVO\tlow\n"
    )
    plan = RandomSharePlan(ScoringPlan("m", "nli", "/nowhere"), typology=str(table))
    groups = find_groups(plan, ["en", "el", "sw"])
    paper, _, typology, _ = groups.groupings
    assert paper.classes["el"] == "SOV"
    assert typology.classes["el"] == "No dominant order"
    assert (typology.distance("el"), typology.distance("sw")) == (1, 0)
    assert groups.members("paper") == {
        "SVO": ("en",), "SOV": ("el",), "Agglutinative": ("sw",), "high": ("en",), "low": ("el", "sw"),
        "in-language": ("en",), "cross-language": ("el", "sw"),
    }  # fmt: skip


def test_drops_of_groups_are_means_of_relative_losses() -> None:
    values = np.array([[[80.0], [60.0]], [[50.0], [45.0]], [[40.0], [30.0]]])  # (languages, conditions, draws)
    found = Resampled(("en", "de", "hi"), ("0%", "50%"), values, values[None, ..., 0])
    plan = RandomSharePlan(ScoringPlan("m", "nli", "/nowhere"))
    groups: Groups = find_groups(plan, ["en", "de", "hi"])
    table = drop_table("t", "", found, groups, "paper")
    assert table.columns == ("removed", "SVO", "SOV", "high", "low", "in-language", "cross-language")
    assert table.rows[1][1:] == pytest.approx((17.5, 25.0, 17.5, 25.0, 25.0, 17.5))


@pytest.mark.parametrize("shares", [[], [0.5, 0.1], [0.0, 0.5], [0.5, 1.0], [0.333]])
def test_shares_must_be_increasing_percents(shares: list[float]) -> None:
    with pytest.raises(HeadwiseError, match="shares"):
        RandomSharePlan(ScoringPlan("m", "pos", "d"), shares=shares)
