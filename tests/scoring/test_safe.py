"""One mask for all languages: no language loses more than the margin, in a tiny world and in simulated games."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import headwise as hw
from headwise import HeadScores, HeadwiseError, Provenance
from headwise.methods.head_scores import UNDECIDED
from headwise.scoring import SafeMask, ScoringPlan, run_scoring, safe_mask_of_run
from headwise.scoring.safe import mask_path
from headwise.stats.simultaneous import count_safe
from tests.cli.running import run
from tests.scoring.planted import LANGUAGES, save_planted

Array = NDArray[np.float64]
PLANTED = ("encoder.0.0", "encoder.0.3", "encoder.1.1")
PLAN: dict[str, Any] = {"budget": 900, "options": {"bases": 4, "flips": 6}}


def scores_of(value: Array, error: Array) -> HeadScores:
    n = len(value)
    names = tuple(f"encoder.{place // 12}.{place % 12}" for place in range(n))
    plain = tuple(value.tolist())
    return HeadScores(names, plain, tuple(error.tolist()), (9,) * n, UNDECIDED * n, Provenance("stars", "full"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("world")
    model, data = save_planted(place, PLANTED)
    found = run_scoring(ScoringPlan(str(model), "pos", str(data), "all", **PLAN), place / "run").folder
    assert found is not None
    return found


@pytest.fixture(scope="module")
def safe(folder: Path) -> SafeMask:
    return safe_mask_of_run(folder, margin=20)


def test_a_mask_of_harmful_heads_is_found_and_written(folder: Path, safe: SafeMask) -> None:
    assert safe.safe > 0
    assert set(safe.mask.off) & set(PLANTED)
    assert safe.mask.language is None
    assert tuple(safe.gains) == LANGUAGES
    assert hw.load_mask(folder / "safe.json") == safe.mask
    assert len(safe.mask.off) == safe.steps[safe.safe - 1]


def test_a_repeated_call_measures_nothing(folder: Path, safe: SafeMask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("values", "gradients", "flips"):
        monkeypatch.setattr(f"headwise.engine.LocalEngine.{name}", None)
    assert safe_mask_of_run(folder, margin=20) == safe


def test_a_call_that_was_killed_goes_on_and_finds_the_same(folder: Path, safe: SafeMask, tmp_path: Path) -> None:
    plan = ScoringPlan(**{**_plan(folder), **PLAN})
    run_scoring(plan, tmp_path / "run")

    def stop(done: int, _: int, __: str) -> None:
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        safe_mask_of_run(tmp_path / "run", 20, progress=stop)
    assert safe_mask_of_run(tmp_path / "run", 20) == safe


def _plan(folder: Path) -> dict[str, Any]:
    from headwise.scoring import plan_of

    found = plan_of(folder)
    return {"model": found.model, "task": found.task, "data": found.data, "languages": found.languages}


def test_the_command_line_prunes_for_all_languages(
    folder: Path, safe: SafeMask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ("prune", folder, "--safe", "--export", "mask", "--json", "--out")
    assert run(monkeypatch, *command, tmp_path / "one", "--margin", "20") == 0
    shown = capsys.readouterr()
    about = json.loads(shown.out)
    assert (about["rule"], about["removed"]) == ("safe", len(safe.mask.off))
    assert about["safe"]["margin"] == 20
    assert "No language loses more than 20 points of accuracy" in shown.err
    assert run(monkeypatch, *command, tmp_path / "none", "--margin", "0") == 1
    assert "no mask is certain enough to cost no language more than the margin" in capsys.readouterr().err
    for wrong, message in (
        (("--safe", "--language", "en"), "--safe is about all languages"),
        (("--safe", "--likely"), "give one of them"),
        (("--language", "en", "--margin", "1"), "--margin is for --safe"),
    ):
        assert run(monkeypatch, "prune", folder, "--out", tmp_path / "wrong", *wrong) == 1
        assert message in capsys.readouterr().err


def test_wrong_arguments_are_errors(folder: Path) -> None:
    with pytest.raises(HeadwiseError, match="margin"):
        safe_mask_of_run(folder, margin=-1)
    with pytest.raises(HeadwiseError, match="confidence"):
        safe_mask_of_run(folder, confidence=1)


def test_a_path_removes_the_lowest_means_and_no_clearly_helpful_player() -> None:
    one = scores_of(np.array([-1.0, -3.0, 0.5, -2.0, -0.5]), np.full(5, 0.1))
    other = scores_of(np.array([-1.0, -1.0, 0.5, 1.0, -0.1]), np.full(5, 0.2))
    path = mask_path([one, other])
    assert [mask.off for mask in path] == [
        ("encoder.0.1",),
        ("encoder.0.0", "encoder.0.1"),
        ("encoder.0.0", "encoder.0.1", "encoder.0.4"),
    ]  # player 3 is helpful in the other language, player 2 in both
    assert all(mask.language is None for mask in path)


def test_few_simulated_games_end_with_a_mask_that_harms_a_language() -> None:
    """300 games: values of heads are known with errors, some heads help single languages, answers change at random."""
    draw, harmed, removed = np.random.default_rng(0), [], []
    languages, heads, examples, margin = 5, 36, 800, 1.0
    for _ in range(300):
        effect = -0.4 * np.abs(draw.normal(0, 1, heads)) * (draw.random(heads) < 0.3)  # points that a head costs
        value = effect + 0.5 * (draw.random((languages, heads)) < 0.15) + 0.3 * (effect == 0)
        error = np.full(heads, 0.3)
        path = mask_path([scores_of(each + draw.normal(0, 0.3, heads), error) for each in value])
        up = np.where(value < 0, -value, 0) / 100 + 0.002  # probability that an answer turns right without the head
        down = np.where(value > 0, value, 0) / 100 + 0.002
        place = draw.random((languages, examples, heads))
        change = 1.0 * (place < up[:, None]) - (place > 1 - down[:, None])
        off = [~np.array(mask.on) for mask in path]
        base = np.stack([np.full((languages, examples), 0.5), np.ones((languages, examples))], axis=2)
        steps = [base + np.stack([change[:, :, each].sum(2), np.zeros((languages, examples))], axis=2) for each in off]
        safe = count_safe(list(base), [list(each) for each in steps], lambda t: 100 * t[..., 0] / t[..., 1], margin)
        loss = value[:, off[safe - 1]].sum(1).max() if safe else 0.0
        harmed.append(loss > margin)
        removed.append(safe)
    assert np.mean(harmed) <= 0.05
    assert np.mean(np.array(removed) > 0) > 0.2
