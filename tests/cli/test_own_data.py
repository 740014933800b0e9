"""A user's own files through tune, eval, score and prune; and `headwise data`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import AutoConfig, BertModel, PreTrainedTokenizerFast

from tests.cli.running import run
from tests.data.own_files import CASES, SIZES, name_of, write_data
from tests.families import BY_NAME

IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def save_tokenizer(folder: Path) -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{number}" for number in range(4, 50))]
    words = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of each kind."""
    root = tmp_path_factory.mktemp("models")
    built: dict[str, Any] = {
        "encoder": BertModel(BY_NAME["bert"].build(num_hidden_layers=2).config),
        "translation": BY_NAME["marian"].build(**IDS),
        "lm": BY_NAME["gpt2"].build(),
    }
    for name, model in built.items():
        model.save_pretrained(root / name)
        save_tokenizer(root / name)
    return {name: root / name for name in built}


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("task", "form"), CASES)
def test_own_files_with_tune_eval_score_and_prune(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    models: dict[str, Path],
    tmp_path: Path,
    task: str,
    form: str,
) -> None:
    name, codes = name_of(task), ("en-de", "en-tr") if task == "translation" else ("de", "tr")
    data = ("--task", name, "--data", write_data(tmp_path / "data", task, form))
    model = models.get(task, models["encoder"])
    way = ("--train-languages", ",".join(codes), "--epochs", 1, "--learning-rate", 0.01, "--json")
    assert run(monkeypatch, "tune", model, *data, "--out", tmp_path / "tuned", *way) == 0
    capsys.readouterr()
    if task == "ner":
        labels = set(AutoConfig.from_pretrained(tmp_path / "tuned").id2label.values())
        assert labels == {"O", "B-DRUG", "I-DRUG", "B-DOSE", "I-DOSE"}
    assert run(monkeypatch, "eval", tmp_path / "tuned", *data, "--json") == 0
    found = shown(capsys)["languages"]
    assert {code: row["examples"] for code, row in found.items()} == dict.fromkeys(codes, SIZES["test"])
    game = ("--game", "log-likelihood") if task in ("translation", "lm") else ()
    scoring = (*game, "--method", "michel", "--budget", 100, "--out", tmp_path / "run", "--json")
    assert run(monkeypatch, "score", tmp_path / "tuned", *data, *scoring) == 0
    capsys.readouterr()
    assert {path.stem for path in (tmp_path / "run" / "scores").iterdir()} == set(codes)
    pruning = ("--language", codes[1], "--count", 2, "--out", tmp_path / "small", "--json")
    assert run(monkeypatch, "prune", tmp_path / "run", *pruning) == 0
    assert shown(capsys)["removed"] == 2
    assert run(monkeypatch, "eval", tmp_path / "small", *data, "--languages", codes[1], "--json") == 0
    assert shown(capsys)["languages"][codes[1]]["examples"] == SIZES["test"]


def test_data_shows_how_files_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = write_data(tmp_path, "ner", "CoNLL-2003")
    assert run(monkeypatch, "data", data) == 0
    text = capsys.readouterr().out
    for part in ("German", "Turkish", "task: ner (guessed: ", "B-DRUG 52", "w5/B-DRUG", "share all their items"):
        assert part in text
    assert run(monkeypatch, "data", data, "--task", "pos", "--languages", "tr", "--json") == 0
    found = shown(capsys)
    assert found["counts"] == {"tr": SIZES}
    assert found["labels"] == {"NN": 78}
    assert run(monkeypatch, "data", tmp_path / "nothing.csv") == 1
    assert "nothing.csv: no such file or folder: give a CSV, " in capsys.readouterr().err


def test_a_note_on_drawn_splits_is_shown_with_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], models: dict[str, Path], tmp_path: Path
) -> None:
    lines = "".join(f"w{4 + number % 40} w{5 + number // 40}\n" for number in range(60))
    (tmp_path / "tr.txt").write_text(lines)
    assert run(monkeypatch, "eval", models["lm"], "--task", "lm", "--data", tmp_path / "tr.txt") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "divided at random (seed 0): tr train 36, dev 12, test 12." in text
