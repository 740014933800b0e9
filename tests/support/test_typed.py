"""Fields of YAML files and options: every mistake is named in one sentence."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from headwise.errors import HeadwiseError
from headwise.support.typed import check_fields, check_type, read_assignment, read_yaml


@dataclass
class Plan:
    model: str
    budget: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class More:
    task: str = "pos"


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (3, float), (3, int), (2.5, float), (True, bool), (None, int | None), ("a", str),
        ({"a": [1]}, Mapping[str, Any]), (["a", "b"], Sequence[str]), (["a", "b"], tuple[str, ...]),
        ([1, 2], Sequence[int]), ("x", Literal["x", "y"]),
    ],
)  # fmt: skip
def test_what_fits_is_let_through(value: object, hint: Any) -> None:
    check_type("it", value, hint)


@pytest.mark.parametrize(
    ("value", "hint", "says"),
    [
        (True, int, "it must be a whole number, not True"),
        (True, float, "it must be a number, not True"),
        (1, bool, "it must be true or false, not 1"),
        ("3", int, "it must be a whole number, not '3'"),
        (2.5, int | None, "it must be a whole number or null, not 2.5"),
        (2.0, int, "it must be a whole number, not 2.0"),
        (False, str, "it must be text, not False: put it in quotes"),
        (["a"], str, "it must be text, not ['a']"),
        ("\ud800", bool, r"it must be true or false, not '\ud800'"),
        (None, str, "it must be text, not None"),
        (3, Mapping[str, Any], "it must be a map of names and values, not 3"),
        ("ab", Sequence[str], "it must be a list, each item text, not 'ab'"),
        (["a", False], tuple[str, ...], "it must be a list, each item text, not ['a', False]"),
        ("z", Literal["x", "y"], "it must be one of x, y, not 'z'"),
        (["x"], Literal["x", "y"], "it must be one of x, y, not ['x']"),
        (float("nan"), float, "it must be a finite number, not nan"),
        (float("inf"), float | None, "it must be a finite number, not inf"),
    ],
)
def test_what_does_not_fit_is_named(value: object, hint: Any, says: str) -> None:
    with pytest.raises(HeadwiseError) as caught:
        check_type("it", value, hint)
    assert str(caught.value) == says


def test_unknown_and_missing_fields_are_named_with_those_that_there_are() -> None:
    check_fields({"model": "m", "task": "ner"}, [Plan, More], "f.yaml")
    with pytest.raises(HeadwiseError, match=r"^f.yaml: unknown field 'bugdet': choose from budget, model, options$"):
        check_fields({"model": "m", "bugdet": 3}, [Plan], "f.yaml")
    with pytest.raises(HeadwiseError, match=r"^f.yaml: unknown field 'model': choose from budget, options, task$"):
        check_fields({"model": "m"}, [Plan, More], "f.yaml", without=["model"])
    with pytest.raises(HeadwiseError, match=r"^f.yaml: the field 'model' is missing: add it; the fields are budget, m"):
        check_fields({}, [Plan], "f.yaml")
    with pytest.raises(HeadwiseError, match=r"^--set budget=x: 'budget' must be a number, not 'x'$"):
        check_fields({"model": "m", "budget": "x"}, [Plan], "f.yaml", {"budget": "--set budget=x"})


def test_files_that_hold_no_fields_are_named(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    for content, says in {
        b"a: 1\nb: [": "f.yaml, line 2: not YAML",
        b"a: 1\n b: 2": "f.yaml, line 2: not YAML",
        b"- a\n- b": "f.yaml: has no fields",
        b"": "f.yaml: has no fields",
        b"a: \xff": "f.yaml: cannot be read",
        b"a: 2020-13-45": "f.yaml: not YAML: a date or number is not valid",
        b"a: " + b"[" * 1500: "f.yaml: not YAML: .* the nesting is too deep",
        b"a: " + b"9" * 5000: "f.yaml, line 1: not YAML: a number of more than 100 characters",
        b"a: &x [1]\nb: [*x, *x]": r"f.yaml, line 2: not YAML: the alias \*x is not allowed",
        b"a: &x {b: *x}": r"f.yaml, line 1: not YAML: the alias \*x is not allowed",
        b"a: [" + b"1," * 600_000: "f.yaml: not YAML: it has 1,200,004 characters",
    }.items():
        path.write_bytes(content)
        with pytest.raises(HeadwiseError, match=says):
            read_yaml(path)
    with pytest.raises(FileNotFoundError):
        read_yaml(tmp_path / "nothing.yaml")


def test_an_assignment_with_line_breaks_is_named_in_one_line() -> None:
    with pytest.raises(HeadwiseError, match=r"^budget=…, line 2: not YAML") as error:
        read_assignment("budget=\n\t")
    assert "\n" not in str(error.value)


def test_neither_yaml_nor_msgspec_is_imported_before_it_is_needed() -> None:
    check = "import sys, headwise.support.typed; sys.exit(bool({'yaml', 'msgspec'} & set(sys.modules)))"
    from tests.runs.writers import LIGHT

    assert subprocess.run([sys.executable, "-c", LIGHT + check], check=False).returncode == 0
