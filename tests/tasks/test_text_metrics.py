"""BLEU and chrF as sums, against sacrebleu's own scores of whole corpora."""

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from headwise import HeadwiseError
from headwise.stats import bootstrap_interval
from headwise.tasks.text_metrics import Bleu, ChrF, TextMetric

Pairs = list[tuple[str, str]]

WORDS = st.sampled_from(["the", "cat", "cats", "sat", "on", "a", "mat", ",", "mat.", "中国人", "坐", "(so)", "don't"])
# Free text has empty lines, odd spaces and characters that tokenisers treat specially; words have matches.
TEXTS = st.one_of(st.lists(WORDS, max_size=9).map(" ".join), st.text(max_size=12))
CORPORA = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6)
METRICS: list[tuple[TextMetric, Any]] = [
    (Bleu(), BLEU()),
    (Bleu("zh"), BLEU(tokenize="zh")),
    (Bleu("char"), BLEU(tokenize="char")),
    (Bleu("intl"), BLEU(tokenize="intl")),
    (ChrF(), CHRF()),
]
IDS = ["bleu", "bleu-zh", "bleu-char", "bleu-intl", "chrf"]


def summed(metric: TextMetric, pairs: Pairs) -> float:
    return float(metric.value(np.sum([metric.statistics(*pair) for pair in pairs], axis=0)))


@pytest.mark.parametrize(("metric", "oracle"), METRICS, ids=IDS)
@given(pairs=CORPORA)
def test_the_metric_of_sums_is_sacrebleus_score_of_the_corpus(metric: TextMetric, oracle: Any, pairs: Pairs) -> None:
    expected = oracle.corpus_score([p for p, _ in pairs], [[g for _, g in pairs]]).score
    assert summed(metric, pairs) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("pairs", [
    [("", "the cat")], [("the cat", "")], [("", "")], [("a b c", "a b c")], [("a b c d", "a b c d")],
    [("x y z w", "a b c d")], [("a x y z", "a b c d e f")], [("a b c d e f", "a b c")], [("  ", "a b c d")],
])  # fmt: skip
@pytest.mark.parametrize(("metric", "oracle"), METRICS, ids=IDS)
def test_the_edges_are_sacrebleus_too(metric: TextMetric, oracle: Any, pairs: Pairs) -> None:
    expected = oracle.corpus_score([p for p, _ in pairs], [[g for _, g in pairs]]).score
    assert summed(metric, pairs) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", [Bleu(), ChrF()])
def test_many_resamples_are_measured_at_once(metric: TextMetric) -> None:
    texts = ["the cat sat on the mat .", "a cat sat .", "hello there , you all", "", "the cat"]
    rows = np.stack([metric.statistics(p, g) for p in texts for g in texts])
    weights = np.random.default_rng(0).multinomial(len(rows), np.full(len(rows), 1 / len(rows)), size=(3, 4))
    together = metric.value(weights @ rows)
    assert together.shape == (3, 4)
    alone = [[float(metric.value(weights[i, j] @ rows)) for j in range(4)] for i in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    low, high = bootstrap_interval(rows, metric.value, resamples=200)
    assert 0 <= low < float(metric.value(rows.sum(0))) < high <= 100


def test_tokenisation_makes_the_difference_it_should() -> None:
    pair = [("我们爱中国人", "我们都爱中国人")]
    assert summed(Bleu("zh"), pair) > 0
    assert summed(Bleu(), pair) == 0


def test_figures_are_signed_as_sacrebleu_signs_them() -> None:
    assert Bleu("zh").signature.startswith("nrefs:1|case:mixed|eff:no|tok:zh")
    assert "|smooth:exp|version:" in Bleu().signature
    assert ChrF().signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_tokenisations_that_are_not_there_are_named() -> None:
    with pytest.raises(HeadwiseError, match="no tokenisation 'flores200': choose one of 13a, intl, zh"):
        Bleu("flores200")


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="MeCab is installed")
def test_a_tokenisation_that_is_not_installed_says_how_to_get_it() -> None:
    with pytest.raises(HeadwiseError, match=r"'ja-mecab' is not installed: pip install 'sacrebleu\[ja\]'"):
        Bleu("ja-mecab")


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is None, reason="MeCab is not installed")
def test_japanese_is_measured_in_words() -> None:
    pairs = [("猫は机の上に座った。", "猫は机の上に座っている。")]
    expected = BLEU(tokenize="ja-mecab").corpus_score([pairs[0][0]], [[pairs[0][1]]]).score
    assert expected > 0
    assert summed(Bleu("ja-mecab"), pairs) == pytest.approx(expected, abs=1e-9)
