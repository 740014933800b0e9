"""Repairing a pruned model on dev data, from Python and from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.models import load_model, load_tokenizer
from headwise.scoring.repair import examples_of_run
from tests.cli.running import run
from tests.families import difference
from tests.scoring.world import save_data, save_model


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_model(folder / "model")
    save_data(folder / "data")
    return folder


def pruned_and_original(world: Path) -> tuple[Any, Any, Any]:
    model = load_model(str(world / "model"))
    heads = hw.find_heads(model)
    off = [name for name in heads.players() if name.endswith((".0", ".2"))]
    return hw.shrink(model, hw.HeadMask.without(heads, off)), model, load_tokenizer(str(world / "model"))


@torch.no_grad()
def test_a_repair_changes_the_model_and_reports_the_metric(world: Path) -> None:
    pruned, model, tokenizer = pruned_and_original(world)
    before = hw.evaluate(
        pruned, tokenizer, str(world / "data"), task="pos", languages="en", split="dev", progress=False
    )
    found = hw.repair(pruned, model, tokenizer, str(world / "data"), "en", task="pos")
    after = hw.evaluate(pruned, tokenizer, str(world / "data"), task="pos", languages="en", split="dev", progress=False)
    assert found.metric == "accuracy"
    assert found.before == before["en"].results[0].value
    assert found.kept == (found.after >= found.before)
    assert after["en"].results[0].value == (found.after if found.kept else found.before)
    assert [site.site for site in found.sites] == ["encoder.0", "encoder.1", "encoder.2"]


def test_a_repair_that_lowers_the_metric_is_undone(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned, model, tokenizer = pruned_and_original(world)
    weights = {name: tensor.clone() for name, tensor in pruned.state_dict().items()}

    def ruin(broken: Any, *_: object) -> tuple[()]:
        with torch.no_grad():
            for layer in broken.bert.encoder.layer:
                layer.attention.output.dense.weight.mul_(-50)
        return ()

    monkeypatch.setattr("headwise.scoring.repair.repair_sites", ruin)
    values = iter([80.0, 70.0])

    def measured(*_: object) -> Any:
        result = type("Result", (), {"metric": "accuracy", "value": next(values)})
        return type("Measured", (), {"results": [result]})

    monkeypatch.setattr("headwise.scoring.repair.measure", measured)
    found = hw.repair(pruned, model, tokenizer, str(world / "data"), "en", task="pos")
    assert (found.before, found.after, found.kept) == (80.0, 70.0, False)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in pruned.state_dict().items())


@pytest.mark.parametrize("kind", ["shrunk", "folded"])
def test_prune_repairs_on_the_examples_of_the_run(
    world: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scored = world / f"run-{kind}"
    command = ("score", world / "model", "--task", "pos", "--data", world / "data", "--method", "michel")
    assert run(monkeypatch, *command, "--languages", "en,sw", "--budget", 900, "--out", scored) == 0
    capsys.readouterr()
    prune = ("prune", scored, "--language", "en", "--count", 6, "--export", kind)
    assert run(monkeypatch, *prune, "--repair", "--out", tmp_path / "out", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["repair"]["metric"] == "accuracy"
    assert all(site["after"] <= site["before"] for site in shown["repair"]["sites"])
    model, tokenizer = load_model(str(world / "model")), load_tokenizer(str(world / "model"))
    mask = hw.HeadMask.without(hw.find_heads(model), shown["heads"])
    expected = hw.shrink(model, mask)
    hw.repair(expected, model, tokenizer, str(world / "data"), "en", task="pos")
    loaded, ids = load_model(str(tmp_path / "out")), torch.tensor([[2, 3, 4, 5]])
    with torch.no_grad():
        assert difference(loaded(ids).logits, expected(ids).logits) < 1e-4
    assert run(monkeypatch, *prune, "--repair", "--out", tmp_path / "other") == 0
    assert "Repair: accuracy" in capsys.readouterr().out
    setting, examples = examples_of_run(scored, "sw", model, tokenizer)
    assert len(examples) == 4
    with pytest.raises(hw.HeadwiseError, match="has no examples of fi"):
        examples_of_run(scored, "fi", setting.model, setting.tokenizer)


def test_repair_needs_a_run_and_weights(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, model, _ = pruned_and_original(world)
    hw.HeadMask.without(hw.find_heads(model), ["encoder.0.1"]).save(tmp_path / "mask.json")
    command = ("prune", world / "model", "--mask", tmp_path / "mask.json", "--repair", "--out", tmp_path / "out")
    assert run(monkeypatch, *command) == 1
    assert "--repair needs the examples of a run" in capsys.readouterr().err
