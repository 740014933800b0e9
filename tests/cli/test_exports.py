"""Ordinary and folded checkpoints load in plain transformers with the same logits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import BertModel, PreTrainedTokenizerFast

from headwise import HeadMask, find_heads, gated, load_pruned
from headwise.models import add_head, load_model
from tests.cli.running import run
from tests.families import BY_NAME, difference, enliven, uneven_mask

AUTO = {
    "intents": "AutoModelForSequenceClassification",
    "nli": "AutoModelForSequenceClassification",
    "pos": "AutoModelForTokenClassification",
    "translation": "AutoModelForSeq2SeqLM",
    "lm": "AutoModelForCausalLM",
}
IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}


def save(folder: Path, model: Any) -> Path:
    model.save_pretrained(folder)
    names = ["<s>", "<pad>", "</s>", "<unk>", *(f"w{n}" for n in range(4, 50))]
    words = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


def save_encoder(folder: Path) -> Path:
    torch.manual_seed(0)
    encoder = BertModel(BY_NAME["bert"].build().config, add_pooling_layer=False)
    enliven(encoder)
    return save(folder, encoder)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few examples of every task."""
    texts = [f"w{n} w{n + 1} w{n + 2}" for n in range(5, 25)]
    splits = ("train", "dev", "test")
    rows = [
        {"id": f"{split}{n}", "locale": "x", "partition": split, "intent": "ab"[n % 2], "utt": text, "annot_utt": text}
        for split in splits
        for n, text in enumerate(texts)
    ]
    pairs = [f"{'neutral' if n % 2 else 'entailment'}\t{text}\tw{n + 5}\t{n}" for n, text in enumerate(texts)]
    tags = [f"# sent_id = {n}\n1\tw{n + 5}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n" for n in range(20)]
    files = {
        "massive/en-US.jsonl": "\n".join(map(json.dumps, rows)),
        "mt/en-de.tsv": "".join(f"{text}\t{text}\n" for text in texts * 12),
        "mt/flores200.en.txt": "\n".join(texts),
        "mt/flores200.de.txt": "\n".join(texts),
        "lm/en.train.txt": "\n".join(texts),
    }
    files |= {
        f"mnli/mnli.{each}.tsv": "gold_label\tsentence1\tsentence2\tpairID\n" + "\n".join(pairs) for each in splits
    }
    files |= {f"ud/en_toy-ud-{each}.conllu": "".join(tags) for each in splits}
    for name, text in files.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(text)
    return tmp_path / "data"


@pytest.fixture
def tiny_e5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces e5-small by a tiny encoder."""
    folder = save_encoder(tmp_path / "e5")
    for module in ("e5", "loading"):
        monkeypatch.setattr(f"headwise.models.{module}.e5_small_folder", lambda: folder)


def logits_of(model: Any) -> Tensor:
    ids = torch.randint(4, 50, (3, 7), generator=torch.Generator().manual_seed(1))
    decoder = {"decoder_input_ids": ids[:, :4]} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        found: Tensor = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids), **decoder).logits
    return found


def plain(task: str, folder: Path) -> Any:
    """The model as loaded by plain transformers; no weight may be newly initialized."""
    model, found = getattr(transformers, AUTO[task]).from_pretrained(folder, output_loading_info=True)
    assert not found["missing_keys"]
    assert not found["mismatched_keys"]
    return model


@pytest.mark.usefixtures("tiny_e5")
@pytest.mark.parametrize("task", AUTO)
def test_every_export_of_every_task_has_the_same_logits(
    monkeypatch: pytest.MonkeyPatch, data: Path, tmp_path: Path, task: str
) -> None:
    written: dict[str, Callable[[], Any]] = {
        "translation": lambda: BY_NAME["marian"].build(**IDS),
        "lm": lambda: BY_NAME["gpt2"].build(),
    }
    model = save(tmp_path / "model", written[task]()) if task in written else "e5-small"
    tuned = tmp_path / "tuned"
    languages = "en-de_tatoeba" if task == "translation" else "en"
    options = ("--train-languages", languages, "--learning-rate", 0.001, "--out", tuned)
    assert run(monkeypatch, "tune", model, "--task", task, "--data", data, "--epochs", 1, *options) == 0
    mine = load_model(tuned)
    assert difference(logits_of(plain(task, tuned)), logits_of(mine)) < 1e-6

    mask = uneven_mask(find_heads(mine))
    mask.save(tmp_path / "mask.json")
    with gated(mine, mask):
        expected = logits_of(mine)
    assert difference(expected, logits_of(mine)) > 1e-3
    for export in ("mask", "folded", "shrunk"):
        command = ("prune", tuned, "--mask", tmp_path / "mask.json", "--export", export, "--out", tmp_path / export)
        assert run(monkeypatch, *command) == 0
    assert difference(logits_of(plain(task, tmp_path / "folded")), expected) < 1e-5
    assert difference(logits_of(load_pruned(tmp_path / "shrunk")), expected) < 1e-5
    again = plain(task, tuned).eval()
    with gated(again, HeadMask.load(tmp_path / "mask" / "mask.json")):
        assert difference(logits_of(again), expected) < 1e-6


def test_a_mean_pooled_classifier_is_not_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model = add_head(save_encoder(tmp_path / "encoder"), "sequence", ("a", "b"), mean_pooling=True)
    transformers.PreTrainedModel.save_pretrained(model, tmp_path / "old")
    uneven_mask(find_heads(model)).save(tmp_path / "mask.json")
    command = ("prune", tmp_path / "old", "--mask", tmp_path / "mask.json", "--out", tmp_path / "out", "--export")
    assert run(monkeypatch, *command, "folded") == 1
    assert "use --export shrunk (save_pruned) or --export mask, or tune e5-small" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(monkeypatch, *command, "shrunk") == 0
    assert type(load_model(tmp_path / "out")) is type(model)
