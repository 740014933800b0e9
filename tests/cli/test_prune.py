"""`headwise refine` and `headwise prune` from a run folder: by decisions, refined, or to a size."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, HeadScores, find_heads, load_pruned
from headwise.models import load_model
from headwise.rules import likely_mask
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


def test_heads_go_by_number_by_share_or_by_how_likely_they_hurt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    scores, heads = HeadScores.load(scored / "scores" / "en.json"), find_heads(load_model(scored.parent / "model"))
    lowest = scores.ranked()
    command = ("prune", scored, "--language", "en", "--export", "mask", "--out")
    assert run(monkeypatch, *command, tmp_path / "count", "--count", 2, "--json") == 0
    assert printed(capsys)["removed"] == 2
    assert set(HeadMask.load(tmp_path / "count" / "mask.json").off) == set(lowest[:2])
    assert run(monkeypatch, *command, tmp_path / "share", "--share", 0.25, "--json") == 0
    assert set(HeadMask.load(tmp_path / "share" / "mask.json").off) == set(lowest[:3])  # of 12
    assert run(monkeypatch, *command, tmp_path / "likely", "--likely") == 0
    off = HeadMask.load(tmp_path / "likely" / "mask.json").off
    assert off == likely_mask(scores, heads).off != ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--language", "en", "--refined", "--count", 1), "give one of them"),
        (("--language", "en", "--likely", "--share", 0.5), "give one of them"),
        (("--likely",), "give its folder and --language"),
        (("--count", 1), "give its folder and --language"),
        (("--refined",), "give its folder and --language"),
        (("--refined", "--mask", "mask.json"), "give its folder and --language, no --mask"),
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


@pytest.mark.parametrize(
    ("languages", "message"), [("xx", "has no scores of the language xx"), (" ,", "--languages names no language")]
)
def test_languages_that_cannot_be_refined_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, languages: str, message: str
) -> None:
    assert run(monkeypatch, "refine", scored, "--languages", languages) == 1
    assert message in capsys.readouterr().err


def test_all_languages_are_refined_unless_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    shown, folder = [], shutil.copytree(scored, tmp_path / "run")
    for options in ((), ("--languages", "all")):
        assert run(monkeypatch, "refine", folder, "--rounds", 2, "--json", *options) == 0
        shown.append(printed(capsys)["languages"])
    assert list(shown[0]) == ["en", "sw"]
    assert shown[0] == shown[1]


def test_a_mask_that_stays_as_it_was_keeps_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path
) -> None:
    falling = iter([0.4, 0.5])  # of the best mask, then of the one at the start
    monkeypatch.setattr("headwise.refinement.refining._Search.hard_value", lambda *_: next(falling))
    assert run(monkeypatch, "refine", scored, "--languages", "sw", "--json") == 0
    found = printed(capsys)["languages"]["sw"]
    assert found["verdict"] == "as it was"
    assert found["value"] == found["value before"]
    assert found["off"] == found["off before"]


def test_other_weights_may_be_pruned_to_a_size_if_that_is_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, folder = save_model(tmp_path / "model"), tmp_path / "run"
    command = ("score", model, "--task", "pos", "--data", save_data(tmp_path / "data"), "--languages", "en")
    assert run(monkeypatch, *command, "--budget", 900, "--out", folder) == 0
    other = load_model(model)
    for weight in other.parameters():
        weight.data.neg_()
    other.save_pretrained(model)
    prune = ("prune", folder, "--language", "en", "--export", "mask", "--out", tmp_path / "out", "--count", 2)
    assert run(monkeypatch, *prune) == 1
    assert "--other-weights" in capsys.readouterr().err
    assert run(monkeypatch, *prune, "--other-weights") == 0
    mask = HeadMask.load(tmp_path / "out" / "mask.json")
    assert len(mask.off) == 2
    assert mask.fingerprint == find_heads(other).fingerprint
