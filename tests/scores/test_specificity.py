"""Which heads are of one language: the rule against counts by hand, and its error rate on heads without effect."""

import numpy as np
import pytest

from headwise import HeadwiseError
from headwise.scores.specificity import Specificity
from tests.report.samples import scores_of

NAMES = tuple(f"decoder.0.{place}" for place in range(5))


def specificity(values: list[list[float]], error: float = 0.1, general: int = 2) -> Specificity:
    array = np.array(values)
    languages = ("de", "sw", "tr")[: len(values)]
    return Specificity(languages, NAMES[: array.shape[1]], array, np.full(array.shape, error), general)


def test_differences_are_from_the_mean_of_the_other_languages() -> None:
    found = specificity([[4.0, 1.0], [1.0, 1.0], [3.0, 1.0]])
    assert found.difference[:, 0].tolist() == [2.0, -2.5, 0.5]
    # The variance of a − (b + c)/2 is 0.01 · (1 + 1/4 + 1/4).
    assert found.error == pytest.approx(np.full((3, 2), np.sqrt(0.015)))
    assert found.lower == pytest.approx(found.difference - 1.645 * np.sqrt(0.015))


def test_every_class_has_its_head() -> None:
    found = specificity([[5, 5, 5, 0, 0], [5, 0, 5, -5, 0], [5, 0, 0, 0, 0]], general=3)
    assert found.classes == ("general", "de", "several", "other", "other")
    assert found.members("de") == (NAMES[1],)


def test_a_head_that_is_less_harmful_in_one_language_is_not_of_that_language() -> None:
    assert specificity([[-1.0], [-5.0], [-5.0]]).classes == ("other",)


def test_the_number_of_languages_of_a_general_head_is_bounded_by_all_languages() -> None:
    assert specificity([[5.0], [5.0]], general=4).classes == ("general",)


def test_top_heads_have_large_and_certain_differences() -> None:
    values = np.array([[1.0, 3.0, 2.0, 9.0], [0.0, 0.0, 0.0, 0.0]])
    errors = np.array([[0.1, 0.1, 0.1, 8.0], [0.1, 0.1, 0.1, 8.0]])
    found = Specificity(("de", "sw"), NAMES[:4], values, errors)
    assert found.top("de", 2) == (NAMES[1], NAMES[2])
    assert found.top("sw", 1) == (NAMES[0],)


def test_without_standard_errors_heads_are_ordered_by_differences_and_have_no_class() -> None:
    found = specificity([[1.0, 3.0], [0.0, 0.0]], error=np.nan)
    assert found.top("de", 1) == (NAMES[1],)
    assert found.classes == ("other", "other")


def test_values_are_divided_by_the_scale_of_their_language() -> None:
    scores = {"de": scores_of([2, 4]), "sw": scores_of([1, 2])}
    found = Specificity.of(scores, {"de": 2.0, "sw": 1.0})
    assert found.values.tolist() == [[1, 2], [1, 2]]
    assert not found.difference.any()


def test_heads_without_effect_are_rarely_of_a_language() -> None:
    draw, wrong = np.random.default_rng(0), 0
    for _ in range(100):
        noise = draw.normal(size=(3, 5))
        found = Specificity(("de", "sw", "tr"), NAMES, noise, np.ones((3, 5)))
        wrong += any(name != "other" for name in found.classes)
    assert wrong <= 20  # expected at most one tenth, and these heads must also be likely helpful


def test_one_language_and_different_heads_are_errors() -> None:
    with pytest.raises(HeadwiseError, match="at least two languages"):
        specificity([[1.0]])
    with pytest.raises(HeadwiseError, match="different players"):
        Specificity.of({"de": scores_of([1, 2]), "sw": scores_of([1, 2, 3])})
