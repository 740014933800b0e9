"""YAML from outside: whatever is wrong, the error is one sentence, and comes at once."""

import time

import pytest

from headwise import HeadwiseError
from headwise.support.yaml_text import parse_yaml


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1" + ":1" * 200_000, "a number of more than 100 characters"),  # in base 60: hours in PyYAML
        ("a: 0x" + "f" * 5000, "a number of more than 100 characters"),  # cannot be shown in base 10
        ("a: " + "9" * 5000, "a number of more than 100 characters"),
        ("a: !!int ''", "not valid"),
        ("a: !!float ''", "not valid"),
        ("a: !!bool x", "not valid"),
        ("a: !!timestamp x", "not valid"),
        ("a: 2026-13-40", "not valid"),
        ("a: \x1f", "unacceptable character"),
        ("a: \x00", "unacceptable character"),
        ("[" * 1500, "too deep"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("{[a]: 1}", "unhashable"),
        ('a: "\\uD800"', "half a character"),
        ('"\\uD800": 1', "half a character"),
        ("a: &x {b: *x}", "the alias"),
    ],
)
def test_yaml_that_cannot_be_read_is_named_in_one_line(text: str, said: str) -> None:
    start = time.process_time()
    with pytest.raises(HeadwiseError, match=f"plan.yaml.*: not YAML: .*{said}") as error:
        parse_yaml(text, "plan.yaml")
    assert "\n" not in str(error.value)
    assert time.process_time() - start < 10


def test_numbers_are_read_as_before() -> None:
    text = "{a: 0x1F, b: 1:30, c: 1_000, d: -0.5, e: .inf, f: 1.0e+3, g: 2026-11-18}"
    found = parse_yaml(text, "plan.yaml")
    assert [found[name] for name in "abcdef"] == [31, 90, 1000, -0.5, float("inf"), 1e3]


@pytest.mark.parametrize(("text", "number"), [("1e-3", 0.001), ("-2E4", -20000.0), ("5e+0", 5.0)])
def test_numbers_with_an_exponent_need_no_point(text: str, number: float) -> None:
    assert parse_yaml(f"rate: {text}", "plan.yaml") == {"rate": number}


def test_text_that_only_begins_like_a_number_stays_text() -> None:
    assert parse_yaml("[1e, e3, 1e3x, 1-e3]", "plan.yaml") == ["1e", "e3", "1e3x", "1-e3"]
