"""`headwise merge`: scores from the rounds of several runs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import HeadMask, HeadScores
from headwise.runs import read_run
from tests.cli.running import run
from tests.scoring.world import save_data, save_model

LANGUAGES = ("en", "sw")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny tagger, tiny treebanks, and three runs on them: two seeds, and one of another budget."""
    folder = tmp_path_factory.mktemp("world")
    save_model(folder / "model")
    save_data(folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        for name, seed, budget in (("one", 0, 300), ("two", 1, 300), ("other", 2, 400)):
            score(patch, folder, folder / name, seed, budget)
    return folder


def score(patch: pytest.MonkeyPatch, world: Path, out: Path, seed: int, budget: int) -> None:
    where = ("--task", "pos", "--data", world / "data", "--languages", "en,sw", "--method", "permutation")
    assert run(patch, "score", world / "model", *where, "--budget", budget, "--seed", seed, "--out", out) == 0


def load(folder: Path) -> dict[str, HeadScores]:
    return {language: HeadScores.load(folder / "scores" / f"{language}.json") for language in LANGUAGES}


def test_merged_scores_are_those_of_all_observations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, "merge", world / "one", world / "two", "--out", tmp_path / "both", "--json") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    one, two, both = load(world / "one"), load(world / "two"), load(tmp_path / "both")
    for language in LANGUAGES:
        counts = np.array([one[language].count, two[language].count])
        values = np.array([one[language].value, two[language].value])
        assert both[language].count == tuple(counts.sum(0).tolist())
        assert both[language].value == pytest.approx((counts * values).sum(0) / counts.sum(0))
        spent = [each[language].provenance.units for each in (one, two)]
        assert both[language].provenance.units == pytest.approx(sum(spent))
        assert both[language].provenance.seed is None
        assert HeadMask.load(tmp_path / "both" / "masks" / f"{language}.json").off == both[language].decided("harmful")
        assert result["languages"][language]["rows"] == both[language].to_dict()["rows"]
    assert (tmp_path / "both" / "scores.parquet").exists()
    with read_run(tmp_path / "both") as merged:
        assert merged.config["seed"] == [0, 1]


def test_the_order_of_runs_does_not_matter_and_merged_runs_can_be_merged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: Path, tmp_path: Path
) -> None:
    score(monkeypatch, world, tmp_path / "three", 3, 300)
    assert run(monkeypatch, "merge", world / "one", world / "two", "--out", tmp_path / "a") == 0
    assert run(monkeypatch, "merge", tmp_path / "a", tmp_path / "three", "--out", tmp_path / "ab") == 0
    assert run(monkeypatch, "merge", tmp_path / "three", world / "two", world / "one", "--out", tmp_path / "c") == 0
    assert "3 runs merged" in capsys.readouterr().out
    assert load(tmp_path / "ab") == load(tmp_path / "c")


def test_runs_that_differ_in_more_than_the_seed_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: Path, tmp_path: Path
) -> None:
    for runs, says in (
        ((world / "one", world / "one"), "its seed 0 is also the seed of"),
        ((world / "one", world / "other"), "'budget' is 400"),
        ((world / "one", tmp_path / "nothing"), "nothing: not a run folder"),
        ((tmp_path / "nothing", world / "one"), "nothing: not a run folder"),
    ):
        assert run(monkeypatch, "merge", *runs, "--out", tmp_path / "out") == 1
        [line] = capsys.readouterr().err.strip().splitlines()
        assert says in line
        assert not (tmp_path / "out").exists()


def test_changed_data_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    save_model(tmp_path / "model")
    treebank = save_data(tmp_path / "data") / "ud" / "sw_toy-ud-dev.conllu"
    for name, seed in (("one", 0), ("two", 1)):
        score(monkeypatch, tmp_path, tmp_path / name, seed, 300)
    treebank.write_text(treebank.read_text().replace("\tNOUN\t", "\tVERB\t"))
    capsys.readouterr()
    assert run(monkeypatch, "merge", tmp_path / "one", tmp_path / "two", "--out", tmp_path / "both") == 1
    assert "have changed since they were scored: score them again" in capsys.readouterr().err
    assert not (tmp_path / "both").exists()
