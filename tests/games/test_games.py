"""Games: what each says of a model's answers, against plain definitions."""

import numpy as np
import pytest
import torch

from headwise import HeadwiseError
from headwise.games import GAMES, AccuracyGame, Answers, LikelihoodGame, MetricGame, ProbabilityGame, find_game
from headwise.games.means import MarginGame
from headwise.tasks.metrics import EntityF1

pytest.importorskip("seqeval.metrics.sequence_labeling")  # imported here: Hypothesis times the first example
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def answers(logits: list[list[float]], rows: list[int], gold: list[int], counts: list[int]) -> Answers:
    """Answers in which every label is answered, in order."""
    places = [sum(other == row for other in rows[:i]) for i, row in enumerate(rows)]
    return Answers(
        torch.tensor(logits), torch.tensor(rows), torch.tensor(places), torch.tensor(counts), torch.tensor(gold)
    )


TWO_ROWS = answers([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]], rows=[0, 0, 1], gold=[0, 0, 1], counts=[2, 1])


def test_accuracy_is_the_share_of_right_labels() -> None:
    assert AccuracyGame().measure(TWO_ROWS).tolist() == [[0.5], [0.0]]


def test_probability_is_the_mean_over_labels() -> None:
    gold = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 1.0]]).softmax(-1)[range(3), [0, 0, 1]]
    expected = torch.stack([gold[:2].mean(), gold[2]])[:, None]
    torch.testing.assert_close(ProbabilityGame().measure(TWO_ROWS), expected)
    torch.testing.assert_close(
        LikelihoodGame().measure(TWO_ROWS), torch.stack([gold[:2].log().mean(), gold[2].log()])[:, None]
    )


def test_margin_is_the_lead_over_the_best_other() -> None:
    assert MarginGame().measure(TWO_ROWS).tolist() == [[0.5], [-2.0]]


def test_a_label_that_no_token_carries_is_wrong() -> None:
    missing = Answers(
        torch.tensor([[2.0, 0.0]]), torch.tensor([0]), torch.tensor([1]), torch.tensor([2]), torch.tensor([1, 0])
    )
    assert AccuracyGame().measure(missing).tolist() == [[0.5]]
    assert float(ProbabilityGame().measure(missing)) < 0.5


def test_the_f1_of_a_corpus_is_that_of_summed_counts() -> None:
    assert MetricGame(EntityF1(LABELS)).corpus(np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 4.0]])) == pytest.approx(0.5)


def test_games_are_found_by_name() -> None:
    for name in GAMES:
        assert find_game(name, LABELS).name == name
    with pytest.raises(HeadwiseError, match="no game 'bleu'"):
        find_game("bleu")
    with pytest.raises(HeadwiseError, match="needs the labels"):
        find_game("f1")
