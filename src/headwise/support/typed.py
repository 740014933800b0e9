"""YAML files with typed fields: what a file or an option holds is checked against the fields of a dataclass.

Types are checked by msgspec. The messages are ours: msgspec names Python's types, which say little to the author of a
YAML file.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from headwise.errors import HeadwiseError
from headwise.support.yaml_text import parse_yaml

#: Longer assignments are not repeated in messages.
_LONG = 80
_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


def read_yaml(path: str | PathLike[str]) -> dict[str, Any]:
    r"""The fields of a YAML file.

    Raises:
        FileNotFoundError: There is no such file.
        HeadwiseError: The file cannot be read, is not YAML, or has no fields.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "plan.yaml"
        >>> _ = path.write_text("model: e5-small\nbudget: 500\n")
        >>> read_yaml(path)
        {'model': 'e5-small', 'budget': 500}
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwiseError(f"{path}: cannot be read: {error}") from None
    found = parse_yaml(text, str(path))
    if not isinstance(found, dict):
        raise HeadwiseError(f"{path}: has no fields: write one 'name: value' per line")
    return found


def read_assignment(text: str) -> tuple[str, Any]:
    """The name and the value of NAME=VALUE, with a value in YAML.

    Raises:
        HeadwiseError: There is no name or no `=`, or the value is not YAML.

    Example:
        >>> read_assignment("lam=0.01"), read_assignment("rule=voita"), read_assignment("l1=[0.1, 0]")
        (('lam', 0.01), ('rule', 'voita'), ('l1', [0.1, 0]))
    """
    name, found, value = text.partition("=")
    if not found or not name:
        raise HeadwiseError(f"{text}: must be NAME=VALUE")
    return name, parse_yaml(value, text if len(text) < _LONG and text.isprintable() else f"{name}=…")


def check_fields(
    values: Mapping[str, Any],
    kinds: Sequence[type[Any]],
    where: str | PathLike[str],
    sources: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> None:
    """Check that values are fields of dataclasses, that none is missing, and that each has its type.

    Args:
        values: The values by name, as YAML gives them.
        kinds: The dataclasses whose fields they are.
        where: What to name in messages, such as the file.
        sources: What to name in place of `where` for some of the values, such as the option that gave them.
        without: Fields of the dataclasses that the values do not hold.

    Raises:
        HeadwiseError: A field is unknown or missing, or a value does not have the type of its field.

    Example:
        >>> @dataclasses.dataclass
        ... class Plan:
        ...     model: str
        ...     budget: float = 100
        >>> check_fields({"model": "e5-small", "budget": 500}, [Plan], "plan.yaml")
        >>> check_fields({"model": "e5-small", "budget": "many"}, [Plan], "plan.yaml")
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: plan.yaml: 'budget' must be a number, not 'many'
    """
    fields = {each.name: each for kind in kinds for each in dataclasses.fields(kind) if each.name not in without}
    hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
    known, sources = ", ".join(sorted(fields)), sources or {}
    for name in values:
        if name not in fields:
            raise HeadwiseError(f"{sources.get(name, where)}: unknown field {name!r}: choose from {known}")
    for name, field in fields.items():
        if field.default is field.default_factory is dataclasses.MISSING and name not in values:
            raise HeadwiseError(f"{where}: the field {name!r} is missing: add it; the fields are {known}")
    for name, value in values.items():
        check_type(f"{sources.get(name, where)}: {name!r}", value, hints[name])


def check_type(what: str, value: object, hint: Any) -> None:
    """Check that a value has a type. A whole number is a number too, but true and false are not.

    Args:
        what: What the value is, to begin the message with.
        value: The value.
        hint: The type, as in an annotation.

    Raises:
        HeadwiseError: It has another type, or is an infinite or missing number.

    Example:
        >>> check_type("the option 'flips'", 2.5, int | None)
        Traceback (most recent call last):
        headwise.errors.HeadwiseError: the option 'flips' must be a whole number or null, not 2.5
    """
    import msgspec  # late: only those who read plans or options need it

    try:
        msgspec.convert(value, hint)
    except (msgspec.ValidationError, UnicodeEncodeError):  # the latter: text with half a character
        mend = ": put it in quotes" if hint is str and isinstance(value, bool | int | float) else ""
        raise HeadwiseError(f"{what} must be {_words(hint)}, not {value!r}{mend}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise HeadwiseError(f"{what} must be a finite number, not {value}")


def _words(hint: Any) -> str:
    """A type in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_words(part) for part in parts)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    kind = origin or hint
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a map of names and values"
    if isinstance(kind, type) and issubclass(kind, Collection):
        return f"a list, each item {_words(parts[0])}" if parts else "a list"
    return str(hint)
