"""Samples of tasks without labels: measured anew for each mask, with the numbers of plain measurements."""

import pytest

from headwise import HeadMask, find_heads, gated
from headwise.data.examples import TextExample
from headwise.engine.evaluation import MaskJudge
from headwise.engine.resuming import StoppedError
from headwise.explorer.sample import LanguageSample
from headwise.tasks.causal import LanguageTask, perplexity
from tests.engine.worlds import tiny_tokenizer
from tests.families import BY_NAME

TEXTS = ["w1 w2 w3", "w4 w5", "w6 w7 w8 w9"]


def test_perplexity_with_the_mask_and_without_it() -> None:
    model, tokenizer = BY_NAME["gpt2"].build(), tiny_tokenizer()
    examples = [TextExample(str(number), text) for number, text in enumerate(TEXTS)]
    heads = find_heads(model)
    sample = LanguageSample("en", MaskJudge(model, heads, LanguageTask(window=8), examples, tokenizer), 0)
    mask = HeadMask.without(heads, heads.players()[:3])
    found, cost = sample.compare(mask, lambda: False)
    assert (found.metric, found.examples, cost.units) == ("perplexity", 3, 3)
    assert found.base == pytest.approx(perplexity(model, TEXTS, tokenizer, window=8).value)
    with gated(model, mask):
        assert found.value == pytest.approx(perplexity(model, TEXTS, tokenizer, window=8).value)
    assert found.difference == pytest.approx(found.value - found.base)
    assert found.low <= found.difference <= found.high
    with pytest.raises(StoppedError):
        sample.compare(mask, lambda: True)
