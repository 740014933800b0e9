"""Methods: from the values of coalitions to a score for every player."""

import dataclasses
import importlib
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

__all__ = ["METHODS", "Budget", "Estimand", "Method", "Problem", "find_method", "score"]


def find_method(name: str, **options: Any) -> Method:
    """The method of a name.

    Args:
        name: One of `METHODS`.
        options: Options of the method, by name.

    Raises:
        HeadwiseError: There is no such method, or it has no such option.

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
    method: Method = found(**options)
    return method
