"""Games without labels: against plain loops, with planted harm, and without a look at labels of the target language."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.data.aligner import align_words
from headwise.data.dataset import Dataset
from headwise.methods import Problem
from headwise.scoring import ScoringPlan, make_problems, make_setting
from tests.cli.running import run
from tests.scoring.unlabelled_world import (
    HARMFUL,
    LABELS,
    answers,
    parallel_texts,
    random_texts,
    save_classifier,
    save_texts,
)
from tests.scoring.world import WORDS, save_model

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, list[str], list[str], Path]:
    """A classifier, its tokenizer, source texts, target texts, and the folder of both without labels."""
    folder = tmp_path_factory.mktemp("unlabelled")
    model, tokenizer = hw.load(save_classifier(folder / "model"))
    source, target = parallel_texts(model, tokenizer)
    return model, tokenizer, source, target, save_texts(folder / "data", {"en": source, "sw": target})


def problems(model: Any, tokenizer: Any, data: Dataset, game: str, task: str = "intents") -> dict[str, Problem]:
    setting = make_setting(model, tokenizer, data, task)
    return make_problems(ScoringPlan("tiny", task, "data", "sw", game=game), setting)[0]


def logits_of(model: Any, tokenizer: Any, text: str, on: Array) -> torch.Tensor:
    """The logits of a text under a mask, by the model alone."""
    heads = hw.find_heads(model)
    names = heads.players("heads")
    mask = hw.HeadMask.without(heads, [name for name, keep in zip(names, on, strict=True) if not keep])
    with torch.no_grad(), hw.gated(model, mask, heads=heads):
        found: torch.Tensor = model(**tokenizer(text, return_tensors="pt")).logits[0]
    return found


@pytest.fixture(scope="module")
def masks() -> Array:
    return np.random.default_rng(3).random((3, 12)) < 0.6


def measured(problem: Problem, masks: Array) -> Array:
    """The values of all examples under each mask, (masks, examples)."""
    index, engine = np.arange(len(problem.examples)), problem.engine()
    return np.array([engine.values(np.tile(on, (len(index), 1)), index).values.numpy() for on in masks])


def test_values_are_those_of_a_plain_loop(world: tuple[Any, ...], masks: Array) -> None:
    model, tokenizer, source, target, folder = world
    data, gold = hw.open_dataset(folder, task="intents"), answers(model, tokenizer, source)
    assert len(set(gold)) > 1
    expected: dict[str, list[list[float]]] = {"agreement": [], "top-probability": [], "negative-entropy": []}
    for on in masks:
        found = torch.stack([logits_of(model, tokenizer, text, on) for text in target]).softmax(-1)
        expected["agreement"].append([float(p[LABELS.index(a)]) for p, a in zip(found, gold, strict=True)])
        expected["top-probability"].append([max(p.tolist()) for p in found])
        expected["negative-entropy"].append([sum(float(q * q.log()) for q in p) / np.log(len(LABELS)) for p in found])
    for game, values in expected.items():
        problem = problems(model, tokenizer, data, game)["sw"]
        np.testing.assert_allclose(measured(problem, masks), values, atol=1e-5)


def test_answers_in_the_source_language_are_found_in_bfloat16(world: tuple[Any, ...]) -> None:
    model, tokenizer, _, _, folder = world
    setting = make_setting(model, tokenizer, hw.open_dataset(folder, task="intents"), "intents")
    plans = [ScoringPlan("tiny", "intents", "data", "sw", game="agreement", bfloat16=each) for each in (False, True)]
    exact, rough = ([each.gold for each in make_problems(plan, setting)[0]["sw"].examples.encoded] for plan in plans)
    assert np.mean([a == b for a, b in zip(exact, rough, strict=True)]) > 0.8


def test_labels_of_the_target_are_never_read(world: tuple[Any, ...], masks: Array) -> None:
    model, tokenizer, source, target, folder = world
    draw = np.random.default_rng(4)
    rows = {
        code: [{**row, "label": str(draw.choice(LABELS))} for row in rows_of(texts, "n")]
        for code, texts in (("en", source), ("sw", target))
    }
    labelled, bare = hw.dataset(rows, task="intents"), hw.open_dataset(folder, task="intents")
    for game in ("agreement", "top-probability", "negative-entropy"):
        one, other = (problems(model, tokenizer, data, game)["sw"] for data in (labelled, bare))
        np.testing.assert_array_equal(measured(one, masks), measured(other, masks))
        assert one.data == other.data
    with pytest.raises(hw.HeadwiseError, match="the example n0 has no label"):
        problems(model, tokenizer, bare, "probability")


def test_agreement_finds_and_removes_a_head_that_changes_answers(world: tuple[Any, ...]) -> None:
    model, tokenizer, source, target, folder = world
    before = np.mean(
        [a == b for a, b in zip(*(answers(model, tokenizer, each) for each in (source, target)), strict=True)]
    )
    assert before < 1
    options: dict[str, Any] = {"task": "intents", "languages": ["sw"], "progress": False, "game": "agreement"}
    data = str(folder)
    found = hw.score(model, tokenizer, data, method="leave-one-out", budget=2_000, **options)["sw"]
    assert found.ranked()[0] == HARMFUL
    scores = hw.score(model, tokenizer, data, budget=4_000, **options)
    refined = hw.refine(scores, progress=False)["sw"]
    after = np.mean(
        [
            a == b
            for a, b in zip(
                answers(model, tokenizer, source), answers(model, tokenizer, target, refined.off), strict=True
            )
        ]
    )
    assert after > before


def test_another_source_language_and_items_without_a_source(world: tuple[Any, ...], tmp_path: Path) -> None:
    model, tokenizer, source, target, _ = world
    data = hw.open_dataset(save_texts(tmp_path / "data", {"de": source[:20], "sw": target}), task="intents")
    setting = make_setting(model, tokenizer, data, "intents")
    found, notes = make_problems(ScoringPlan("tiny", "intents", "data", "sw", game="agreement(de)"), setting)
    assert len(found["sw"].examples) == 20
    assert found["sw"].game.name == "agreement(de)"
    assert "sw: only 20 of 24 items are also in de." in notes
    gold = [LABELS[int(label)] for label in found["sw"].examples.gold]
    assert gold == answers(model, tokenizer, source[:20])
    with pytest.raises(hw.HeadwiseError, match="has no language 'en'"):
        problems(model, tokenizer, data, "agreement")
    apart = hw.dataset({"en": rows_of(source, "e"), "sw": rows_of(target, "s")}, task="intents")
    with pytest.raises(hw.HeadwiseError, match="sw shares no item with en"):
        problems(model, tokenizer, apart, "agreement")


def rows_of(texts: list[str], prefix: str) -> list[dict[str, str]]:
    """Dev examples and one test example."""
    found = [{"id": f"{prefix}{n}", "text": text, "split": "dev"} for n, text in enumerate(texts)]
    return [*found, {"id": "last", "text": "a b c", "split": "test"}]


def test_answers_for_words_follow_the_word_alignment(tmp_path: Path, masks: Array) -> None:
    model, tokenizer = hw.load(save_model(tmp_path / "model"))
    draw, words = np.random.default_rng(5), list(WORDS)
    source = [draw.choice(words[:3], size, replace=False).tolist() for size in draw.integers(1, 4, 24)]
    target = [[words[3 + words.index(word)] for word in reversed(each)] for each in source]
    rows = {
        code: [
            {"id": f"n{n}", "words": each, "split": "test" if n == 24 else "dev"}
            for n, each in enumerate([*texts, ["cat"]])
        ]
        for code, texts in (("en", source), ("sw", target))
    }
    data = hw.dataset(rows, task="pos")
    problem = problems(model, tokenizer, data, "agreement", "pos")["sw"]
    values, whole = measured(problem, masks), np.ones(12, dtype=bool)
    linked = 0
    for place, links in enumerate(align_words(source, target)):
        gold = logits_of(model, tokenizer, " ".join(source[place]), whole).argmax(-1).tolist()
        for row, on in enumerate(masks):
            found = logits_of(model, tokenizer, " ".join(target[place]), on).softmax(-1)
            each = [float(found[to, gold[by]]) for by, to in links.tolist()]
            assert values[row, place] == pytest.approx(np.mean(each) if each else 0, abs=1e-5)
        linked += len(links)
    assert linked > 0.9 * sum(map(len, source))


def test_methods_that_need_labels_and_comparisons_are_refused(world: tuple[Any, ...]) -> None:
    model, tokenizer, _, _, folder = world
    options: dict[str, Any] = {"task": "intents", "languages": ["sw"], "progress": False}
    with pytest.raises(
        hw.HeadwiseError, match="'top-probability' has no labels, but the value 'log-likelihood' needs them"
    ):
        hw.score(model, tokenizer, str(folder), method="michel", game="top-probability", **options)
    hw.score(model, tokenizer, str(folder), method="michel", game="agreement", **options)
    scores = hw.score(model, tokenizer, str(folder), game="top-probability", budget=2_000, **options)
    with pytest.raises(hw.HeadwiseError, match="metric of labelled examples"):
        hw.best_mask(scores, "sw", progress=False)
    with pytest.raises(hw.HeadwiseError, match="game: must be one of accuracy"):
        hw.score(model, tokenizer, str(folder), game="agreement(", **options)


def test_entities_have_no_agreement(tmp_path: Path) -> None:
    model, tokenizer = hw.load(save_classifier(tmp_path / "model", "AutoModelForTokenClassification"))
    model.config.id2label = {0: "O", 1: "B-city", 2: "I-city"}
    rows = [{"id": f"n{split}", "words": ["a", "b"], "split": split} for split in ("dev", "test")]
    with pytest.raises(
        hw.HeadwiseError, match="agreement is for labels of whole texts and for parts of speech, not for slots"
    ):
        problems(model, tokenizer, hw.dataset({"en": rows, "sw": rows}, task="slots"), "agreement", "slots")


def test_the_command_line_scores_data_without_labels(
    world: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _, _, _, folder = world
    given = ["score", model.name_or_path, "--task", "intents", "--data", folder, "--languages", "sw", "--budget", 1500]
    for game in ("agreement", "negative-entropy"):
        out = tmp_path / game
        assert run(monkeypatch, *given, "--game", game, "--out", out) == 0
        assert hw.HeadScores.load(out / "scores" / "sw.json").provenance.game == game
        assert run(monkeypatch, *given, "--game", game, "--out", out) == 0  # finished: opened and shown again
    capsys.readouterr()


def test_masked_tokens_are_predicted(tmp_path: Path, masks: Array) -> None:
    model, tokenizer = hw.load(save_classifier(tmp_path / "model", "AutoModelForMaskedLM"))
    texts = [*random_texts(12, seed=6), "a", "b c d e f g h i j k l m n o p q r s t a"]
    data = hw.dataset({"sw": rows_of(texts, "s")}, task="masked-lm")
    problem = problems(model, tokenizer, data, "log-likelihood", "masked-lm")["sw"]
    values = measured(problem, masks)
    for place, (text, encoded) in enumerate(zip(texts, problem.examples.encoded, strict=True)):
        ids = tokenizer(text)["input_ids"]
        hidden = [n for n, each in enumerate(encoded.ids) if each == tokenizer.mask_token_id]
        assert len(hidden) == max(1, round(0.15 * (len(ids) - 2)))
        assert [each if n not in hidden else ids[n] for n, each in enumerate(encoded.ids)] == ids
        names = problem.heads.players("heads")
        for row, on in enumerate(masks):
            off = [name for name, keep in zip(names, on, strict=True) if not keep]
            with torch.no_grad(), hw.gated(model, hw.HeadMask.without(problem.heads, off)):
                logs = model(input_ids=torch.tensor([encoded.ids])).logits[0].log_softmax(-1)
            expected = np.mean([float(logs[n, ids[n]]) for n in hidden])
            assert values[row, place] == pytest.approx(expected, abs=1e-4)
    same = hw.evaluate(model, tokenizer, data, task="masked-lm", languages="sw", split="dev", progress=False)
    assert same["sw"].results[0].metric == "accuracy"


def test_a_classifier_is_no_masked_language_model(world: tuple[Any, ...]) -> None:
    model, tokenizer, _, target, _ = world
    with pytest.raises(hw.HeadwiseError, match="cannot do the task masked-lm"):
        problems(
            model, tokenizer, hw.dataset({"sw": rows_of(target, "s")}, task="masked-lm"), "probability", "masked-lm"
        )
