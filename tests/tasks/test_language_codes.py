"""Models of many languages: codes are found for every language, set for every pair, and given to the decoder."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headwise import HeadwiseError
from headwise.data.examples import TranslationExample
from headwise.tasks.language_codes import find_code, has_codes, speaking
from headwise.tasks.translation import TranslationTask, score_references, translate
from tests.cli.running import run
from tests.families import BY_NAME
from tests.nllb import CODES, LETTERS, nllb_like

IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
TASK = TranslationTask(max_length=40)
EXAMPLES = [
    TranslationExample("1", "abc de", "fgh", "en-sw"),
    TranslationExample("2", "fgh", "abc de", "sw-en"),
    TranslationExample("3", "ab", "ij kl", "en-zh"),
    TranslationExample("4", "k", "l", "en-sw"),
]


@pytest.fixture
def tokenizer() -> Any:
    return nllb_like()


def build() -> Any:
    model = BY_NAME["m2m_100"].build(**IDS)
    model.generation_config.no_repeat_ngram_size = 1
    return model


@pytest.mark.parametrize(
    ("language", "codes", "expected"),
    [
        ("sw", CODES, "swh_Latn"),
        ("zh", [*CODES, "zho_Hant"], "zho_Hans"),
        ("zh-TW", [*CODES, "zho_Hant"], "zho_Hant"),
        ("fra_Latn", CODES, "fra_Latn"),
        ("sw", ["en", "fr", "sw"], "sw"),
        ("en", ["en_XX", "sw_KE", "zh_CN"], "en_XX"),
        ("zh", ["en_XX", "sw_KE", "zh_CN"], "zh_CN"),
    ],
)
def test_codes_are_found(language: str, codes: list[str], expected: str) -> None:
    assert find_code(SimpleNamespace(lang_code_to_id=dict.fromkeys(codes, 0)), language) == expected


def test_the_codes_of_nllb_are_among_its_special_tokens(tokenizer: Any) -> None:
    assert has_codes(tokenizer)
    assert [find_code(tokenizer, code) for code in ("en", "fr", "sw", "zh")] == CODES
    with pytest.raises(HeadwiseError, match="languages: the model has no code for 'tr'; its codes are eng_Latn"):
        find_code(tokenizer, "tr")


def test_the_languages_of_a_tokenizer_are_restored(tokenizer: Any) -> None:
    def stopped() -> None:
        with speaking(tokenizer, "sw-zh") as first:
            assert first == tokenizer.convert_tokens_to_ids("zho_Hans")
            assert (tokenizer.src_lang, tokenizer.tgt_lang) == ("swh_Latn", "zho_Hans")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert (tokenizer.src_lang, tokenizer.tgt_lang) == ("eng_Latn", None)


def test_every_pair_is_encoded_in_its_languages(tokenizer: Any) -> None:
    encoded, cut = TASK.encode(EXAMPLES, tokenizer)
    code = {name: tokenizer.convert_tokens_to_ids(name) for name in CODES}
    sources = [code[name] for name in ("eng_Latn", "swh_Latn", "eng_Latn", "eng_Latn")]
    targets = [code[name] for name in ("swh_Latn", "eng_Latn", "zho_Hans", "swh_Latn")]
    assert ([each.ids[0] for each in encoded], cut) == (sources, 0)
    assert [each.target[0] for each in encoded] == [each.language for each in encoded] == targets
    for each, example in zip(encoded, EXAMPLES, strict=True):
        assert each.positions[0] == 1, "the code is given, so its likelihood does not count"
        assert tokenizer.decode(each.gold, skip_special_tokens=True) == example.target
    one, _ = TASK.encode(EXAMPLES[3:], tokenizer)
    assert one[0] == encoded[3]


def test_translations_begin_with_the_code_of_their_own_pair(tokenizer: Any) -> None:
    model = build()
    encoded, _ = TASK.encode(EXAMPLES, tokenizer)
    texts = translate(model, TASK, encoded, tokenizer)
    for each, text in zip(encoded, texts, strict=True):
        written = model.generate(
            input_ids=torch.tensor([each.ids]),
            forced_bos_token_id=each.language,
            max_new_tokens=TASK.limit(len(each.ids)),
        )
        assert text == tokenizer.decode(written[0], skip_special_tokens=True).strip()
    alone = [translate(model, TASK, [each], tokenizer)[0] for each in encoded]
    assert list(texts) == alone
    assert score_references(model, encoded, 1).tokens.tolist() == [len(each.gold) for each in encoded]


def test_a_language_code_as_start_token(tokenizer: Any) -> None:
    """As in the first mBART: the code is at the end of a text, and the decoder starts with it."""
    if not hasattr(tokenizer, "legacy_behaviour"):
        pytest.skip("this tokenizer has no old format")
    tokenizer.legacy_behaviour = True
    model = build()
    encoded, _ = TASK.encode(EXAMPLES[:1], tokenizer)
    assert encoded[0].target[-1] == encoded[0].language
    written = model.generate(
        input_ids=torch.tensor([encoded[0].ids]), decoder_start_token_id=encoded[0].language,
        max_new_tokens=TASK.limit(len(encoded[0].ids)),
    )  # fmt: skip
    assert (
        translate(model, TASK, encoded, tokenizer)[0] == tokenizer.decode(written[0], skip_special_tokens=True).strip()
    )


def test_examples_without_languages_are_refused(tokenizer: Any) -> None:
    with pytest.raises(HeadwiseError, match=r"name them as in --languages en-sw"):
        TASK.encode([TranslationExample("1", "abc", "def")], tokenizer)


def test_a_direction_without_english_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, tokenizer: Any
) -> None:
    build().save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "data" / "mt").mkdir(parents=True)
    for place, code in enumerate(("en", "sw", "fr")):
        lines = [f"{letter}{LETTERS[place]} abc" for letter in LETTERS[:8]]
        (tmp_path / "data" / "mt" / f"flores200.{code}.txt").write_text("\n".join(lines) + "\n")
    data = ("--task", "translation", "--data", tmp_path / "data", "--languages", "fr-sw")
    score = ("score", tmp_path / "model", *data, "--method", "gradient-screen", "--game", "log-likelihood")
    assert run(monkeypatch, *score, "--budget", 200, "--out", tmp_path / "run") == 0
    prune = ("prune", tmp_path / "run", "--language", "fr-sw", "--count", 3, "--out", tmp_path / "pruned")
    assert run(monkeypatch, *prune) == 0
    capsys.readouterr()
    assert run(monkeypatch, "eval", tmp_path / "pruned", *data, "--split", "test", "--json") == 0
    languages = json.loads(capsys.readouterr().out)["languages"]
    assert {pair: found["examples"] for pair, found in languages.items()} == {"fr-sw": 4}
    assert set(languages["fr-sw"]["metrics"]) == {"bleu", "chrf"}
