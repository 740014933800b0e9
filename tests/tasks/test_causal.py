"""Language modelling: every token predicted once, the planted answer found, padding without influence."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from headwise import HeadwiseError, find_heads, gated, shrink
from headwise.data.examples import TextExample
from headwise.tasks import likelihood
from headwise.tasks.causal import LanguageTask, make_windows, measure_texts, perplexity
from headwise.tasks.encoding import TextSize
from tests.families import BY_NAME, no_trace_left, random_mask, uneven_mask

FAMILIES = ["gpt2", "llama", "gemma2", "bloom", "qwen2"]
START = 1


def texts(count: int = 7, longest: int = 30) -> list[str]:
    generator = np.random.default_rng(0)
    lengths = generator.permutation(np.linspace(1, longest, count).astype(int))
    return [" ".join(f"w{n}" for n in generator.integers(2, 50, length)) for length in lengths]


@given(st.integers(1, 40), st.integers(1, 12), st.data())
def test_windows_cover_every_token_once_with_enough_before_it(length: int, window: int, data: Any) -> None:
    stride = data.draw(st.integers(1, window))
    ids = tuple(range(length))
    found = list(make_windows(ids, window, stride))
    assert [token for each in found for token in each.gold] == list(ids[1:])
    for each in found:
        assert len(each.ids) <= window
        for position, token in zip(each.positions, each.gold, strict=True):
            assert each.ids[position] == token - 1  # read off where the token before it was read
            assert position + 1 >= min(token, window - stride + 1)  # what it sees, itself not counted


@pytest.mark.parametrize("name", FAMILIES)
def test_perplexity_is_that_of_a_plain_loop(name: str, words: Any) -> None:
    model = BY_NAME[name].build()
    total, count = 0.0, 0
    for text in texts():
        ids = [START, *(int(word[1:]) for word in text.split())]
        for place in range(1, len(ids)):
            with torch.no_grad():
                logits = model(torch.tensor([ids[:place]])).logits[0, -1]
            total, count = total + float(logits.log_softmax(-1)[ids[place]]), count + 1
    found = perplexity(model, texts(), words, window=40)
    assert found.value == pytest.approx(np.exp(-total / count), rel=1e-5)
    assert found.statistics.sum(0) == pytest.approx([total, count], rel=1e-5)
    assert found.low < found.value < found.high
    assert (found.metric, found.examples, found.cut) == ("perplexity", 7, 0)


@pytest.mark.parametrize(("window", "stride"), [(8, 4), (8, 8), (8, 3), (5, 1)])
def test_long_texts_are_read_in_windows(window: int, stride: int, words: Any) -> None:
    model = BY_NAME["gpt2"].build()
    text = texts(1, 1)[0] + " " + texts(2, 30)[0] + " " + texts(2, 30)[1]
    ids = [START, *(int(word[1:]) for word in text.split())]
    total = 0.0
    for place in range(1, len(ids)):
        # The block of gold tokens that the token is in ends before `end`; the window ends one before that.
        blocks = -(-max(0, place - window) // stride)
        end = min(1 + window + blocks * stride, len(ids))
        context = ids[max(0, end - 1 - window) : place]
        with torch.no_grad():
            total += float(model(torch.tensor([context])).logits[0, -1].log_softmax(-1)[ids[place]])
    found = perplexity(model, [text], words, window, stride)
    assert found.statistics[0] == pytest.approx([total, len(ids) - 1], rel=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", FAMILIES)
def test_padding_has_no_influence(name: str, side: str, words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = BY_NAME[name].build()
    monkeypatch.setattr(words, "padding_side", side)
    together = perplexity(model, texts(), words, window=10).statistics
    alone = np.stack([perplexity(model, [text], words, window=10).statistics[0] for text in texts()])
    np.testing.assert_allclose(together, alone, rtol=1e-5)
    monkeypatch.setattr(likelihood, "LOGIT_BUDGET", 50 * 25)  # batches of 25 tokens
    np.testing.assert_allclose(perplexity(model, texts(), words, window=10).statistics, alone, rtol=1e-5)


def test_every_text_runs_under_its_own_gates_in_all_its_windows(words: Any) -> None:
    model = BY_NAME["llama"].build()
    gates = torch.stack([random_mask(find_heads(model), seed).tensor() for seed in range(7)])

    def gating(rows: list[int]) -> AbstractContextManager[None]:
        return gated(model, gates[rows])

    with no_trace_left(model):
        found = perplexity(model, texts(), words, window=10, gating=gating).statistics
    for row, text in enumerate(texts()):
        with gated(model, gates[row]):
            np.testing.assert_allclose(perplexity(model, [text], words, window=10).statistics[0], found[row], rtol=1e-5)
    assert not np.allclose(found, perplexity(model, texts(), words, window=10).statistics)


def test_cut_and_gated_models_predict_alike(words: Any) -> None:
    model = BY_NAME["llama"].build()
    mask = uneven_mask(find_heads(model))
    with gated(model, mask):
        expected = perplexity(model, texts(), words, window=16)
    assert perplexity(shrink(model, mask), texts(), words, window=16).value == pytest.approx(expected.value, rel=1e-5)


def test_an_empty_text_adds_nothing(words: Any) -> None:
    model = BY_NAME["gpt2"].build()
    found = perplexity(model, ["", *texts()], words, window=40)
    assert found.statistics[0].tolist() == [0, 0]
    assert found.value == pytest.approx(perplexity(model, texts(), words, window=40).value)
    with pytest.raises(HeadwiseError, match="no tokens to predict"):
        perplexity(model, [""], words, window=40)


def test_windows_that_do_not_fit_are_refused(words: Any) -> None:
    model = BY_NAME["gpt2"].build()
    with pytest.raises(HeadwiseError, match="a window of 41 tokens does not fit the model: use 1 to 40"):
        perplexity(model, texts(), words, window=41)
    with pytest.raises(HeadwiseError, match="a stride of 9 does not fit a window of 8: use 1 to 8"):
        perplexity(model, texts(), words, window=8, stride=9)


def test_a_tokenizer_must_have_a_start(words: Any) -> None:
    bare = PreTrainedTokenizerFast(tokenizer_object=words.backend_tokenizer, unk_token="<unk>")
    with pytest.raises(HeadwiseError, match="no start token"):
        perplexity(BY_NAME["gpt2"].build(), texts(), bare, window=40)


def test_bits_per_byte_and_per_character_are_of_the_whole_text(words: Any) -> None:
    model, long = BY_NAME["gpt2"].build(), [text.replace("w7", "w7 größer") for text in texts()]
    tokens, per_byte, per_character = measure_texts(model, long, words, window=10)
    bits = -tokens.statistics[:, 0].sum() / np.log(2)
    assert per_byte.value == pytest.approx(bits / sum(len(text.encode()) for text in long))
    assert per_character.value == pytest.approx(bits / sum(map(len, long)))
    assert per_byte.value < per_character.value
    assert per_byte.low < per_byte.value < per_byte.high


def test_an_encoded_text_knows_the_length_of_what_is_read_of_it(words: Any) -> None:
    (whole, cut), count = LanguageTask(window=3).encode(
        [TextExample("1", "w2 w3"), TextExample("2", "w22 " * 9)], words
    )
    assert (whole.size, cut.size, count) == (TextSize(5, 5), TextSize(11, 11), 1)  # "w22 w22 w22"
    assert len(whole.content()) == 3  # the size is no input of the model
