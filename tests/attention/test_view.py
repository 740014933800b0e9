"""Attention views: the weights that transformers returns, tokens as in the text, gates, and a page that is safe."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headwise as hw
from headwise import HeadMask, HeadwiseError, SoftMask, find_heads
from headwise.attention.tokens import token_row
from headwise.attention.view import AttentionView
from tests.attention.worlds import tiny_tokenizer
from tests.families import BY_NAME
from tests.report.reading import read

SENTENCES = {"en": "the dog sleeps .", "de": "ein hund schläft"}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def bert() -> Any:
    return BY_NAME["bert"].build(attn_implementation="eager").eval()


@pytest.fixture(scope="module")
def view(bert: Any, tokenizer: Any) -> AttentionView:
    return hw.attention(bert, tokenizer, SENTENCES)


def test_the_weights_are_those_of_the_model(view: AttentionView, bert: Any, tokenizer: Any) -> None:
    for place, text in enumerate(SENTENCES.values()):
        with torch.no_grad():
            maps = bert(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
        for head in find_heads(bert).players():
            _, layer, number = head.split(".")
            np.testing.assert_allclose(view.weights(head, place), maps[int(layer)][0, int(number)], atol=1e-6)


def test_tokens_are_shown_as_in_the_text_with_their_words(view: AttentionView) -> None:
    queries, keys = view.tokens("encoder.0.0")
    assert queries is keys
    assert queries.tokens == ("[CLS]", "the", "dog", "sleep", "s", ".", "[SEP]")
    assert queries.words == (0, 1, 2, 3, 3, 4, 5)
    assert queries.special == (True, False, False, False, False, False, True)


@pytest.mark.parametrize(
    ("text", "tokens", "words"),
    [
        ("狗在睡觉", ("狗", "在", "睡", "觉"), (1, 2, 3, 4)),  # no spaces between words: tokens are not merged
        ("كلب ينام", ("كلب", "ينام"), (1, 2)),
        ("The  SLEEPING", ("The", "SLEEP", "ING"), (1, 2, 2)),
    ],
)
def test_tokens_of_other_scripts(tokenizer: Any, text: str, tokens: tuple[str, ...], words: tuple[int, ...]) -> None:
    encoding = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    row = token_row(tokenizer, encoding, text, encoding["input_ids"][0].tolist())
    assert row.tokens[1:-1] == tokens
    assert row.words[1:-1] == words


def test_a_decoder_attends_to_the_past(tokenizer: Any) -> None:
    found = hw.attention(BY_NAME["llama"].build(), tokenizer, "the dog sleeps", heads=["decoder.1.2"])
    weights = found.weights("decoder.1.2")
    assert np.triu(weights, 1).max() == 0
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("family", ["t5", "bart", "marian"])
def test_cross_attention_is_between_target_and_source(tokenizer: Any, family: str) -> None:
    model = BY_NAME[family].build().eval()
    heads = ["encoder.0.0", "decoder.1.1", "cross.2.3"]
    found = hw.attention(model, tokenizer, ["the dog sleeps"], heads, targets=["ein hund"])
    queries, keys = found.tokens("cross.2.3")
    assert keys.tokens == ("[CLS]", "the", "dog", "sleep", "s", "[SEP]")
    assert queries.tokens[1:] == ("[CLS]", "ein", "hund")  # a start token, and all but the last token of the target
    assert found.weights("cross.2.3").shape == (4, 6)
    assert found.weights("decoder.1.1").shape == (4, 4)
    assert found.weights("encoder.0.0").shape == (6, 6)
    alone = hw.attention(model, tokenizer, "the dog sleeps")
    assert set(alone.heads) == {name for name in find_heads(model).players() if name.startswith("encoder")}
    np.testing.assert_array_equal(alone.weights("encoder.0.0"), found.weights("encoder.0.0"))


def test_a_mask_changes_the_layers_above_it(bert: Any, tokenizer: Any, view: AttentionView) -> None:
    mask = HeadMask.without(find_heads(bert), ["encoder.0.1"])
    masked = hw.attention(bert, tokenizer, SENTENCES, mask=mask)
    np.testing.assert_array_equal(masked.weights("encoder.0.1"), view.weights("encoder.0.1"))
    assert np.abs(masked.weights("encoder.1.0") - view.weights("encoder.1.0")).max() > 1e-4
    assert masked.gates == {"encoder.0.1": 0.0}
    heads = find_heads(bert)
    soft = SoftMask(heads.players(), (1.0, 0.5, *(1.0,) * 10))
    assert hw.attention(bert, tokenizer, "the dog", mask=soft).gates == {"encoder.0.1": 0.5}


def test_the_model_is_left_as_it_was(bert: Any, tokenizer: Any) -> None:
    model = BY_NAME["bert"].build(hidden_dropout_prob=0.5).train()
    one, two = (hw.attention(model, tokenizer, "the dog", heads=["encoder.2.0"]).weights("encoder.2.0") for _ in "ab")
    np.testing.assert_array_equal(one, two)  # without dropout
    assert model.training


def test_the_page_holds_tokens_and_weights(view: AttentionView, tmp_path: Path) -> None:
    view.save(tmp_path / "a.html")
    page = read((tmp_path / "a.html").read_text(encoding="utf-8").replace("<br>", ""))
    data = json.loads(page.all("script", id="data")[0].text)
    assert [sentence["label"] for sentence in data["sentences"]] == ["en", "de"]
    assert [head["name"] for head in data["heads"]] == list(view.heads)
    weights = np.array(data["sentences"][1]["weights"][5]).reshape(6, 6) / 1000
    np.testing.assert_allclose(weights, view.weights(view.heads[5], 1), atol=5.1e-4)


def test_text_is_escaped_in_the_page_and_in_the_notebook(bert: Any, tokenizer: Any) -> None:
    attack = "</script><script>alert(1)</script>"
    found = hw.attention(bert, tokenizer, {attack: f"dog {attack}"}, heads=["encoder.0.0"])
    assert attack not in found.page()
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown
    assert 'sandbox="allow-scripts"' in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sentences": []}, "sentences: give at least one sentence"),
        ({"heads": ["encoder.9.9"]}, "heads: there is no head 'encoder.9.9': there are encoder.0.0"),
        ({"heads": []}, "heads: give at least one head"),
        ({"targets": "ein hund"}, "targets: only sequence-to-sequence models have targets"),
    ],
)
def test_wrong_arguments_are_named(bert: Any, tokenizer: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        hw.attention(bert, tokenizer, **{"sentences": "the dog", **options})


def test_the_decoder_needs_targets(tokenizer: Any) -> None:
    model = BY_NAME["bart"].build()
    with pytest.raises(HeadwiseError, match=r"heads: cross\.0\.0 belongs to the decoder, which runs only with targets"):
        hw.attention(model, tokenizer, "the dog", heads=["cross.0.0"])
    with pytest.raises(HeadwiseError, match="targets: give one for each of the 2 sentences, not 1"):
        hw.attention(model, tokenizer, ["the dog", "dog"], targets=["ein"])


def test_too_many_weights_are_refused(bert: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwise.attention.view.MOST_WEIGHTS", 100)
    with pytest.raises(HeadwiseError, match="heads: 12 heads on 4 tokens are too many for a page: choose some heads"):
        hw.attention(bert, tokenizer, "the dog")
