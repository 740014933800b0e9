"""The sign-flip test against a plain loop, and its error rate."""

import itertools

import numpy as np
import pytest

from headwise.stats.sign_flips import sign_flip_p_value


def test_it_equals_a_loop_over_all_signs() -> None:
    values = np.random.default_rng(0).normal(0.5, 1, 8)
    means = [abs(np.dot(signs, values)) for signs in itertools.product((1, -1), repeat=8)]
    expected = sum(mean >= abs(values.sum()) - 1e-12 for mean in means) / len(means)
    assert sign_flip_p_value(values.tolist()) == expected


def test_random_signs_agree_with_all_signs() -> None:
    values = np.random.default_rng(1).normal(0.4, 1, 14).tolist()
    more = sign_flip_p_value([*values, 0.0], resamples=20_000)  # one more, so that signs are drawn
    assert more == pytest.approx(sign_flip_p_value(values), abs=0.02)


def test_its_error_rate_is_at_most_the_level() -> None:
    noise = np.random.default_rng(2).normal(0, 1, (2000, 8))
    errors = np.mean([sign_flip_p_value(each.tolist()) < 0.05 for each in noise])
    assert 0.03 < errors < 0.065


def test_no_differences_are_no_evidence() -> None:
    assert sign_flip_p_value([]) == 1.0
    assert sign_flip_p_value([0.0, 0.0]) == 1.0
