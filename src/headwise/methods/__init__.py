"""Methods: from the values of coalitions to a score for every player."""

import dataclasses
import importlib
import typing
from typing import Any

from headwise.errors import HeadwiseError
from headwise.methods.base import Budget, Estimand, Method, Problem, score

#: Where each method is: one file and one row here.
_WHERE = {
    "stars": ("stars", "Stars"),
    "permutation": ("permutation", "Permutation"),
    "tmab": ("tmab", "Tmab"),
    "gradient-screen": ("gradient_screen", "GradientScreen"),
    "michel": ("michel", "Michel"),
    "random": ("random_ranking", "RandomRanking"),
    "exact": ("exact", "Exact"),
    "shapiq": ("peers", "Shapiq"),
    "captum": ("peers", "Captum"),
}
METHODS = tuple(_WHERE)
#: Raised when a method's rounds become others under the same seed and options, so that no run mixes them; 1 if absent.
_VERSIONS = {"stars": 3}

__all__ = ["METHODS", "Budget", "Estimand", "Method", "Problem", "find_method", "score", "version_of"]


def find_method(name: str, **options: Any) -> Method:
    """The method of a name.

    Args:
        name: One of `METHODS`.
        options: Options of the method, by name.

    Raises:
        HeadwiseError: There is no such method, or it has no such option or not with such a value.

    Example:
        >>> find_method("stars", error_rate=0.05).name
        'stars'
    """
    if name not in _WHERE:
        raise HeadwiseError(f"there is no method {name!r}: choose one of {', '.join(METHODS)}")
    module, cls = _WHERE[name]
    found = getattr(importlib.import_module(f"headwise.methods.{module}"), cls)
    known = {each.name for each in dataclasses.fields(found)} - {"name"}
    if unknown := sorted(set(options) - known):
        raise HeadwiseError(f"the method {name!r} has no option {unknown[0]!r}: it has {', '.join(sorted(known))}")
    wanted = typing.get_type_hints(found)
    for option, value in options.items():
        _check_option(name, option, value, wanted[option])
    method: Method = found(**options)
    return method


def version_of(method: Method) -> int:
    """Which version of a method this is: rounds of another are not to be mixed with its own.

    Example:
        >>> version_of(find_method("permutation"))
        1
    """
    return _VERSIONS.get(method.name, 1)


def _check_option(method: str, option: str, value: object, wanted: Any) -> None:
    """Options come from plans that people write: a text or a list where a number belongs must be said."""
    kinds: tuple[type, ...] = {float: (int, float), int: (int,), bool: (bool,)}.get(wanted, ())
    choices = typing.get_args(wanted)
    fits = isinstance(value, kinds) and (wanted is bool or not isinstance(value, bool)) if kinds else value in choices
    if not fits:
        what = {float: "a number", int: "a whole number", bool: "true or false"}.get(
            wanted, f"one of {', '.join(choices)}"
        )
        raise HeadwiseError(f"the option {option!r} of the method {method!r} is {what}, not {value!r}")
