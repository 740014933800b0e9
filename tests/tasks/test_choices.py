"""Multiple choice and minimal pairs: the planted answer is found, choices are scored as one at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import Unigram
from torch import Tensor, nn
from transformers import GPT2Config, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from headwise import HeadwiseError, find_heads, gated
from headwise.data.examples import ChoiceExample
from headwise.tasks.causal import perplexity
from headwise.tasks.choices import MultipleChoice
from headwise.tasks.continuation import encode_pair
from tests.families import BY_NAME, random_mask
from tests.plain_choices import evaluate_choices, score_choices

FAMILIES = ["gpt2", "llama", "gemma2", "bloom", "qwen2"]


class Successor(nn.Module):
    """After token n, token n + 1 has most of the probability; position and padding must not matter to it."""

    def __init__(self) -> None:
        super().__init__()
        self.config = GPT2Config(vocab_size=50, n_positions=64)
        self.sharpness = nn.Parameter(torch.tensor(5.0))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, use_cache: bool) -> CausalLMOutput:
        return CausalLMOutput(logits=nn.functional.one_hot((input_ids + 1) % 50, 50) * self.sharpness)


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
    by = {way: MultipleChoice(way, window=64) for way in ("none", "tokens", "bytes", "characters")}
    plain, tokens, size, characters = (
        score_choices(Successor(), task, examples, words).scores[0] for task in by.values()
    )
    assert plain.argmax() == 1
    assert tokens == pytest.approx(plain / [27, 1])
    assert size == pytest.approx(plain / [len(long), 2])
    assert characters == pytest.approx(size)
    assert evaluate_choices(Successor(), by["tokens"], examples, words).value == 100


@pytest.mark.parametrize("name", FAMILIES)
def test_choices_are_scored_as_one_at_a_time(name: str, words: Any) -> None:
    model, task = BY_NAME[name].build(), MultipleChoice(window=40)
    found = score_choices(model, task, PLANTED, words)
    for example, scores in zip(PLANTED, found.scores, strict=True):
        before = [int(word[1:]) for word in example.context.split()]
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


def test_pieces_are_split_as_lm_evaluation_harness_splits_them() -> None:
    pieces = [("<unk>", -9.0), ("<s>", -9.0), ("▁x", -1.0), ("▁a", -2.0), ("b", -2.0), ("c", -2.0), ("▁ab", -1.0)]
    base = Tokenizer(Unigram(pieces, unk_id=0))
    base.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=base, bos_token="<s>", unk_token="<unk>")
    assert encode_pair("x a", "c", tokenizer) == ((2, 3), (5,))
    assert encode_pair("x x ", "ab", tokenizer) == ((2, 2), (6,))  # the space belongs to the continuation
    assert encode_pair("", "x", tokenizer) == ((1,), (2,))


def test_a_context_may_differ_instead_of_the_continuation(words: Any) -> None:
    example = ChoiceExample("1", "", ("w9", "w9"), 1, contexts=("w3", "w8"))
    assert score_choices(Successor(), MultipleChoice(), [example], words).predicted == (1,)


def test_a_minimal_pair_is_two_sentences_without_context(words: Any) -> None:
    model = BY_NAME["llama"].build()
    good, bad = "w5 w6 w7", "w5 w9 w7"
    found = score_choices(model, MultipleChoice(window=40), [ChoiceExample("1", "", (good, bad), 0)], words).scores[0]
    expected = [perplexity(model, [text], words, window=40).statistics[0, 0] for text in (good, bad)]
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_long_context_loses_its_beginning_and_is_counted(words: Any) -> None:
    task = MultipleChoice(window=3)
    encoded, cut = task.encode_choices(PLANTED[2], words)
    assert cut
    second = encoded.choices[1]
    assert (second.ids, second.positions, second.gold) == ((9, 10, 11), (2,), (12,))
    assert score_choices(Successor(), task, PLANTED, words).cut == 2
    assert evaluate_choices(Successor(), task, PLANTED, words).cut == 2


def test_examples_that_cannot_be_are_named(words: Any) -> None:
    for example, message in (
        (replace(PLANTED[0], answer=3), "example a: the answer is 3, but there are 3 choices, numbered from 0"),
        (replace(PLANTED[0], choices=("w5", " "), answer=0), "example a: a continuation has 0 tokens"),
        (replace(PLANTED[0], choices=("w5", "w6 " * 9)), "a continuation has 9 tokens, but the window allows 1 to 8"),
    ):
        with pytest.raises(HeadwiseError, match=message):
            MultipleChoice(window=8).encode_choices(example, words)
