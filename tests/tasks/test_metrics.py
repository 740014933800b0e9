"""Metrics as sums, against seqeval and plain definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from headwise.tasks.metrics import Accuracy, Answers, EntityF1, Metric

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
#: Labels of IOBES, which some data sets use.
IOBES = (*LABELS, "E-PER", "S-PER", "E-LOC", "S-LOC")
Pairs = list[list[tuple[int, int]]]


def sentences(labels: tuple[str, ...]) -> st.SearchStrategy[Pairs]:
    """Sentences of predicted and gold labels, as numbers."""
    label = st.integers(0, len(labels) - 1)
    return st.lists(st.lists(st.tuples(label, label), min_size=1, max_size=8), min_size=1, max_size=6)


def answers_to(pairs: Pairs, classes: int, answered: list[int] | None = None) -> Answers:
    """Answers that predict the first label of each pair; only those of some places, if given."""
    predicted = torch.tensor([p for pair in pairs for p, _ in pair])
    gold = torch.tensor([g for pair in pairs for _, g in pair])
    rows = torch.tensor([row for row, pair in enumerate(pairs) for _ in pair])
    places = torch.tensor([place for pair in pairs for place in range(len(pair))])
    kept = torch.arange(len(gold)) if answered is None else torch.tensor(answered)
    logits = torch.nn.functional.one_hot(predicted, classes).float()
    return Answers(logits[kept], rows[kept], places[kept], torch.tensor([len(pair) for pair in pairs]), gold)


def total(metric: Metric, answers: Answers) -> float:
    return float(metric.value(metric.statistics(answers).double().numpy().sum(0)))


@pytest.mark.parametrize("labels", [LABELS, IOBES], ids=["IOB2", "IOBES"])
@given(data=st.data())
def test_entities_are_counted_as_seqeval_counts_them(labels: tuple[str, ...], data: st.DataObject) -> None:
    pairs = data.draw(sentences(labels))
    found = EntityF1(labels).statistics(answers_to(pairs, len(labels)))
    for row, pair in enumerate(pairs):
        predicted, gold = (set(get_entities([labels[each[side]] for each in pair])) for side in (0, 1))
        assert found[row].tolist() == [len(predicted & gold), len(predicted), len(gold)]


@given(sentences(LABELS))
def test_entity_f1_of_sums_is_seqevals_f1_of_the_corpus(pairs: Pairs) -> None:
    predicted, gold = ([[LABELS[each[side]] for each in pair] for pair in pairs] for side in (0, 1))
    there = any(tag != "O" for row in gold + predicted for tag in row)
    expected = f1_score(gold, predicted, zero_division=0) if there else 0
    assert total(EntityF1(LABELS), answers_to(pairs, 5)) == pytest.approx(100 * expected)


@given(sentences(LABELS))
def test_accuracy_is_the_share_of_right_labels(pairs: Pairs) -> None:
    flat = [p == g for pair in pairs for p, g in pair]
    assert total(Accuracy(), answers_to(pairs, 5)) == pytest.approx(100 * sum(flat) / len(flat))


def test_a_word_without_an_answer_is_wrong_and_in_no_entity() -> None:
    # B-PER I-PER O, with the second word cut off: one entity is predicted, a shorter one than the gold one.
    answers = answers_to([[(1, 1), (2, 2), (0, 0)]], 5, answered=[0, 2])
    assert Accuracy().statistics(answers).tolist() == [[2, 3]]
    assert EntityF1(LABELS).statistics(answers).tolist() == [[0, 1, 1]]


def test_labels_without_entities_are_counted_without_an_o() -> None:
    answers = answers_to([[(0, 0), (1, 1)]], 2, answered=[0])
    assert EntityF1(("a", "b")).statistics(answers).tolist() == [[0, 1, 1]]


def test_metrics_of_many_resamples_are_computed_at_once() -> None:
    totals = np.array([[3.0, 4.0], [1.0, 4.0], [0.0, 0.0]])
    assert Accuracy().value(totals).tolist() == [75.0, 25.0, 0.0]
