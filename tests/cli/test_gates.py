"""`headwise gates`: learn soft masks, evaluate them, and fold them into an ordinary checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForTokenClassification

from headwise import HeadMask, SoftMask, find_heads, gated, learn_gates, load, load_pruned, open_dataset
from headwise.models import load_model
from tests.cli.running import run
from tests.families import difference
from tests.scoring.world import save_data, save_model

TOKENS = torch.tensor([[2, 3, 4, 5]])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny tagger and tiny treebanks."""
    folder = tmp_path_factory.mktemp("world")
    return save_model(folder / "model"), save_data(folder / "data")


@pytest.fixture(scope="module")
def learned(world: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "gates"
    with pytest.MonkeyPatch.context() as patch:
        assert run(patch, *command(world), "--out", folder, "--json") == 0
    return folder


def command(world: tuple[Path, Path]) -> tuple[object, ...]:
    model, data = world
    return (
        "gates", model, "--task", "pos", "--data", data, "--languages", "en,sw", "--epochs", 4, "--batch", 2,
        "--learning-rate", 0.02, "--held-out", 0.5,
    )  # fmt: skip


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@torch.no_grad()
def logits_of(model: Any) -> torch.Tensor:
    found: torch.Tensor = model(TOKENS).logits
    return found


def test_gates_are_learned_printed_and_saved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[Path, Path], tmp_path: Path
) -> None:
    assert run(monkeypatch, *command(world), "--out", tmp_path / "run", "--json") == 0
    found = shown(capsys)
    soft = SoftMask.load(tmp_path / "run" / "soft" / "sw.json")
    row = found["languages"]["sw"]
    assert tuple(row["gates"].values()) == soft.gates
    assert (row["smallest"], row["largest"], row["examples"]) == (min(soft.gates), max(soft.gates), 4)
    assert soft.language == "sw"
    soft.check(find_heads(load_model(world[0])))
    assert len(set(soft.gates)) > 1
    # The same command finds everything in the run folder.
    assert run(monkeypatch, *command(world), "--out", tmp_path / "run") == 0
    text = capsys.readouterr().out
    assert "sw: 4 epochs, log-likelihood -" in text
    assert f"headwise prune {tmp_path}/run --language en --soft --out FOLDER" in text


def test_a_run_that_was_stopped_ends_with_the_same_gates(
    monkeypatch: pytest.MonkeyPatch, world: tuple[Path, Path], learned: Path, tmp_path: Path
) -> None:
    for budget in (9, 17, 60_000):
        assert run(monkeypatch, *command(world), "--budget", budget, "--out", tmp_path / "run") == 0
    for language in ("en", "sw"):
        whole, resumed = (SoftMask.load(folder / "soft" / f"{language}.json") for folder in (learned, tmp_path / "run"))
        assert resumed == whole


def test_python_learns_the_same_gates(world: tuple[Path, Path], learned: Path) -> None:
    model, tokenizer = load(world[0])
    data = open_dataset(str(world[1]), "pos")
    options: dict[str, Any] = {"epochs": 4, "batch": 2, "learning_rate": 0.02, "held_out": 0.5}
    found = learn_gates(model, tokenizer, data, languages=["en", "sw"], progress=False, **options)
    assert list(found) == ["en", "sw"]
    for language, soft in found.items():
        assert soft.gates == SoftMask.load(learned / "soft" / f"{language}.json").gates


@pytest.mark.parametrize("export", [(), ("--export", "shrunk"), ("--export", "mask")])
def test_a_soft_mask_becomes_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: tuple[Path, Path],
    learned: Path,
    tmp_path: Path,
    export: tuple[str, ...],
) -> None:
    model, out = load_model(world[0]), tmp_path / "out"
    soft = SoftMask.load(learned / "soft" / "sw.json")
    with gated(model, soft):
        expected = logits_of(model)
    assert run(monkeypatch, "prune", learned, "--language", "sw", "--soft", "--out", out, *export) == 0
    text = capsys.readouterr().out
    assert "Chosen by: the soft mask (--soft)." in text
    assert f"Gates: from {min(soft.gates):g} to {max(soft.gates):g}." in text
    match export:
        case ():  # plain transformers loads it
            assert "folded, 0 of 12 heads off" in text
            assert difference(logits_of(AutoModelForTokenClassification.from_pretrained(out)), expected) < 1e-5
        case (_, "shrunk"):
            assert difference(logits_of(load_pruned(out)), expected) < 1e-5
        case _:
            assert SoftMask.load(out / "mask.json") == soft


def test_a_mask_file_may_be_soft(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: tuple[Path, Path],
    learned: Path,
    tmp_path: Path,
) -> None:
    model = load_model(world[0])
    heads = find_heads(model)
    mask = SoftMask.load(learned / "soft" / "sw.json") * HeadMask.without(heads, ["encoder.1.2"])
    mask.save(tmp_path / "soft.json")
    with gated(model, mask):
        expected = logits_of(model)
    given = ("prune", world[0], "--mask", tmp_path / "soft.json", "--out", tmp_path / "small", "--json")
    assert run(monkeypatch, *given) == 0
    result = shown(capsys)
    assert (result["export"], result["heads"]) == ("shrunk", ["encoder.1.2"])
    assert result["gates"]["encoder.1.2"] == 0
    assert difference(logits_of(load_pruned(tmp_path / "small")), expected) < 1e-5
    evaluate = ("eval", world[0], "--task", "pos", "--data", world[1], "--languages", "sw", "--json")
    assert run(monkeypatch, *evaluate, "--mask", tmp_path / "soft.json") == 0
    assert shown(capsys)["languages"]["sw"]["examples"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--l1", "much"), "--l1: must be numbers separated by commas, such as 0.1,0.01,0, not 'much'"),
        (("--l1", "-1"), "l1 must be a list of numbers of at least 0"),
        (("--smallest", "2"), "gates start at 1"),
        (("--budget", "1"), "--budget: 1 units do not cover the first round of soft"),
        (("--players", "neurons"), "--players: must be one of heads"),
    ],
)
def test_wrong_options_are_errors_of_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: tuple[Path, Path],
    tmp_path: Path,
    options: tuple[str, ...],
    message: str,
) -> None:
    assert run(monkeypatch, *command(world), *options, "--out", tmp_path / "run") == 1
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_what_cannot_be_pruned_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], learned: Path, tmp_path: Path
) -> None:
    prune = ("prune", learned, "--out", tmp_path / "out")
    assert run(monkeypatch, *prune, "--language", "fi", "--soft") == 1
    assert "has no soft mask for --language fi: it has en, sw: run headwise gates first" in capsys.readouterr().err
    assert run(monkeypatch, *prune, "--language", "sw", "--soft", "--refined") == 1
    assert "--likely, --harmful, --refined, --soft and --safe are different ways" in capsys.readouterr().err
    assert run(monkeypatch, *prune, "--language", "sw") == 1
    assert "the values of soft are without a sign" in capsys.readouterr().err
    soft = SoftMask.load(learned / "soft" / "sw.json")
    SoftMask(soft.players, (1.0,) * 12).save(tmp_path / "ones.json")
    assert run(monkeypatch, "prune", "model", "--mask", tmp_path / "ones.json", "--out", tmp_path / "out") == 1
    assert "ones.json: the mask removes no head" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_runs_with_different_seeds_cannot_be_merged(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    world: tuple[Path, Path],
    learned: Path,
    tmp_path: Path,
) -> None:
    assert run(monkeypatch, *command(world), "--seed", 1, "--out", tmp_path / "one") == 0
    assert run(monkeypatch, "merge", learned, tmp_path / "one", "--out", tmp_path / "both") == 1
    assert "runs of soft train gates one step after the other and cannot be merged" in capsys.readouterr().err


def test_a_path_of_penalties_and_other_players_are_possible(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: tuple[Path, Path], tmp_path: Path
) -> None:
    given = (*command(world), "--l1", "0.1,0", "--players", "ffn", "--out", tmp_path / "run")
    assert run(monkeypatch, *given) == 0
    assert ", l1 0, log-likelihood" in capsys.readouterr().out
    assert SoftMask.load(tmp_path / "run" / "soft" / "en.json").kind == "ffn"
    prune = ("prune", tmp_path / "run", "--language", "en", "--soft", "--out")
    assert run(monkeypatch, *prune, tmp_path / "folded") == 0
    assert "folded, 0 of 3 ffn off" in capsys.readouterr().out
    assert run(monkeypatch, *prune, tmp_path / "cut", "--export", "shrunk") == 1
    assert "only masks of heads can be cut, not of ffn" in capsys.readouterr().err
