"""Rank correlation against scipy; sets and signs by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped]

from headwise.errors import HeadwiseError
from headwise.stats.ranks import clear, jaccard, ranks, sign_agreement, spearman, spearman_matrix


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_ranks_are_mean_places(values: list[int]) -> None:
    below = [sum(other < value for other in values) for value in values]
    assert ranks(values).tolist() == [
        low + (values.count(value) + 1) / 2 for low, value in zip(below, values, strict=True)
    ]


def test_correlations_are_scipys_with_and_without_ties() -> None:
    generator = np.random.default_rng(0)
    for decimals in (1, 8):
        vectors = generator.normal(size=(5, 144)).round(decimals) + generator.normal(size=144).round(decimals)
        expected = stats.spearmanr(vectors, axis=1).statistic
        assert spearman_matrix(list(vectors)) == pytest.approx(expected)
        assert spearman(vectors[0], vectors[1]).rho == pytest.approx(expected[0, 1])


def test_the_interval_covers_at_its_rate() -> None:
    generator, r, trials = np.random.default_rng(1), 0.7, 600
    true = 6 / math.pi * math.asin(r / 2)  # Spearman's of two normals with correlation r
    hits = 0
    for _ in range(trials):
        a = generator.normal(size=72)
        found = spearman(a, r * a + math.sqrt(1 - r * r) * generator.normal(size=72))
        hits += found.low <= true <= found.high
    print(f"95% intervals of Spearman's rho hold in {hits / trials:.1%}")
    assert 0.92 <= hits / trials <= 0.98


def test_edges_of_correlation() -> None:
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == spearman([1, 2, 3, 5], [9, 7, 5, 3])
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]).low == -1
    constant = spearman([1, 1, 1, 1], [1, 2, 3, 4])
    assert math.isnan(constant.rho)
    assert (constant.low, constant.high) == (-1, 1)
    assert (spearman([1, 2, 3], [1, 3, 2]).low, spearman([1, 2, 3], [1, 3, 2]).high) == (-1, 1)


def test_jaccard_counts_what_is_shared() -> None:
    assert jaccard(["a", "b", "c"], ["b", "c", "d"]) == 0.5
    assert jaccard([], []) == 1
    assert jaccard([], ["a"]) == 0


def test_signs_are_compared_where_they_are_clear() -> None:
    reference, stderr = np.array([0.5, -0.5, 0.01, 0.5, 0.5]), np.array([0.1, 0.1, 0.1, 0.1, math.nan])
    found = sign_agreement([0.1, 0.1, -1, 0.2, -1], reference, clear(reference, stderr))
    assert found.share == pytest.approx(2 / 3)
    assert found.compared == 3
    nothing = sign_agreement(reference, reference, clear(reference, stderr, times=100))
    assert math.isnan(nothing.share)
    assert nothing.compared == 0


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwiseError, match="same length"):
        spearman([1, 2, 3], [1, 2])
    with pytest.raises(HeadwiseError, match="none of them missing"):
        ranks([1.0, math.nan])
    with pytest.raises(HeadwiseError, match="arrays of the same shape"):
        sign_agreement([1.0], [1.0, 2.0], [True])
