"""`headwise refine` and `headwise prune` from a run folder: by decisions, refined, or to a size."""

import json
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, HeadScores, find_heads, load_pruned
from tests.cli.running import run
from tests.scoring_world import save_data, save_model


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of two languages."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        command = ("score", save_model(folder / "model"), "--task", "pos", "--data", save_data(folder / "data"))
        assert run(patch, *command, "--languages", "en,sw", "--budget", 900, "--out", folder / "run") == 0
    return folder / "run"


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_refined_masks_are_written_and_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, "refine", scored, "--languages", "sw", "--json") == 0
    found = printed(capsys)["languages"]["sw"]
    mask = HeadMask.load(scored / "refined" / "sw.json")
    assert found["off"] == len(mask.off) > 0
    assert found["value"] > found["value before"]
    assert run(monkeypatch, "prune", scored, "--language", "sw", "--refined", "--out", tmp_path / "out") == 0
    assert len(find_heads(load_pruned(tmp_path / "out")).players()) == len(mask.players) - len(mask.off)
    assert run(monkeypatch, "refine", scored, "--languages", "sw") == 0
    assert "judge on others" in capsys.readouterr().out


def test_heads_go_by_number_or_share(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    lowest = HeadScores.load(scored / "scores" / "en.json").ranked()
    command = ("prune", scored, "--language", "en", "--export", "mask", "--out")
    assert run(monkeypatch, *command, tmp_path / "count", "--count", 2, "--json") == 0
    assert printed(capsys)["removed"] == 2
    assert set(HeadMask.load(tmp_path / "count" / "mask.json").off) == set(lowest[:2])
    assert run(monkeypatch, *command, tmp_path / "share", "--share", 0.25, "--json") == 0
    assert set(HeadMask.load(tmp_path / "share" / "mask.json").off) == set(lowest[:3])  # of 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--language", "en", "--refined", "--count", 1), "give one of them"),
        (("--count", 1), "give a run folder and --language"),
        (("--language", "en", "--refined"), "has no refined mask for --language en: it has sw: run headwise refine"),
        (("--language", "xx", "--share", 0.5), "has no scores of --language xx: it has en, sw"),
        (("--language", "en", "--count", 99), "99 players cannot go"),
    ],
)
def test_choices_that_do_not_fit_are_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scored: Path,
    tmp_path: Path,
    options: tuple[object, ...],
    message: str,
) -> None:
    run(monkeypatch, "refine", scored, "--languages", "sw")
    capsys.readouterr()
    assert run(monkeypatch, "prune", scored, *options, "--out", tmp_path / "out") == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_language_that_was_not_scored_cannot_be_refined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path
) -> None:
    assert run(monkeypatch, "refine", scored, "--languages", "xx") == 1
    assert "has no scores of --language xx" in capsys.readouterr().err
