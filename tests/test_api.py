"""The main job in Python, on objects in hand and on names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForTokenClassification, AutoTokenizer

import headwise as hw
from headwise.language_results import ScoresByLanguage
from headwise.scoring import ScoringPlan, run_scoring
from headwise.scoring.plan import plan_of
from tests.scoring.world import save_data, save_model

OPTIONS: dict[str, Any] = {"budget": 1200, "options": {"bases": 4, "flips": 6}, "progress": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_model(folder / "model")
    save_data(folder / "data")
    return folder


@pytest.fixture(scope="module")
def objects(folder: Path) -> tuple[Any, Any, Any]:
    model = AutoModelForTokenClassification.from_pretrained(folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    return model, tokenizer, hw.open_dataset(folder / "data", task="pos")


@pytest.fixture(scope="module")
def scores(objects: tuple[Any, Any, Any]) -> ScoresByLanguage:
    return hw.score(*objects, languages=["en", "sw"], **OPTIONS)


def test_the_six_lines_of_the_first_page(objects: tuple[Any, Any, Any], scores: ScoresByLanguage) -> None:
    model, tokenizer, data = objects
    mask = scores["sw"].mask(count=3)
    small = hw.shrink(model, mask)
    found = hw.evaluate(small, tokenizer, data, languages=["sw"], progress=False)
    masked = hw.evaluate(model, tokenizer, data, languages="sw", mask=mask, progress=False)
    assert found["sw"].results[0].value == masked["sw"].results[0].value
    assert repr(found).splitlines()[0].split() == ["language", "accuracy", "95%", "interval", "examples"]
    assert "<table>" in found._repr_html_()


def test_objects_and_names_give_the_same_scores(
    folder: Path, objects: tuple[Any, Any, Any], scores: ScoresByLanguage
) -> None:
    named = hw.score(folder / "model", data=str(folder / "data"), task="pos", languages="en,sw", **OPTIONS)
    assert {language: each.value for language, each in named.items()} == {
        language: each.value for language, each in scores.items()
    }


def test_a_run_folder_holds_what_the_command_line_would_have_found(
    folder: Path, objects: tuple[Any, Any, Any], scores: ScoresByLanguage, tmp_path: Path
) -> None:
    kept = hw.score(*objects, languages=["en", "sw"], out=tmp_path / "run", **OPTIONS)
    plan = ScoringPlan(str(folder / "model"), "pos", str(folder / "data"), "en,sw", budget=1200,
                       options=OPTIONS["options"])  # fmt: skip
    alone = run_scoring(plan, tmp_path / "alone").scores
    for language in ("en", "sw"):
        assert kept[language].value == scores[language].value == alone[language].value
        assert hw.HeadScores.load(tmp_path / "run" / "scores" / f"{language}.json") == kept[language]


@pytest.mark.parametrize("given", ["name", "path", "data set"])
def test_a_run_opens_its_data_again(folder: Path, tmp_path: Path, given: str) -> None:
    model, data = str(folder / "model"), folder / "data"
    opened: dict[str, Any] = {"name": str(data), "path": data, "data set": hw.open_dataset(data, task="pos")}
    hw.score(model, data=opened[given], task="pos", languages=["en"], out=tmp_path / "run", **OPTIONS)
    plan = plan_of(tmp_path / "run")
    assert (plan.model, plan.data) == (model, str(data))
    with hw.explore(tmp_path / "run", limit=1) as explorer:
        assert list(explorer.session.examples) == ["en"]


def test_scores_are_a_table_with_what_is_likely_harmful(scores: ScoresByLanguage) -> None:
    titles, *rows = repr(scores).splitlines()
    assert titles.split() == ["language", "harmful", "helpful", "undecided", "likely", "harmful", "units"]
    assert [row.split()[0] for row in rows] == ["en", "sw"]
    assert int(rows[0].split()[4]) == len(scores["en"].mask("likely").off)
    with pytest.raises(KeyError, match="there are en, sw"):
        scores["fi"]


def test_masks_are_refined_on_the_examples_that_were_scored_on(scores: ScoresByLanguage) -> None:
    found = hw.refine(scores, languages=["sw"], rounds=3, progress=False)
    assert list(found) == ["sw"]
    found["sw"].check(scores.setting.heads)
    with pytest.raises(hw.HeadwiseError, match="languages: there are no scores of fi"):
        hw.refine(scores, languages=["fi"], progress=False)


def test_learned_gates_are_evaluated(objects: tuple[Any, Any, Any]) -> None:
    masks = hw.learn_gates(*objects, languages="en,sw", epochs=2, batch=2, players="heads", progress=False)
    assert {language: type(mask) for language, mask in masks.items()} == {"en": hw.SoftMask, "sw": hw.SoftMask}
    each = hw.evaluate(*objects, languages="en,sw", mask=masks, progress=False)
    folded = hw.fold(objects[0], masks["sw"])
    alone = hw.evaluate(folded, *objects[1:], languages="sw", progress=False)
    assert each["sw"].results[0].value == alone["sw"].results[0].value
    with pytest.raises(hw.HeadwiseError, match="the method 'soft' has no option 'ages'"):
        hw.learn_gates(*objects, languages="en", ages=2, progress=False)


def test_rows_in_python_are_tuned_on_and_evaluated(objects: tuple[Any, Any, Any]) -> None:
    model, tokenizer, _ = objects
    words = {"cat": "NOUN", "sat": "VERB", "the": "DET"}
    rows = [
        {"words": list(text), "labels": [words[word] for word in text], "language": "en", "split": split}
        for split in ("train", "dev", "test")
        for text in (("the", "cat"), ("the", "cat", "sat"), ("cat",), ("sat",))
    ]
    data = hw.dataset(rows, task="pos")
    before = [weight.clone() for weight in model.parameters()]
    tuned = hw.tune(hw.shrink(model, hw.HeadMask.without(hw.find_heads(model), ["encoder.0.1"])), tokenizer, data)
    found = hw.evaluate(tuned.model, tokenizer, data, progress=False)
    assert found["en"].results[0].examples == 4
    assert all(np.array_equal(a.detach(), b.detach()) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budgets": 3}, "budgets: there is no such option: choose from model, task"),
        ({"players": "neurons"}, "players: must be one of heads"),
        ({"budget": 3}, "budget: 3 units do not cover the first round"),
        ({"languages": "xx"}, "has no language 'xx'"),
    ],
)
def test_mistakes_name_the_argument(objects: tuple[Any, Any, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hw.HeadwiseError, match=message):
        hw.score(*objects, **{"languages": "en", "progress": False, **arguments})


def test_a_data_set_by_name_needs_its_task(objects: tuple[Any, Any, Any]) -> None:
    with pytest.raises(hw.HeadwiseError, match="task: the data set does not say its task"):
        hw.score(objects[0], objects[1], "phrasebook", progress=False)
    with pytest.raises(hw.HeadwiseError, match="tokenizer: give the tokenizer"):
        hw.score(objects[0], None, objects[2], progress=False)
