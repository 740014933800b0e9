"""Metrics as sums, against seqeval and scikit-learn-style definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score

from headwise.tasks.metrics import Accuracy, EntityF1, Metric

TAGS = st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
sentences = st.lists(st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8), min_size=1, max_size=6)


def total(metric: Metric, pairs: list[list[tuple[str, str]]]) -> float:
    rows = [metric.statistics([p for p, _ in pair], [g for _, g in pair]) for pair in pairs]
    return float(metric.value(np.sum(rows, axis=0)))


@given(sentences)
def test_entity_f1_of_sums_is_seqevals_f1_of_the_corpus(pairs: list[list[tuple[str, str]]]) -> None:
    gold = [[g for _, g in pair] for pair in pairs]
    predicted = [[p for p, _ in pair] for pair in pairs]
    expected = (
        f1_score(gold, predicted, zero_division=0) if any(tag != "O" for row in gold + predicted for tag in row) else 0
    )
    assert total(EntityF1(), pairs) == pytest.approx(100 * expected)


@given(sentences)
def test_accuracy_is_the_share_of_right_labels(pairs: list[list[tuple[str, str]]]) -> None:
    flat = [p == g for pair in pairs for p, g in pair]
    assert total(Accuracy(), pairs) == pytest.approx(100 * sum(flat) / len(flat))


def test_metrics_of_many_resamples_are_computed_at_once() -> None:
    totals = np.array([[3.0, 4.0], [1.0, 4.0], [0.0, 0.0]])
    assert Accuracy().value(totals).tolist() == [75.0, 25.0, 0.0]
