"""Model cards of pruned and folded models say how they were made; shrunk models carry the shapes of their layers."""

import json
from pathlib import Path

import pytest

from headwise import load_pruned
from headwise.models import load_model
from headwise.scores import HeadScores
from headwise.scoring import ScoringPlan
from headwise.studies import LanguageHeadsPlan, run_study
from headwise.studies.card_facts import facts_of_run
from tests.cli.running import run
from tests.studies.languages import HARMFUL, save_language_world


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = save_language_world(tmp_path_factory.mktemp("cards"), count=16)
    scoring = ScoringPlan(
        str(world / "model"),
        "lm",
        str(world / "data"),
        "en,tr",
        game="log-likelihood-per-byte",
        budget=600,
        device="cpu",
    )
    plan = LanguageHeadsPlan(
        scoring, count=1, rankings=(), soft_epochs=2, randoms=1, scales=(0, 1), roles=False, resamples=100
    )
    return run_study(plan, world / "run").folder


@pytest.mark.parametrize("kind", ["shrunk", "folded"])
def test_the_card_says_languages_heads_gains_data_and_commands(
    kind: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small"
    options = ("--language", "tr", "--count", 1, "--export", kind, "--out", out)
    assert run(monkeypatch, "prune", study, *options) == 0
    capsys.readouterr()
    card = (out / "README.md").read_text()
    data = HeadScores.load(study / "scoring" / "scores" / "tr.json").provenance.data
    assert "language:\n- tr\n" in card
    assert "| decoder.0 | 3 | 0 |" in card
    assert f"`{data}`" in card
    assert "Bits per byte on test data (tr)" in card
    assert "95% interval" in card
    assert "Command of the scoring run: `headwise score" in card
    assert "Command of this model: `headwise" in card
    assert ("load_pruned" in card) == (kind == "shrunk")
    assert type(load_pruned(out) if kind == "shrunk" else load_model(out)).__name__ == "GPT2LMHeadModel"


def test_shrunk_models_carry_the_shape_of_every_layer(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small"
    assert run(monkeypatch, "prune", study, "--language", "tr", "--count", 1, "--out", out) == 0
    capsys.readouterr()
    assert json.loads((out / "config.json").read_text())["num_attention_heads_per_layer"] == [3, 4]
    shapes = json.loads((out / "headwise.json").read_text())["per_layer_config"]["decoder"]
    assert shapes["0"] == {"num_attention_heads": 3, "num_key_value_heads": 3}


def test_gains_are_those_of_the_same_mask_only(study: Path) -> None:
    scores = HeadScores.load(study / "scoring" / "scores" / "tr.json")
    told = facts_of_run(study, "tr", scores.without([HARMFUL]), "count")
    assert any("Bits per byte" in fact for fact in told)
    other = facts_of_run(study, "tr", scores.without([HARMFUL, "decoder.0.2"]), "count")
    assert not any("Bits per byte" in fact for fact in other)
    assert any(fact.startswith("Hash of these examples") for fact in other)
