"""`headwise eval` and `headwise tune`: a table per language, an ordinary checkpoint."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoModelForTokenClassification, BertModel, PreTrainedTokenizerFast

from headwise import HeadMask, find_heads
from tests.cli.running import run
from tests.families import BY_NAME

WORDS = {"cat": "NOUN", "sat": "VERB", "the": "DET", "paka": "NOUN", "alikaa": "VERB"}
SENTENCES = {"en": ["the cat sat", "the cat", "cat sat the cat"], "sw": ["paka alikaa", "alikaa paka", "paka"]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    config = BY_NAME["bert"].build().config
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with small treebanks of two languages."""
    folder = tmp_path / "data" / "ud"
    folder.mkdir(parents=True)
    for language, sentences in SENTENCES.items():
        for split in ("train", "dev", "test"):
            with gzip.open(folder / f"{language}_toy-ud-{split}.conllu.gz", "wt", encoding="utf-8") as file:
                for number, text in enumerate(sentences * 4):
                    file.write(f"# sent_id = {number}\n# text = {text}\n")
                    for place, word in enumerate(text.split(), 1):
                        head, relation = (0, "root") if place == 1 else (1, "dep")
                        file.write(f"{place}\t{word}\t_\t{WORDS[word]}\t_\t_\t{head}\t{relation}\t_\t_\n")
                    file.write("\n")
    return tmp_path / "data"


def tune_arguments(model: Path, data: Path, out: Path) -> tuple[object, ...]:
    way = ("--epochs", 6, "--learning-rate", 0.01, "--train-embeddings", "--train-languages", "en,sw")
    return ("tune", model, "--task", "pos", "--data", data, "--out", out, *way)


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_tuned_model_is_an_ordinary_checkpoint_that_can_be_evaluated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, *tune_arguments(model, data, tmp_path / "tuned"), "--json") == 0
    assert shown(capsys)["best_value"] == 100
    assert AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned").config.id2label[0] == "ADJ"
    evaluation = ("eval", tmp_path / "tuned", "--task", "pos", "--data", data)
    assert run(monkeypatch, *evaluation, "--json") == 0
    result = shown(capsys)
    assert result["mean"] == 100
    assert set(result["languages"]) == {"en", "sw"}
    assert run(monkeypatch, *evaluation, "--languages", "sw") == 0
    table = capsys.readouterr().out
    assert "100.00 to 100.00" in table
    assert "en" not in [cell.strip() for cell in table.split("│")]


def test_a_model_can_be_evaluated_under_a_mask(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, *tune_arguments(model, data, tmp_path / "tuned"), "--json") == 0
    tuned = AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned")
    (~HeadMask.full(find_heads(tuned))).save(tmp_path / "none.json")
    capsys.readouterr()
    arguments = (
        "eval",
        tmp_path / "tuned",
        "--task",
        "pos",
        "--data",
        data,
        "--mask",
        tmp_path / "none.json",
        "--json",
    )
    assert run(monkeypatch, *arguments) == 0
    assert 0 <= shown(capsys)["mean"] <= 100


def test_an_adapter_is_evaluated_with_its_base(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, *tune_arguments(model, data, tmp_path / "tuned"), "--json") == 0
    tuned = AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned")
    adapter = LoraConfig(task_type="TOKEN_CLS", target_modules=["query"], modules_to_save=["classifier"])
    get_peft_model(tuned, adapter).save_pretrained(tmp_path / "adapter")
    capsys.readouterr()
    assert run(monkeypatch, "eval", tmp_path / "adapter", "--task", "pos", "--data", data, "--json") == 0
    assert shown(capsys)["mean"] == 100
    assert run(monkeypatch, *tune_arguments(tmp_path / "adapter", data, tmp_path / "again")) == 1
    assert f"an adapter is tuned already: tune its base {tmp_path / 'tuned'} instead" in capsys.readouterr().err


def test_mistakes_get_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    mistakes = [
        (("eval", model, "--task", "pos", "--data", data), "tune it first"),
        (("eval", model, "--task", "pos", "--data", tmp_path / "nowhere"), "no such folder"),
        (("eval", model, "--task", "nli", "--data", "phrasebook"), "has no task 'nli'"),
        (("eval", model, "--task", "parsing", "--data", data), "parsing"),
        ((*tune_arguments(model, data, tmp_path / "o"), "--train-languages", "xx"), "no language 'xx'"),
        (
            (*tune_arguments(model, data, tmp_path / "o"), "--train-languages", ","),
            "--train-languages names no language",
        ),
        ((*tune_arguments(model, data, tmp_path / "o"), "--piece", "last"), "'text' or 'first'"),
    ]
    for arguments, message in mistakes:
        assert run(monkeypatch, *arguments) == 1
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("headwise: ")
        assert message in error
