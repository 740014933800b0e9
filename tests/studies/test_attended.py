"""Attention for the report: faithful weights, short sentences, the same ones in aligned languages."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise import HeadwiseError, find_heads
from headwise.data.examples import (
    Example,
    PairExample,
    PromptExample,
    TextExample,
    TranslationExample,
    WordExample,
)
from headwise.methods.head_scores import UNDECIDED
from headwise.models import load_model, load_tokenizer
from headwise.report import ComparedRun
from headwise.runs import open_run
from headwise.scores import HeadScores, Provenance
from headwise.studies.attended import TOKENS, _choose, run_attention, text_of_example
from headwise.studies.page import compared_runs, report_of

LANGUAGES = ("en", "ar", "hi")


@pytest.fixture(scope="module")
def run(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scoring run of the planted tagger with invented values."""
    folder = tmp_path_factory.mktemp("attended") / "run"
    heads = find_heads(load_model(planted / "model"))
    players, rng = heads.players(), np.random.default_rng(0)
    config = {"model": str(planted / "model"), "task": "pos", "data": str(planted / "data"), "split": "dev", "seed": 0}
    with open_run(folder, config):
        for language in LANGUAGES:
            n, origin = len(players), Provenance("stars", "full", language=language, fingerprint=heads.fingerprint)
            value = tuple(rng.normal(size=n).tolist())
            scores = HeadScores(players, value, (0.1,) * n, (9,) * n, UNDECIDED * n, origin)
            scores.save(folder / "scores" / f"{language}.json")
    return folder


def scores_of(run: Path) -> dict[str, HeadScores]:
    return {language: HeadScores.load(run / "scores" / f"{language}.json") for language in LANGUAGES}


def test_weights_are_those_of_transformers_on_the_first_sentences(run: Path, planted: Path) -> None:
    view = run_attention(run, scores_of(run), 2)
    assert [each.label for each in view.sentences] == ["en", "en", "ar", "ar", "hi", "hi"]
    assert view.heads == scores_of(run)["en"].players, "all heads of a small model fit"
    model, tokenizer = load_model(planted / "model"), load_tokenizer(planted / "model")
    model.set_attn_implementation("eager")
    for place, found in enumerate(view.sentences):
        text = " ".join(found.source.tokens)
        assert f"-{found.label}" in text
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        for name, weights in found.weights.items():
            _, layer, head = name.split(".")
            np.testing.assert_allclose(weights, expected[int(layer)][0, int(head)], atol=1e-5)
            assert view.weights(name, place) is weights


def test_aligned_languages_have_the_same_sentences(run: Path) -> None:
    view = run_attention(run, scores_of(run), 2)
    kinds = [
        tuple(token.split("-")[0] for token in view.sentences[place].source.tokens) for place in range(6)
    ]  # without the language of each word
    assert kinds[0::2] == [kinds[0]] * 3
    assert kinds[1::2] == [kinds[1]] * 3


def test_few_heads_are_chosen_if_the_page_would_be_too_large(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.studies.attended.MOST_CHARACTERS", 4 * 3 * 6 * 6 * 4 / 3)
    view = run_attention(run, scores_of(run), 1)
    lowest = {each.ranked()[0] for each in scores_of(run).values()}
    assert len(view.heads) == 4
    assert lowest & set(view.heads)


def examples(*ids: str) -> list[Example]:
    return [TextExample(each, each) for each in ids]


def test_short_sentences_come_first_then_the_shortest() -> None:
    long = TOKENS + 9
    found = _choose({"a": examples("0", "1", "2", "3")}, {"a": [long, 5, 9, long - 1]}, 3)
    assert [each.id for each in found["a"]] == ["1", "2", "3"]
    both = {"a": examples("0", "1"), "b": examples("0", "1")}
    aligned = _choose(both, {"a": [5, 9], "b": [long, 9]}, 1)
    assert [each.id for found in aligned.values() for each in found] == ["1", "1"]
    apart = _choose({**both, "b": examples("7", "8")}, {"a": [5, 9], "b": [long, 9]}, 1)
    assert [each.id for found in apart.values() for each in found] == ["0", "8"]


@pytest.mark.parametrize(
    ("example", "text"),
    [
        (WordExample("1", ("the", "run"), ("DET", "NOUN")), ("the run", "")),
        (PairExample("1", "It rains.", "It is dry.", "contradiction"), ("It rains.", "")),
        (PromptExample("1", "Two and two are", "four."), ("Two and two are four.", "")),
        (TranslationExample("1", "Hallo", "hello"), ("Hallo", "hello")),
    ],
)
def test_the_text_of_every_kind_of_example(example: Example, text: tuple[str, str]) -> None:
    assert text_of_example(example) == text


def test_other_weights_and_other_players_are_refused(run: Path) -> None:
    scores = scores_of(run)
    other = {
        language: dataclasses.replace(each, provenance=dataclasses.replace(each.provenance, fingerprint="abc"))
        for language, each in scores.items()
    }
    with pytest.raises(HeadwiseError, match="has other weights than the model whose heads were scored"):
        run_attention(run, other)
    layers = {language: dataclasses.replace(each, kind="layers") for language, each in scores.items()}
    with pytest.raises(HeadwiseError, match="only heads have attention"):
        run_attention(run, layers)
    with pytest.raises(HeadwiseError, match="attention"):
        run_attention(run, scores, -1)


def test_a_report_compares_runs_of_the_same_heads(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.copytree(run, tmp_path / "other")
    found = compared_runs(run, scores_of(run), [tmp_path / "run", tmp_path / "other"])
    assert [each.name for each in found] == [str(tmp_path / "run"), "other"], "the name of the run itself is taken"
    assert found[1] == ComparedRun("other", scores_of(run))
    small = HeadScores(("encoder.9.9",), (0.1,), (0.1,), (9,), ("undecided",), Provenance("stars", "full"))
    with pytest.raises(HeadwiseError, match=r"has scores of other heads, such as encoder\.0\.0"):
        compared_runs(run, {"en": small}, [tmp_path / "other"])
    with pytest.raises(HeadwiseError, match="has no scores that"):
        compared_runs(run, {}, [tmp_path / "other"])
    with pytest.raises(HeadwiseError, match="not a run folder"):
        report_of(tmp_path / "nowhere")
