"""`headwise eval` and `headwise tune`: a table per language, an ordinary checkpoint."""

import gzip
import itertools
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoModelForTokenClassification, BertModel, PreTrainedTokenizerFast

from headwise import HeadMask, find_heads
from headwise.data.examples import UPOS
from headwise.engine import evaluation
from headwise.engine.evaluation import Measurement
from headwise.support.progress import Progress
from headwise.tasks.evaluation import Evaluation
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
    for language, sentences in SENTENCES.items():
        write_treebank(tmp_path / "data" / "ud", language, sentences)
    return tmp_path / "data"


def write_treebank(folder: Path, language: str, sentences: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        with gzip.open(folder / f"{language}_toy-ud-{split}.conllu.gz", "wt", encoding="utf-8") as file:
            for number, text in enumerate(sentences * 4):
                file.write(f"# sent_id = {number}\n# text = {text}\n")
                for place, word in enumerate(text.split(), 1):
                    head, relation = (0, "root") if place == 1 else (1, "dep")
                    file.write(f"{place}\t{word}\t_\t{WORDS[word]}\t_\t_\t{head}\t{relation}\t_\t_\n")
                file.write("\n")


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


def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    mistakes = [
        (("eval", model, "--task", "pos", "--data", data), "tune it first"),
        (("eval", model, "--task", "pos", "--data", tmp_path / "nowhere"), "no such file or folder"),
        (("eval", model, "--task", "nli", "--data", "phrasebook"), "has no task 'nli'"),
        (("eval", model, "--task", "parsing", "--data", data), "parsing"),
        ((*tune_arguments(model, data, tmp_path / "o"), "--train-languages", "xx"), "no language 'xx'"),
        (
            (*tune_arguments(model, data, tmp_path / "o"), "--train-languages", ","),
            "--train-languages names no language",
        ),
        ((*tune_arguments(model, data, tmp_path / "o"), "--piece", "last"), "'text' or 'first'"),
        (
            (*tune_arguments(model, data, tmp_path / "o"), "--learning-rate", 1e38),
            "--learning-rate: a number from 0 to",
        ),
        (
            ("eval", model, "--task", "pos", "--data", data, "--beams", 4),
            "--beams is for the task translation, and pos",
        ),
        (
            ("eval", model, "--task", "pos", "--data", data, "--window", 4),
            "--window is for the task lm or continuation or",
        ),
        ((*tune_arguments(model, data, tmp_path / "o"), "--window", 4), "--window: only the task lm uses it, not pos"),
    ]
    for arguments, message in mistakes:
        assert run(monkeypatch, *arguments) == 1
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("headwise: ")
        assert message in error
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("option", "value"), [("--seed", -1), ("--patience", -3), ("--out", ""), ("--out", " "), ("--epochs", 0)]
)
def test_invalid_option_values_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: Path,
    data: Path,
    tmp_path: Path,
    option: str,
    value: object,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *tune_arguments(model, data, tmp_path / "o"), option, value) == 2
    assert option in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"model", "data"}


def last_error(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_only_a_tuned_model_is_replaced_and_only_with_overwrite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    out, message = tmp_path / "out", "the folder is not empty: choose another for --out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr("headwise.tuning.run.open_dataset", no_work)
        assert run(patch, *tune_arguments(model, data, out)) == 1
        assert message in last_error(capsys)
        assert run(patch, *tune_arguments(model, data, out), "--overwrite") == 1
        assert "headwise did not write this folder" in last_error(capsys)
    assert (out / "thesis.txt").read_text() == "mine"
    (out / "thesis.txt").unlink()
    assert run(monkeypatch, *tune_arguments(model, data, out)) == 0
    assert run(monkeypatch, *tune_arguments(model, data, out), "--seed", 7) == 1
    assert message in last_error(capsys)
    assert run(monkeypatch, *tune_arguments(model, data, out), "--seed", 7, "--overwrite") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"model", "data", "out"}


def test_a_finished_run_prints_its_result_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    command = (*tune_arguments(model, data, tmp_path / "out"), "--json")
    assert run(monkeypatch, *command) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr("headwise.tuning.run.open_dataset", no_work)
    assert run(monkeypatch, *command) == 0
    assert capsys.readouterr().out == first


def no_work(*arguments: object) -> None:
    raise AssertionError("work was done before the folder was looked at")


def test_inputs_are_never_overwritten(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(model)
    (tmp_path / "file").touch()
    for out, message in (
        (model, "this folder contains the model"),
        (".", "this folder contains the model"),
        ("..", "this folder contains the model"),
        (data, "this folder contains the data"),
        ("/", "this folder contains the model"),
        (tmp_path / "file", "a file with this name exists"),
    ):
        assert run(monkeypatch, *tune_arguments(model, data, Path(out)), "--overwrite") == 1
        assert last_error(capsys) == f"headwise: {out}: {message}: choose another folder for --out"
    assert (model / "config.json").is_file()


def test_the_current_folder_can_be_tuned_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert run(monkeypatch, *tune_arguments(model, data, Path())) == 0
    assert (tmp_path / "here" / "config.json").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"model", "data", "here"}


def interrupt_after(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, calls: int) -> None:
    """Raise KeyboardInterrupt at a call of a function, after a number of calls."""
    counted = itertools.count()
    function = getattr(module, name)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(counted) >= calls:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, interrupted)


def press_ctrl_c(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_run_prints_how_to_resume_and_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    command = tune_arguments(model, data, tmp_path / "my tagger")
    with monkeypatch.context() as stopping:
        stopping.setattr("headwise.tuning.run.save_tuned", press_ctrl_c)
        assert run(stopping, *command) == 130
    assert last_error(capsys).startswith("headwise: stopped; the results so far are saved; resume with: headwise tune ")
    assert (tmp_path / ".my tagger.tuning" / "state.json").is_file()
    other = (*command, "--train-languages", "sw")
    assert run(monkeypatch, *other) == 1
    expected = ".my tagger.tuning: the run that was stopped there had other training examples and dev examples: delete"
    assert expected in last_error(capsys)
    monkeypatch.setattr("headwise.tuning.loop._Run.train_epoch", no_work)  # all epochs are done
    assert run(monkeypatch, *command, "--json") == 0
    assert shown(capsys)["best_value"] == 100
    assert {path.name for path in tmp_path.iterdir()} == {"model", "data", "my tagger"}


def test_evaluation_counts_examples(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: Path, tagger: Path
) -> None:
    seen: list[tuple[float, float | None]] = []
    report = Progress.__call__

    def noted(self: Progress, done: float, total: float | None, status: str = "") -> None:
        seen.append((done, total))
        report(self, done, total, status)

    monkeypatch.setattr(Progress, "__call__", noted)
    assert run(monkeypatch, "eval", tagger, "--task", "pos", "--data", data, "--languages", "en") == 0
    total = seen[-1][1]
    assert total is not None
    assert total > 1
    assert [done for done, _ in seen] == [0, total]
    assert f"evaluating: 100% ({total} of {total} examples), en, " in capsys.readouterr().err


def test_an_interrupted_evaluation_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: Path, tagger: Path
) -> None:
    interrupt_after(monkeypatch, evaluation, "measure", 1)
    assert run(monkeypatch, "eval", tagger, "--task", "pos", "--data", data) == 130
    assert last_error(capsys) == "headwise: stopped"


@pytest.fixture
def tagger(tmp_path: Path, model: Path) -> Path:
    """An untrained tagger."""
    labels = dict(enumerate(UPOS))
    config = {"id2label": labels, "label2id": {label: number for number, label in labels.items()}}
    torch.manual_seed(1)
    tagger = AutoModelForTokenClassification.from_pretrained(model, **config)
    tagger.save_pretrained(tmp_path / "tagger")
    PreTrainedTokenizerFast.from_pretrained(model).save_pretrained(tmp_path / "tagger")
    return tmp_path / "tagger"


def test_a_mask_of_other_weights_needs_an_option(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    model: Path,
    data: Path,
    tagger: Path,
    tmp_path: Path,
) -> None:
    other = BertModel(BY_NAME["bert"].build(seed=9).config, add_pooling_layer=False)
    mask = tmp_path / "mask.json"
    (~HeadMask.full(find_heads(other))).save(mask)
    evaluation = ("eval", tagger, "--task", "pos", "--data", data)
    for command in (evaluation, tune_arguments(model, data, tmp_path / "o")):
        assert run(monkeypatch, *command, "--mask", mask) == 1
        assert "the mask is for the weights" in (error := last_error(capsys))
        assert "--other-weights" in error
        assert run(monkeypatch, *command, "--mask", mask, "--other-weights", "--json") == 0
        capsys.readouterr()


def test_languages_and_split_are_checked_before_the_model_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path
) -> None:
    monkeypatch.setattr("headwise.models.load_model", no_work)
    evaluation = ("eval", model, "--task", "pos", "--data", data)
    assert run(monkeypatch, *evaluation, "--languages", "en,sw,xx") == 1
    assert "no language 'xx'" in last_error(capsys)
    assert run(monkeypatch, *evaluation, "--split", "exam") == 1
    assert "no split 'exam'" in last_error(capsys)


def test_values_that_are_not_finite_are_valid_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: Path, tagger: Path
) -> None:
    broken = Evaluation("accuracy", math.inf, math.nan, math.inf, 3, 0, np.zeros((3, 2)))
    monkeypatch.setattr(evaluation, "measure", lambda *arguments: Measurement((broken,)))
    assert run(monkeypatch, "eval", tagger, "--task", "pos", "--data", data, "--json") == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found["mean"] == found["means"]["accuracy"] == "inf"
    row = found["languages"]["en"]
    assert (row["value"], row["low"], row["metrics"]["accuracy"]["high"]) == ("inf", None, "inf")


def test_sentences_that_are_too_long_are_truncated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    write_treebank(data / "ud", "fi", ["the cat " * 30, "cat sat"])
    way = ("--train-languages", "fi", "--epochs", 1, "--json")
    assert run(monkeypatch, *tune_arguments(model, data, tmp_path / "tuned"), *way) == 0
    capsys.readouterr()
    evaluation = ("eval", tmp_path / "tuned", "--task", "pos", "--data", data, "--languages", "fi", "--json")
    assert run(monkeypatch, *evaluation) == 0
    assert shown(capsys)["languages"]["fi"]["cut"] == 4


def test_device_and_dtype_are_printed_and_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: Path, data: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = ("--dtype", "bfloat16", "--device", "cpu")
    assert run(monkeypatch, *tune_arguments(model, data, tmp_path / "tuned"), *options) == 0
    assert "headwise: device cpu, dtype bfloat16\n" in capsys.readouterr().err
    assert AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned", dtype="auto").dtype == torch.bfloat16
    evaluation = ("eval", tmp_path / "tuned", "--task", "pos", "--data", data)
    assert run(monkeypatch, *evaluation) == 0
    assert "headwise: device cpu, dtype float32\n" in capsys.readouterr().err
    assert run(monkeypatch, *evaluation, "--dtype", "auto") == 0
    assert "headwise: device cpu, dtype as saved\n" in capsys.readouterr().err
    score = ("score", *evaluation[1:], "--languages", "en", "--budget", 900, "--out", tmp_path / "run")
    assert run(monkeypatch, *score, "--dtype", "bfloat16") == 0
    assert "headwise: device cpu, dtype bfloat16\n" in capsys.readouterr().err
    for command in (evaluation, score, tune_arguments(model, data, tmp_path / "other")):
        assert run(monkeypatch, *command, "--device", "cuda") == 1
        message = capsys.readouterr().err.strip().splitlines()[-1]
        assert message == "headwise: device: cuda is not available on this machine: use cpu or auto"
