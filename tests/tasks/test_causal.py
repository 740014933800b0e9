"""Language modelling: every token predicted once, the planted answer found, padding without influence."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Unigram, WordLevel
from torch import Tensor, nn
from transformers import GPT2Config, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from headwise import HeadwiseError, find_heads, gated, shrink
from headwise.data.examples import ChoiceExample
from headwise.tasks import likelihood
from headwise.tasks.causal import (
    MultipleChoice,
    evaluate_choices,
    make_windows,
    perplexity,
    score_choices,
)
from tests.families import BY_NAME, no_trace_left, random_mask, uneven_mask

FAMILIES = ["gpt2", "llama", "gemma2", "bloom", "qwen2"]
START = 1


@pytest.fixture(scope="module")
def words() -> Any:
    """One token a word: `w7` is 7. No padding token, as GPT-2 and Llama have none."""
    names = ["<unk>", "<s>", *(f"w{n}" for n in range(2, 50))]
    base = Tokenizer(WordLevel({name: number for number, name in enumerate(names)}, unk_token="<unk>"))
    base.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=base, bos_token="<s>", unk_token="<unk>")


def texts(count: int = 7, longest: int = 30) -> list[str]:
    generator = np.random.default_rng(0)
    lengths = generator.permutation(np.linspace(1, longest, count).astype(int))
    return [" ".join(f"w{n}" for n in generator.integers(2, 50, length)) for length in lengths]


class Successor(nn.Module):
    """After token n, token n + 1 has most of the probability; position and padding must not matter to it."""

    def __init__(self) -> None:
        super().__init__()
        self.config = GPT2Config(vocab_size=50, n_positions=64)
        self.sharpness = nn.Parameter(torch.tensor(5.0))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool) -> CausalLMOutput:
        return CausalLMOutput(logits=nn.functional.one_hot((input_ids + 1) % 50, 50) * self.sharpness)


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


PLANTED = [
    ChoiceExample("a", "w2 w3 w4", ("w9 w9", "w5 w6", "w8 w9"), 1),
    ChoiceExample("b", "w20", ("w21", "w2", "w3", "w30"), 0),
    ChoiceExample("c", "w7 w8 w9 w10 w11", ("w10", "w12"), 1),
    ChoiceExample("wrong", "w7", ("w8", "w12"), 1),
]


def test_the_planted_answer_is_chosen(words: Any) -> None:
    found = evaluate_choices(Successor(), MultipleChoice(window=64), PLANTED, words)
    assert found.statistics.tolist() == [[1, 1], [1, 1], [1, 1], [0, 1]]
    assert found.value == 75.0
    scores = score_choices(Successor(), MultipleChoice(window=64), PLANTED, words)
    assert scores.predicted == (1, 0, 1, 0)
    right = 5.0 - np.log(49 + np.exp(5.0))
    assert scores.scores[1] == pytest.approx([right, right - 5, right - 5, right - 5], abs=1e-5)
    assert scores.probabilities[1] == pytest.approx(1 / (1 + 3 * np.exp(-5)), abs=1e-6)


def test_long_answers_need_not_lose_by_their_length(words: Any) -> None:
    long = " ".join(f"w{n}" for n in range(3, 30))
    examples = [ChoiceExample("1", "w2", (long, "w2"), 0)]
    by = {way: MultipleChoice(way, window=64) for way in ("none", "tokens", "bytes")}
    plain, tokens, size = (score_choices(Successor(), task, examples, words).scores[0] for task in by.values())
    assert plain.argmax() == 1
    assert tokens == pytest.approx(plain / [27, 1])
    assert size == pytest.approx(plain / [len(long), 2])
    assert evaluate_choices(Successor(), by["tokens"], examples, words).value == 100


@pytest.mark.parametrize("name", FAMILIES)
def test_choices_are_scored_as_one_at_a_time(name: str, words: Any) -> None:
    model, task = BY_NAME[name].build(), MultipleChoice(window=40)
    found = score_choices(model, task, PLANTED, words)
    for example, scores in zip(PLANTED, found.scores, strict=True):
        before = [START, *(int(word[1:]) for word in example.context.split())]
        for choice, score in zip(example.choices, scores, strict=True):
            ids = before + [int(word[1:]) for word in choice.split()]
            with torch.no_grad():
                logs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            expected = sum(float(logs[place - 1, ids[place]]) for place in range(len(before), len(ids)))
            assert score == pytest.approx(expected, rel=1e-5)


def test_every_example_is_chosen_under_its_own_gates(words: Any) -> None:
    model, task = BY_NAME["llama"].build(), MultipleChoice(window=40)
    gates = torch.stack([random_mask(find_heads(model), seed).tensor() for seed in range(4)])
    found = score_choices(model, task, PLANTED, words, lambda rows: gated(model, gates[rows]))
    for row, example in enumerate(PLANTED):
        with gated(model, gates[row]):
            assert found.scores[row] == pytest.approx(score_choices(model, task, [example], words).scores[0], rel=1e-5)


def test_where_a_choice_changes_the_pieces_of_the_context_all_are_scored_from_there() -> None:
    pieces = [("<unk>", -9.0), ("<s>", -9.0), ("▁x", -1.0), ("▁a", -2.0), ("b", -2.0), ("c", -2.0), ("▁ab", -1.0)]
    base = Tokenizer(Unigram(pieces, unk_id=0))
    base.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, bos_token="<s>", unk_token="<unk>")
    (joined, split), _ = MultipleChoice(separator="").encode_choices(
        ChoiceExample("1", "x a", ("b", "c"), 0), tokenizer
    )
    assert (joined.ids, joined.gold) == ((1, 2), (6,))
    assert (split.ids, split.gold) == ((1, 2, 3), (3, 5))


def test_a_long_context_loses_its_beginning_and_is_counted(words: Any) -> None:
    task = MultipleChoice(window=3)
    encoded, cut = task.encode_choices(PLANTED[2], words)
    assert cut
    assert (encoded[1].ids, encoded[1].positions, encoded[1].gold) == ((9, 10, 11), (2,), (12,))
    assert score_choices(Successor(), task, PLANTED, words).cut == 2
    assert evaluate_choices(Successor(), task, PLANTED, words).cut == 2


def test_examples_that_cannot_be_are_named(words: Any) -> None:
    for example, message in (
        (replace(PLANTED[0], answer=3), "example a: the answer is 3, but there are 3 choices, numbered from 0"),
        (replace(PLANTED[0], choices=("w5", " "), answer=0), "example a: a choice has 0 tokens"),
        (replace(PLANTED[0], choices=("w5", "w6 " * 9)), "a choice has 9 tokens, but the window allows 1 to 8"),
    ):
        with pytest.raises(HeadwiseError, match=message):
            MultipleChoice(window=8).encode_choices(example, words)
