"""The sum of several languages' matrices, by numbers done by hand."""

from dataclasses import replace

import numpy as np
import pytest

from headwise import HeadScores, HeadwiseError, Provenance
from headwise.scores.sources import sum_sources

NAMES = ("encoder.0.0", "encoder.0.1", "encoder.1.0", "encoder.1.1")


def scores_of(*value: float, method: str = "gradient", signed: bool = False, language: str = "en") -> HeadScores:
    origin = Provenance(method, "sensitivity", language=language, units=30.0, data="abc", signed=signed)
    return HeadScores(NAMES, value, (0.1,) * 4, (10,) * 4, ("undecided",) * 4, origin)


def test_matrices_in_0_to_1_are_summed_as_they_are() -> None:
    found = sum_sources({"en": scores_of(0.0, 0.2, 1.0, 0.5), "ar": scores_of(0.3, 0.0, 0.4, 1.0)})
    np.testing.assert_allclose(found.values(), [0.3, 0.2, 1.4, 1.5])
    assert found.ranked() == ("encoder.0.1", "encoder.0.0", "encoder.1.0", "encoder.1.1")


def test_signed_values_keep_their_signs_and_languages_weigh_the_same() -> None:
    small, large = scores_of(-0.01, 0.02, 0.0, 0.01, signed=True), scores_of(-4.0, -8.0, 2.0, 8.0, signed=True)
    found = sum_sources({"en": small, "ar": large})
    np.testing.assert_allclose(found.values(), [-1.0, 0.0, 0.25, 1.5])
    assert found.mask(count=1).off == ("encoder.0.0",)


def test_a_sum_ranks_and_decides_nothing() -> None:
    found = sum_sources({"en": scores_of(0, 0, 1, 0.5), "ar": scores_of(0, 1, 1, 0), "zh": scores_of(1, 1, 1, 0)})
    origin = found.provenance
    assert (origin.language, origin.units, origin.estimand) == ("en+ar+zh", 90.0, "sum of sensitivity")
    assert np.isnan(found.stderr).all()
    assert set(found.decision) == {"undecided"}
    assert found.count == (30,) * 4
    with pytest.raises(HeadwiseError, match="choose a number"):
        found.mask("likely")


def test_what_cannot_be_summed_is_refused() -> None:
    good = scores_of(0, 0.2, 1, 0.5)
    few = replace(good, players=("a.0.0", "a.0.1", "a.0.2", "a.0.3"))
    other = replace(good, provenance=replace(good.provenance, estimand="full"))
    for scores, says in [
        ({"en": good}, "at least 2 languages"),
        ({"en": good, "ar": few}, "en and ar have different players"),
        ({"en": good, "ar": scores_of(0, 0, 1, 0, method="michel")}, "different methods, gradient and michel"),
        ({"en": good, "ar": other}, "different estimands"),
        ({"en": good, "ar": scores_of(0, 0, 1, float("nan"))}, "of ar have no value yet"),
        ({"en": good, "ar": scores_of(0, 0, 0, 0)}, "all values of ar are 0"),
    ]:
        with pytest.raises(HeadwiseError, match=says):
            sum_sources(scores)
