"""`headwise refine` and `headwise prune` on a run folder, with all rules."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headwise import HeadMask, HeadScores, find_heads, load_pruned
from headwise.models import load_model
from headwise.runs import open_run
from headwise.runs.config import read_config, write_config
from headwise.support.steps import Steps
from tests.cli.running import run
from tests.scoring.world import save_data, save_model


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
    assert "evaluate the masks on other examples" in capsys.readouterr().out


def test_heads_are_removed_by_count_share_or_likely(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    scores = HeadScores.load(scored / "scores" / "en.json")
    lowest = scores.ranked()
    command = ("prune", scored, "--language", "en", "--export", "mask", "--out")
    assert run(monkeypatch, *command, tmp_path / "count", "--count", 2, "--json") == 0
    assert printed(capsys)["removed"] == 2
    assert set(HeadMask.load(tmp_path / "count" / "mask.json").off) == set(lowest[:2])
    assert run(monkeypatch, *command, tmp_path / "share", "--share", 0.25, "--json") == 0
    assert set(HeadMask.load(tmp_path / "share" / "mask.json").off) == set(lowest[:3])  # of 12
    assert run(monkeypatch, *command, tmp_path / "likely", "--likely") == 0
    off = HeadMask.load(tmp_path / "likely" / "mask.json").off
    assert off == scores.mask("likely").off != ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--language", "en", "--refined", "--count", 1), "give one of them"),
        (("--language", "en", "--likely", "--share", 0.5), "give one of them"),
        (("--language", "en", "--likely", "--harmful"), "give one of them"),
        (("--harmful",), "give its folder and --language"),
        (("--likely",), "give its folder and --language"),
        (("--count", 1), "give its folder and --language"),
        (("--refined",), "give its folder and --language"),
        (("--refined", "--mask", "mask.json"), "give its folder and --language, no --mask"),
        (("--language", "en", "--refined"), "has no refined mask for --language en: it has sw: run headwise refine"),
        (("--language", "xx", "--share", 0.5), "has no scores of --language xx: it has en, sw"),
        (("--language", "en", "--count", 99), "count must be between 0 and 12"),
    ],
)
def test_contradicting_options_are_errors(
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
    ("out", "options", "lost"),
    [
        ("run", (), "this folder contains the run"),
        ("run", ("--likely",), "this folder contains the run"),
        ("run/scores", ("--likely",), "this folder contains the source of the mask"),
        ("run/scores", ("--count", 1), "this folder contains the source of the mask"),
        ("model", (), "this folder contains the model"),
        (".", (), "this folder contains the model"),
    ],
)
def test_inputs_are_never_overwritten(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scored: Path,
    out: str,
    options: tuple[object, ...],
    lost: str,
) -> None:
    before = sorted(scored.parent.rglob("*"))
    command = ("prune", scored, "--language", "en", "--out", scored.parent / out, "--overwrite", *options)
    assert run(monkeypatch, *command) == 1
    assert f"{lost}: choose another folder for --out" in capsys.readouterr().err
    assert sorted(scored.parent.rglob("*")) == before


def test_a_folder_with_the_mask_or_the_model_in_it_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    mask = tmp_path / "mine.json"
    HeadScores.load(scored / "scores" / "en.json").mask(count=2).save(mask)
    (tmp_path / "link").symlink_to(tmp_path)
    for out in (tmp_path, tmp_path / "link"):
        command = ("prune", scored.parent / "model", "--mask", mask, "--out", out, "--overwrite")
        assert run(monkeypatch, *command) == 1
        assert "this folder contains the source of the mask" in capsys.readouterr().err
    assert mask.is_file()


@pytest.mark.parametrize(("method", "what"), [("gradient-screen", "biased"), ("michel", "sign"), ("random", "sign")])
def test_values_that_do_not_tell_what_is_likely_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scored: Path,
    tmp_path: Path,
    method: str,
    what: str,
) -> None:
    folder = shutil.copytree(scored, tmp_path / "run")
    file = folder / "scores" / "en.json"
    content = json.loads(file.read_text())
    content["provenance"] |= {"method": method, "signed": what != "sign", "unbiased": False}
    file.write_text(json.dumps(content))
    for options in (("--likely",), ()):
        assert run(monkeypatch, "prune", folder, "--language", "en", *options, "--out", tmp_path / "out") == 1
        error = capsys.readouterr().err
        assert f"the values of {method} are" in error
        assert what in error
        assert "give a number of heads with --count, or a share with --share" in error
    assert not (tmp_path / "out").exists()
    assert run(monkeypatch, "prune", folder, "--language", "en", "--count", 2, "--out", tmp_path / "out") == 0


def change_scores(file: Path, **fields: Any) -> None:
    """Overwrite fields of every row of a file of scores."""
    content = json.loads(file.read_text())
    content["rows"] = [{**row, **fields} for row in content["rows"]]
    file.write_text(json.dumps(content))


def test_scores_without_standard_errors_need_a_number_of_heads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(scored, tmp_path / "run")
    change_scores(folder / "scores" / "en.json", stderr=None)
    assert run(monkeypatch, "prune", folder, "--language", "en", "--out", tmp_path / "out") == 1
    assert "have no standard errors" in (error := capsys.readouterr().err)
    assert "--count" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "no head is likely harmful for en, so nothing was written: score with a larger --budget, or choose heads"),
        (("--likely",), "no head is likely harmful for en"),
        (("--harmful",), "no head is decided harmful for en, so nothing was written: use --likely, --refined or"),
        (("--refined",), "the refined mask removes no head for en, so nothing was written: use --likely, --count"),
        (("--count", 0), "--count 0 removes no head for en, so nothing was written: give a larger number"),
        (("--share", 0.01), "the given --share removes no head for en, so nothing was written: give a larger share"),
    ],
)
def test_nothing_is_written_when_no_head_would_be_removed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scored: Path,
    tmp_path: Path,
    options: tuple[object, ...],
    message: str,
) -> None:
    folder = shutil.copytree(scored, tmp_path / "run")
    change_scores(folder / "scores" / "en.json", value=1.0, decision="undecided")
    mask = HeadMask.load(folder / "masks" / "en.json")
    dataclasses.replace(mask, on=(True,) * 12).save(folder / "refined" / "en.json")
    assert run(monkeypatch, "prune", folder, "--language", "en", *options, "--out", tmp_path / "out") == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_mask_file_that_removes_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    mask = HeadMask.full(find_heads(load_model(scored.parent / "model")))
    mask.save(tmp_path / "full.json")
    command = ("prune", scored.parent / "model", "--mask", tmp_path / "full.json", "--out", tmp_path / "out")
    assert run(monkeypatch, *command) == 1
    assert "full.json: the mask removes no head, so nothing was written: give a mask" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_rule_the_heads_and_the_size_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    model = load_model(scored.parent / "model")
    before = sum(weight.numel() for weight in model.parameters())
    lowest = HeadScores.load(scored / "scores" / "en.json").ranked()
    command = ("prune", scored, "--language", "en", "--out")
    assert run(monkeypatch, *command, tmp_path / "two", "--count", 2) == 0
    text = capsys.readouterr().out
    after = sum(weight.numel() for weight in load_pruned(tmp_path / "two").parameters())
    assert "2 of 12 heads off" in text
    assert "Chosen by: the lowest values, a given number (--count)." in text
    assert f"Parameters: {before:,} before, {after:,} after ({after / before - 1:+.1%})." in text
    assert all(name in text for name in lowest[:2])
    assert run(monkeypatch, *command, tmp_path / "ten", "--count", 10, "--export", "mask") == 0
    text = capsys.readouterr().out
    assert " and 2 more." in text
    assert "Parameters" not in text
    assert run(monkeypatch, *command, tmp_path / "json", "--json") == 0
    found = printed(capsys)
    assert found["rule"] == "likely"
    assert found["removed"] == len(found["heads"]) > 0
    assert found["parameters"]["before"] == before > found["parameters"]["after"]


@pytest.fixture
def study(scored: Path, tmp_path: Path) -> Path:
    """The folder of a targeted study with the scores of the run, and a refined mask of one language."""
    shutil.copytree(scored, tmp_path / "study" / "scoring", ignore=shutil.ignore_patterns("refined"))
    with open_run(tmp_path / "study", {**read_config(scored), "study": "targeted", "refine": 12}):
        mask = HeadMask.load(scored / "masks" / "en.json")
        dataclasses.replace(mask, on=(False, True) * 6).save(tmp_path / "study" / "masks" / "en.json")
    return tmp_path / "study"


def test_a_run_and_a_study_are_pruned_by_the_same_rule_by_default(
    monkeypatch: pytest.MonkeyPatch, scored: Path, study: Path, tmp_path: Path
) -> None:
    scores = HeadScores.load(scored / "scores" / "en.json")
    likely, harmful = scores.mask("likely").off, scores.mask("harmful").off
    assert len({likely, harmful, HeadMask.load(study / "masks" / "en.json").off}) == 3  # all rules differ here
    for number, folder in enumerate((scored, study)):
        for rule, expected in {"": likely, "--likely": likely, "--harmful": harmful}.items():
            out = tmp_path / f"out{number}{rule}"
            options = (rule,) if rule else ()
            command = ("prune", folder, "--language", "en", "--export", "mask", "--out", out, *options)
            if expected:
                assert run(monkeypatch, *command) == 0
                assert HeadMask.load(out / "mask.json").off == expected
            else:
                assert run(monkeypatch, *command) == 1


def test_a_study_is_pruned_and_refined_by_its_scores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, study: Path, tmp_path: Path
) -> None:
    lowest = HeadScores.load(scored / "scores" / "en.json").ranked()
    for name, options in {
        "refined": ("--refined",),
        "count": ("--count", 2),
        "likely": ("--likely",),
    }.items():
        command = ("prune", study, "--language", "en", "--export", "mask", "--out", tmp_path / name)
        assert run(monkeypatch, *command, *options) == 0
    off = {name: HeadMask.load(tmp_path / name / "mask.json").off for name in ("refined", "count", "likely")}
    assert len(off["refined"]) == 6
    assert off["likely"] != off["refined"]
    assert set(off["count"]) == set(lowest[:2])
    other = ("prune", study, "--language", "sw", "--export", "mask", "--out")
    assert run(monkeypatch, *other, tmp_path / "sw") == 0
    assert run(monkeypatch, *other, tmp_path / "none", "--refined") == 1
    assert "run headwise refine first" in capsys.readouterr().err
    assert run(monkeypatch, "refine", study, "--languages", "sw") == 0
    assert f"headwise prune {study}/scoring --language sw --refined" in capsys.readouterr().out
    assert run(monkeypatch, *other, tmp_path / "refined sw", "--refined") == 0


def test_masks_of_a_study_without_refinement_are_not_refined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path
) -> None:
    write_config(study, {**read_config(study), "refine": 0})
    assert run(monkeypatch, "prune", study, "--language", "en", "--refined", "--out", tmp_path / "out") == 1
    assert "has no refined mask for --language en" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("languages", "message"), [("xx", "has no scores of xx"), (" ,", "--languages names no language")]
)
def test_unknown_languages_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, languages: str, message: str
) -> None:
    assert run(monkeypatch, "refine", scored, "--languages", languages) == 1
    assert message in capsys.readouterr().err


def test_all_languages_are_refined_by_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path, tmp_path: Path
) -> None:
    shown, folder = [], shutil.copytree(scored, tmp_path / "run")
    for options in ((), ("--languages", "all")):
        assert run(monkeypatch, "refine", folder, "--rounds", 2, "--json", *options) == 0
        shown.append(printed(capsys)["languages"])
    assert list(shown[0]) == ["en", "sw"]
    assert shown[0] == shown[1]


def test_an_unchanged_mask_keeps_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scored: Path
) -> None:
    falling = iter([0.4, 0.5])  # the values of the best mask and of the first mask

    def hard_value(*_: object) -> Steps[float]:
        yield from ()
        return next(falling)

    monkeypatch.setattr("headwise.scoring.refine._Search.hard_value", hard_value)
    assert run(monkeypatch, "refine", scored, "--languages", "sw", "--json") == 0
    found = printed(capsys)["languages"]["sw"]
    assert found["verdict"] == "as it was"
    assert found["value"] == found["value before"]
    assert found["off"] == found["off before"]


def test_other_weights_can_be_pruned_with_an_option(
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
