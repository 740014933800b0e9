"""Heads that make a model answer in the wrong language: scored by a margin, confirmed by what the model writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headwise import gated
from headwise.data.catalog import open_dataset
from headwise.engine import LocalEngine, encode_examples
from headwise.games import MarginGame
from headwise.models import load_model, load_tokenizer
from headwise.tasks import wrong_language
from headwise.tasks.dispatch import task_of
from tests.cli.running import run
from tests.studies.languages import HARMFUL, HURT, save_language_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_world(tmp_path_factory.mktemp("answers"))


def plain_margin(model: Any, tokenizer: Any, example: Any) -> float:
    """The difference of the log-likelihoods per byte of both continuations, one token at a time."""
    found = []
    for choice in example.choices:
        before = tokenizer(example.context)["input_ids"]
        ids, total = list(before), 0.0
        for token in tokenizer(choice)["input_ids"]:
            with torch.no_grad():
                total += float(model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)[token])
            ids.append(token)
        found.append(total / len(choice.encode()))
    return found[0] - found[1]


def _values(found: Any) -> tuple[list[str], list[float]]:
    return [row["player"] for row in found["rows"]], [row["value"] for row in found["rows"]]


def test_the_margin_is_the_difference_of_likelihoods_per_byte(world: Path) -> None:
    model, tokenizer = load_model(world / "model"), load_tokenizer(world / "model")
    examples = open_dataset(world / "data", "answer-language").examples("tr-en", "test")[:3]
    encoded = encode_examples(task_of(model, "answer-language"), examples, tokenizer)
    engine = LocalEngine(model, None, MarginGame(), encoded)
    for gates in (np.ones(8), np.array([0.0, 1, 1, 1, 0.5, 1, 0, 1])):
        found = engine.values(np.tile(gates.astype(np.float32), (3, 1)), np.arange(3)).values
        with gated(model, torch.tensor(gates, dtype=torch.float32)):
            expected = [plain_margin(model, tokenizer, each) for each in examples]
        assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_head_that_disturbs_one_language_is_found_and_its_removal_is_confirmed(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The words of the tiny model are the code of their language and a number.
    monkeypatch.setattr(wrong_language, "detect_language", lambda text: text[:2] or "und")
    common = ("--task", "answer-language", "--data", world / "data", "--languages", f"{HURT}-en,de-en")
    options = ("--game", "margin", "--budget", 1500, "--out", tmp_path / "run", "--json")
    assert run(monkeypatch, "score", world / "model", *common, *options) == 0
    languages = json.loads(capsys.readouterr().out)["languages"]
    assert HARMFUL in languages[f"{HURT}-en"]["harmful"]
    values = {code: dict(zip(*_values(each), strict=True)) for code, each in languages.items()}
    assert values[f"{HURT}-en"][HARMFUL] < 3 * values["de-en"][HARMFUL] < 0 or values["de-en"][HARMFUL] >= 0
    mask = tmp_path / "run" / "masks" / f"{HURT}-en.json"
    shares = []
    for under in ((), ("--mask", mask)):
        assert run(monkeypatch, "eval", world / "model", *common, "--wrong-language", *under, "--json") == 0
        found = json.loads(capsys.readouterr().out)["languages"][f"{HURT}-en"]["metrics"]
        shares.append((found["accuracy"]["value"], found["wrong language"]["value"]))
    assert shares[1][0] >= shares[0][0]
    assert shares[1][1] <= shares[0][1]
