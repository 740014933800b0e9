"""What languages share: heads among the best of all, heads that one language stands alone with, rank correlations."""

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from headwise.scores import HeadScores
from headwise.scores.affinity import Shared, shared_scores, specific_to
from tests.report.samples import HEADS, LANGUAGES, sample_scores, scores_of


def shared_of(**scores: HeadScores) -> Shared:
    shared = shared_scores(scores)
    assert shared is not None
    return shared


def test_languages_with_other_heads_are_compared_on_those_they_share() -> None:
    one, two = sample_scores(["a"], HEADS[:100]), sample_scores(["b"], HEADS[50:])
    shared = shared_scores(one | two)
    assert shared is not None
    assert shared.players == HEADS[50:100]
    assert shared.values[0].tolist() == list(one["a"].value[50:])
    assert shared.values[1].tolist() == list(two["b"].value[:50])


def test_agnostic_heads_are_in_every_top_20() -> None:
    scores = sample_scores(LANGUAGES[:5])
    shared = shared_scores(scores)
    assert shared is not None
    tops = [set(each.ranked()[-20:]) for each in scores.values()]
    assert set(shared.agnostic()) == set.intersection(*tops)
    assert shared.agnostic()


def test_of_few_players_only_the_upper_half_is_the_top() -> None:
    shared = shared_scores({"a": scores_of([4, 3, 2, 1, 0]), "b": scores_of([3, 4, 0, 1, 2])})
    assert shared is not None
    assert (shared.top, shared.agnostic()) == (2, ("encoder.0.0", "encoder.0.1"))


def test_values_that_are_missing_somewhere_are_left_out() -> None:
    shared = shared_of(a=scores_of([1, 2, float("nan"), 4, 5]), b=scores_of([5, 4, 3, 2, 1]))
    assert shared.players == ("encoder.0.0", "encoder.0.1", "encoder.0.3", "encoder.0.4")
    assert shared.likeness().tolist() == [[1, -1], [-1, 1]]


@pytest.mark.parametrize(
    "scores",
    [
        {"a": scores_of(range(9))},
        {"a": scores_of(range(9)), "b": scores_of(range(9), estimand="truncated(0.5)")},
        {"a": scores_of(range(9)), "b": scores_of(range(3))},
    ],
)
def test_one_language_other_estimands_or_too_few_heads_are_not_compared(scores: dict[str, HeadScores]) -> None:
    assert shared_scores(scores) is None


def test_likeness_is_the_rank_correlation_of_every_two_languages() -> None:
    scores = sample_scores(LANGUAGES[:4])
    found = shared_of(**scores).likeness()
    expected = stats.spearmanr([each.value for each in scores.values()], axis=1).statistic
    np.testing.assert_allclose(found, expected)


def test_opposed_heads_come_with_the_specific_ones_first() -> None:
    values = [0.1] * 5
    shared = shared_of(
        a=scores_of(values, "?--?+"), b=scores_of(values, "+++++"), c=scores_of(values, "-+-++"),
        d=scores_of(values, "+++?+"),
    )  # fmt: skip
    found = shared.opposed()
    assert list(found) == ["encoder.0.1", "encoder.0.0", "encoder.0.2"]
    assert [specific_to(decisions) for decisions in found.values()] == [0, None, None]
    assert shared.deciding(found["encoder.0.0"], 1.0) == ("b", "d")
    assert shared.deciding(found["encoder.0.0"], 0.0) == ("a",)


@pytest.mark.parametrize(
    ("decisions", "alone"),
    [
        ([1, 1, -1], 2),
        ([-1, 1, -1, -1], 1),
        ([1, 1, 1], None),
        ([1, 1, -1, -1], None),
        ([1, -1], None),
        ([1, 0, -1], None),
    ],
)
def test_one_language_alone_against_all_others_is_specific(decisions: list[float], alone: int | None) -> None:
    assert specific_to(np.array(decisions, dtype=np.float64)) == alone
