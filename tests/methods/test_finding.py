"""Methods by name: options as people write them in plans."""

from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.methods import find_method, version_of


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("stars", {"error_rate": "high"}, "'error_rate' of the method 'stars' must be a number, not 'high'"),
        ("stars", {"bases": 1.5}, "'bases' of the method 'stars' must be a whole number, not 1.5"),
        ("stars", {"bases": True}, "must be a whole number, not True"),
        ("stars", {"gradients": [1]}, r"must be a whole number, not \[1\]"),
        ("stars", {"confirm": "maybe"}, "must be true or false, not 'maybe'"),
        ("stars", {"confidence": "full"}, "must be one of betting, asymptotic, not 'full'"),
        ("stars", {"flips": -3}, "flips of stars are at least 1, not -3"),
        ("stars", {"speed": 2}, "has no option 'speed'"),
        ("gradient-screen", {"bases": 0}, "at least one coalition, not 0"),
        ("michel", {"examples": 0}, "at least one example, not 0"),
        ("shapiq", {"approximator": ["SVARM"]}, "must be one of PermutationSamplingSV"),
    ],
)
def test_an_option_that_does_not_fit_is_named(method: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(HeadwiseError, match=says):
        find_method(method, **options)


def test_numbers_may_be_whole_where_any_number_will_do() -> None:
    assert find_method("tmab", value_range=1).name == "tmab"


def test_methods_have_versions() -> None:
    assert version_of(find_method("stars")) > version_of(find_method("permutation"))
