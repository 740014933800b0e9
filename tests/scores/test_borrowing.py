"""Borrowing strength: smaller errors than a language's own, standard errors that hold, decisions that are marked."""

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from headwise import HeadScores, HeadwiseError, Provenance, shrink_to_mean
from headwise.methods.head_scores import UNDECIDED

Array = NDArray[np.float64]
LANGUAGES, HEADS, GAMES = ("ar", "de", "fr", "sw", "tr", "zh"), 48, 200


def scores_of(value: Array, error: Array) -> HeadScores:
    n = len(value)
    names = tuple(f"encoder.{place // 12}.{place % 12}" for place in range(n))
    return HeadScores(
        names, tuple(value.tolist()), tuple(error.tolist()), (9,) * n, UNDECIDED * n, Provenance("stars", "full")
    )


def game(draw: np.random.Generator, apart: float, shared: float) -> tuple[Array, dict[str, HeadScores]]:
    """True values, (languages, heads), and scores; a share of the variance of errors is common to all languages."""
    size = (len(LANGUAGES), HEADS)
    truth = draw.normal(0.5, 2, HEADS) + apart * draw.normal(0, 1, size)
    error = np.exp(draw.normal(0, 0.3, HEADS)) * np.exp(draw.normal(0, 0.1, (len(LANGUAGES), 1)))
    noise = np.sqrt(shared) * draw.normal(0, 1, HEADS) + np.sqrt(1 - shared) * draw.normal(0, 1, size)
    values = truth + error * noise
    return truth, {name: scores_of(values[place], error[place]) for place, name in enumerate(LANGUAGES)}


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("apart", [0.0, 0.5, 5.0])
def test_errors_are_smaller_and_intervals_hold_in_simulated_games(apart: float, shared: float) -> None:
    draw, squares, inside, wrong, harmless = np.random.default_rng(0), [], [], 0, []
    for _ in range(GAMES):
        truth, scores = game(draw, apart, shared)
        found = shrink_to_mean(scores, shared)
        value, error = (np.array([getattr(each, name) for each in found.values()]) for name in ("value", "stderr"))
        own = np.array([each.value for each in scores.values()])
        squares.append([np.mean((value - truth) ** 2), np.mean((own - truth) ** 2)])
        inside.append(np.abs(value - truth) <= 1.96 * error)
        signs = {"harmful": -1, "undecided": 0, "helpful": 1}
        decided = np.array([[signs[each] for each in found[name].decision] for name in LANGUAGES])
        wrong += int((decided * truth < 0).any(1).sum())
        for place, name in enumerate(LANGUAGES):
            off = ~np.array(found[name].mask("likely").on)
            harmless.append((truth[place][off] >= 0).mean() if off.any() else 0.0)
    shrunk, plain = np.mean(squares, axis=0)
    assert shrunk < 1.02 * plain
    if apart < 1:  # languages that are alike gain by each other what they do not share
        assert shrunk < (shared + (1 - shared) * 0.5) * plain * 1.05
    assert 0.92 < np.mean(inside) < 0.98
    assert wrong <= 0.1 * GAMES * len(LANGUAGES)
    assert np.mean(harmless) <= 0.1


def test_decisions_are_marked_and_masks_use_them() -> None:
    _, scores = game(np.random.default_rng(1), 0.2, 0.0)
    found = shrink_to_mean(scores)["sw"]
    assert found.provenance.borrowed == ("ar", "de", "fr", "tr", "zh")
    assert not found.provenance.unbiased
    assert "borrowed from 5 other languages" in found.provenance.confidence
    assert "borrowed" in repr(found)
    assert set(found.decided("harmful")) <= set(found.mask("likely").off)
    assert found.decided("harmful")
    assert found == HeadScores.from_dict(found.to_dict())


def test_a_language_that_is_clearly_different_keeps_its_value() -> None:
    draw = np.random.default_rng(2)
    _, scores = game(draw, 0.0, 0.0)
    own = np.array(scores["zh"].value)
    own[3] += 40
    found = shrink_to_mean({**scores, "zh": scores_of(own, np.array(scores["zh"].stderr))})
    assert found["zh"].value[3] == pytest.approx(own[3], rel=0.05)


def test_what_cannot_be_averaged_is_an_error() -> None:
    _, scores = game(np.random.default_rng(3), 0.5, 0.0)
    with pytest.raises(HeadwiseError, match="at least 3 languages, not 2"):
        shrink_to_mean({name: scores[name] for name in ("ar", "de")})
    with pytest.raises(HeadwiseError, match="between 0 and 1"):
        shrink_to_mean(scores, correlation=2)
    with pytest.raises(HeadwiseError, match="some players of de"):
        shrink_to_mean({**scores, "de": dataclasses.replace(scores["de"], stderr=(np.nan,) * HEADS)})
    other = dataclasses.replace(scores["de"], provenance=Provenance("stars", "truncated(0.5)"))
    with pytest.raises(HeadwiseError, match="different estimands"):
        shrink_to_mean({**scores, "de": other})
    biased = Provenance("gradient-screen", "full", unbiased=False)
    with pytest.raises(HeadwiseError, match="biased"):
        shrink_to_mean({name: dataclasses.replace(each, provenance=biased) for name, each in scores.items()})
