"""`headwise eval` and `headwise tune` for translation and language modelling."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, BertModel, PreTrainedTokenizerFast

from headwise import HeadMask, find_heads, save_pruned, shrink
from headwise.models import load_model
from headwise.tasks.causal import perplexity
from tests.cli.running import run
from tests.families import BY_NAME, uneven_mask

IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def words(end: bool) -> Any:
    """A tokenizer with one token per word and the vocabulary size of the tiny models."""
    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{n}" for n in range(4, 50))]
    base = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if end:
        base.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=base, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


def save(folder: Path, model: Any) -> Path:
    model.save_pretrained(folder)
    words(end=model.config.is_encoder_decoder).save_pretrained(folder)
    return folder


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    model = BY_NAME["marian"].build(**IDS)
    model.generation_config.no_repeat_ngram_size = 1  # so that the output of a random model depends on its heads
    return save(tmp_path / "translator", model)


@pytest.fixture
def writer(tmp_path: Path) -> Path:
    return save(tmp_path / "writer", BY_NAME["gpt2"].build())


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    return save(tmp_path / "encoder", BertModel(BY_NAME["bert"].build().config, add_pooling_layer=False))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Sentences with a word order that can be learnt; all translations start with the same words."""
    generator = np.random.default_rng(0)
    starts = generator.integers(4, 40, 200)
    sentences = [" ".join(f"w{n}" for n in range(start, start + 2 + start % 4)) for start in starts]
    folder = tmp_path / "data"
    for name, lines in {
        "mt/en-de.tsv": [f"{text}\tw5 w6 w7 w8 {text}" for text in sentences],
        "mt/flores200.en.txt": sentences[:40],
        "mt/flores200.de.txt": sentences[:40],
        "mt/flores200.zh.txt": sentences[:40],
        "lm/en.train.txt": sentences[40:],
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def shown(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def nothing_on(folder: Path, path: Path) -> Path:
    (~HeadMask.full(find_heads(load_model(folder)))).save(path)
    return path


def test_translation_is_measured_by_bleu_and_chrf(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], translator: Path, data: Path, tmp_path: Path
) -> None:
    command = ("eval", translator, "--task", "translation", "--data", data)
    assert run(monkeypatch, *command, "--json") == 0
    result = shown(capsys)
    assert result["metric"] == "bleu"
    assert set(result["means"]) == {"bleu", "chrf"}
    assert set(result["languages"]) == {"de-en", "en-de", "en-zh", "zh-en"}, "pairs without English must be named"
    row = result["languages"]["en-zh"]
    assert row["examples"] == 20
    assert row["metrics"]["chrf"]["low"] < row["metrics"]["chrf"]["value"] < row["metrics"]["chrf"]["high"]
    assert row["value"] == row["metrics"]["bleu"]["value"]
    assert "tok:zh" in row["signatures"]["bleu"]
    assert "tok:13a" in result["languages"]["en-de"]["signatures"]["bleu"]
    others = (("--beams", 3), ("--mask", nothing_on(translator, tmp_path / "none.json")))
    for options in others:
        assert run(monkeypatch, *command, *options, "--languages", "en-de", "--json") == 0
        other = shown(capsys)["languages"]["en-de"]
        assert other["metrics"] != result["languages"]["en-de"]["metrics"]
    assert run(monkeypatch, *command) == 0
    table = capsys.readouterr().out
    assert all(word in table for word in ("bleu", "chrf", "95% interval", "tok:zh", "halves"))


def test_language_models_are_measured_by_perplexity(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writer: Path, data: Path, tmp_path: Path
) -> None:
    command = ("eval", writer, "--task", "lm", "--data", data, "--languages", "en,zh")
    assert run(monkeypatch, *command, "--json") == 0
    result = shown(capsys)
    lines = (data / "mt" / "flores200.en.txt").read_text().splitlines()[1::2]
    expected = perplexity(load_model(writer), lines, words(end=False), window=40)
    assert result["metric"] == "perplexity"
    assert result["languages"]["en"]["value"] == pytest.approx(expected.value)
    assert result["languages"]["en"]["low"] == pytest.approx(expected.low)
    for options in (("--window", 2), ("--mask", nothing_on(writer, tmp_path / "none.json"))):
        assert run(monkeypatch, *command, *options, "--json") == 0
        assert shown(capsys)["mean"] != pytest.approx(result["mean"])
    assert run(monkeypatch, *command) == 0
    assert "perplexity" in capsys.readouterr().out


def tune_arguments(model: Path, task: str, data: Path, out: Path) -> tuple[object, ...]:
    way = ("--epochs", 12, "--learning-rate", 0.01, "--train-embeddings", "--batch-tokens", 128, "--json")
    pairs = ("--train-languages", "en-de_tatoeba") if task == "translation" else ()
    return ("tune", model, "--task", task, "--data", data, "--out", out, *way, *pairs)


def test_a_tuned_translator_translates_better(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], translator: Path, data: Path, tmp_path: Path
) -> None:
    command = ("--task", "translation", "--data", data, "--languages", "en-de_tatoeba", "--json")
    assert run(monkeypatch, "eval", translator, *command) == 0
    before = shown(capsys)["mean"]
    assert run(monkeypatch, *tune_arguments(translator, "translation", data, tmp_path / "tuned")) == 0
    result = shown(capsys)
    assert result["metric"] == "log-likelihood per token"
    assert result["history"][0][1] < result["best_value"] < 0
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned").config.model_type == "marian"
    assert run(monkeypatch, "eval", tmp_path / "tuned", *command) == 0
    assert shown(capsys)["mean"] > before + 4


def test_a_tuned_language_model_has_a_lower_perplexity(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writer: Path, data: Path, tmp_path: Path
) -> None:
    command = ("--task", "lm", "--data", data, "--languages", "en", "--json")
    assert run(monkeypatch, "eval", writer, *command) == 0
    before = shown(capsys)["mean"]
    assert run(monkeypatch, *tune_arguments(writer, "lm", data, tmp_path / "tuned")) == 0
    assert shown(capsys)["best_value"] > -np.log(before)
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "tuned").config.model_type == "gpt2"
    assert run(monkeypatch, "eval", tmp_path / "tuned", *command) == 0
    assert shown(capsys)["mean"] < before / 2


def test_a_shrunk_model_is_tuned_and_stays_shrunk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writer: Path, data: Path, tmp_path: Path
) -> None:
    model = load_model(writer)
    save_pruned(shrink(model, uneven_mask(find_heads(model))), tmp_path / "cut", words(end=False))
    assert run(monkeypatch, *tune_arguments(tmp_path / "cut", "lm", data, tmp_path / "tuned")) == 0
    value = shown(capsys)["best_value"]
    assert find_heads(load_model(tmp_path / "tuned")).players() == find_heads(load_model(tmp_path / "cut")).players()
    assert (
        run(
            monkeypatch,
            "eval",
            tmp_path / "tuned",
            "--task",
            "lm",
            "--data",
            data,
            "--split",
            "dev",
            "--languages",
            "en",
            "--json",
        )
        == 0
    )
    assert shown(capsys)["mean"] == pytest.approx(float(np.exp(-value)), rel=1e-4)


def test_tuning_always_uses_single_precision(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path
) -> None:
    folder = save(tmp_path / "half", BY_NAME["gpt2"].build().bfloat16())
    assert run(monkeypatch, *tune_arguments(folder, "lm", data, tmp_path / "tuned")) == 0
    assert load_model(tmp_path / "tuned").dtype == torch.float32


def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    translator: Path,
    writer: Path,
    encoder: Path,
    data: Path,
    tmp_path: Path,
) -> None:
    wanted = "a sequence-to-sequence model such as Marian or mT5"
    mistakes = [
        (("eval", encoder, "--task", "translation"), f"a BertModel cannot do the task translation: use {wanted}"),
        (("eval", writer, "--task", "translation"), f"a GPT2LMHeadModel cannot do the task translation: use {wanted}"),
        (("eval", encoder, "--task", "lm"), "a BertModel cannot do the task lm: use a causal language model"),
        (("eval", translator, "--task", "lm"), "a MarianMTModel cannot do the task lm: use a causal language model"),
        (
            ("eval", writer, "--task", "lm", "--window", 41),
            "a window of 41 tokens does not fit the model: use 1 to 40",
        ),
        (("tune", encoder, "--task", "lm", "--out", tmp_path / "o"), "a BertModel cannot do the task lm"),
        (("tune", writer, "--task", "lm", "--out", tmp_path / "o", "--train-languages", "zh"), "no split 'train'"),
    ]
    for arguments, message in mistakes:
        assert run(monkeypatch, *arguments, "--data", data) == 1
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("headwise: ")
        assert message in error
    assert not (tmp_path / "o").exists()


def test_ls_names_the_tasks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "ls", "tasks") == 0
    assert {"translation", "lm"} <= set(capsys.readouterr().out.split())


def test_choices_of_own_data_are_evaluated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writer: Path, tmp_path: Path
) -> None:
    rows = [
        {"context": "w12 w13", "choices": ["w14", "w9 w9"], "answer": n % 2, "language": "en", "split": "test"}
        for n in range(4)
    ]
    data = tmp_path / "choices.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("eval", str(writer), "--task", "choice", "--data", str(data))
    run(monkeypatch, *command, "--json")
    found = shown(capsys)["languages"]["en"]
    assert (found["examples"], found["value"]) == (4, 50)  # the context and the choices are always the same
    data.write_text(json.dumps({**rows[0], "answer": 2}) + "\n")
    assert run(monkeypatch, *command) == 1
    assert "line 1: the answer must be the number of a choice, counted from 0 to 1, not 2" in capsys.readouterr().err


OWN: dict[str, list[dict[str, Any]]] = {
    "choice": [
        {"context": f"w{n} w13", "choices": ["w14", f"w{n} w9"], "answer": n % 2, "language": "en"}
        for n in range(4, 34)
    ],
    "minimal-pairs": [{"good": f"w{n} w13 w14", "bad": f"w{n} w14 w13", "language": "en"} for n in range(4, 34)],
    "continuation": [{"prompt": f"w{n} w13", "continuation": f"w14 w{n}", "language": "en"} for n in range(4, 34)],
    "lm": [{"text": f"w{n} w13 w{n + 1}", "language": "en"} for n in range(4, 34)],
}


@pytest.mark.parametrize(
    ("task", "game"),
    [
        ("choice-per-byte", "probability"),
        ("minimal-pairs", "margin"),
        ("continuation", "log-likelihood-per-byte"),
        ("lm", "log-likelihood-per-character"),
    ],
)
def test_heads_of_writing_models_are_scored_refined_pruned_and_evaluated(
    task: str,
    game: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    writer: Path,
    tmp_path: Path,
) -> None:
    data, folder = tmp_path / "own.jsonl", tmp_path / "run"
    data.write_text("".join(json.dumps(row) + "\n" for row in OWN[task.removesuffix("-per-byte")]))
    common = ("--task", task, "--data", data)
    scoring = ("--game", game, "--method", "permutation", "--budget", 200, "--out", folder, "--json")
    assert run(monkeypatch, "score", writer, *common, *scoring) == 0
    assert shown(capsys)["languages"]["en"]["examples"] == 6
    assert run(monkeypatch, "refine", folder, "--json") == 0
    shown(capsys)
    pruned = tmp_path / "pruned"
    assert run(monkeypatch, "prune", folder, "--language", "en", "--count", 3, "--out", pruned, "--json") == 0
    shown(capsys)
    assert run(monkeypatch, "eval", pruned, *common, "--json") == 0
    result = shown(capsys)
    assert result["metric"] == ("accuracy" if task in ("choice-per-byte", "minimal-pairs") else "perplexity")
    assert result["languages"]["en"]["examples"] == 6
    if task in ("continuation", "lm"):
        assert {"bits per byte", "bits per character"} <= set(result["means"])


def test_choices_cannot_be_tuned_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writer: Path, tmp_path: Path
) -> None:
    data = tmp_path / "own.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in OWN["choice"]))
    assert run(monkeypatch, "tune", writer, "--task", "choice", "--data", data, "--out", tmp_path / "out") == 1
    assert "an example of the task 'choice' is several sequences" in capsys.readouterr().err
