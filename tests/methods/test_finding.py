"""Methods by name: options as people write them in plans."""

import subprocess
import sys
from typing import Any

import pytest

from headwise import HeadwiseError
from headwise.methods import METHODS, find_method, method_class


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("stars", {"error_rate": "high"}, "'error_rate' of the method 'stars' must be a number, not 'high'"),
        ("stars", {"bases": 1.5}, "'bases' of the method 'stars' must be a whole number, not 1.5"),
        ("stars", {"bases": True}, "must be a whole number, not True"),
        ("stars", {"gradients": [1]}, r"must be a whole number, not \[1\]"),
        ("stars", {"confirm": "maybe"}, "must be true or false, not 'maybe'"),
        ("stars", {"confidence": "full"}, "must be one of betting, asymptotic, not 'full'"),
        ("stars", {"flips": -3}, "flips of stars must be at least 1, not -3"),
        ("stars", {"speed": 2}, "has no option 'speed'"),
        ("gradient-screen", {"bases": 0}, "at least one coalition, not 0"),
        ("michel", {"examples": 0}, "at least one example, not 0"),
        ("relevance", {"rule": "alpha"}, "must be one of voita, attnlrp, cp, not 'alpha'"),
        ("relevance", {"epsilon": 0.0}, "epsilon of relevance must be above 0, not 0.0"),
        ("shapiq", {"approximator": ["SVARM"]}, "must be one of PermutationSamplingSV"),
    ],
)
def test_an_option_that_does_not_fit_is_named(method: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(HeadwiseError, match=says):
        find_method(method, **options)


def test_numbers_may_be_whole_where_any_number_will_do() -> None:
    assert find_method("tmab", value_range=1).name == "tmab"


def test_methods_have_versions() -> None:
    assert find_method("stars").version > find_method("permutation").version


def test_methods_describe_themselves() -> None:
    described = {name: method_class(name) for name in METHODS}
    assert all(cls.name == name for name, cls in described.items())
    unsigned = {
        "michel", "gradient", "relevance", "random", "layers", "confidence", "entropy", "hies", "l0", "lahis", "soft",
    }  # fmt: skip
    assert {name for name, cls in described.items() if not cls.signed} == unsigned
    assert {name for name, cls in described.items() if cls.needs_units} == {"screened", "shapiq", "captum"}
    biased = {name for name in METHODS if not find_method(name).unbiased}
    assert biased == unsigned | {"gradient-screen", "leave-one-out", "chg", "shapiq"}
    assert find_method("shapiq", approximator="PermutationSamplingSV").unbiased


def test_names_of_methods_are_known_without_torch() -> None:
    code = "import sys; from headwise.methods import METHODS; assert METHODS and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
