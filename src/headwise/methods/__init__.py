"""Methods: compute a score for every player from the values of coalitions.

A method is one file, which contains everything about it, and one row of `_WHERE`. The names of methods are known
without importing torch: a method's module is imported when the method is first used.
"""

import dataclasses
import typing
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError
from headwise.support.lazy import lazy_names
from headwise.support.typed import check_type

if TYPE_CHECKING:
    from headwise.methods.base import Budget, Estimand, Method, MethodRun, Problem, run_method, score
else:
    __getattr__ = lazy_names(
        __name__, {"base": ("Budget", "Estimand", "Method", "MethodRun", "Problem", "run_method", "score")}
    )

#: The module and the class of each method.
_WHERE = {
    "stars": ("stars", "Stars"),
    "permutation": ("permutation", "Permutation"),
    "tmab": ("tmab", "Tmab"),
    "gradient-screen": ("gradient_screen", "GradientScreen"),
    "screened": ("screened", "Screened"),
    "michel": ("michel", "Michel"),
    "relevance": ("relevance", "Relevance"),
    "gradient": ("gradient", "Gradient"),
    "random": ("random_ranking", "RandomRanking"),
    "leave-one-out": ("leave_one_out", "LeaveOneOut"),
    "layers": ("layers", "Layers"),
    "confidence": ("attention_statistics", "Confidence"),
    "entropy": ("attention_statistics", "Entropy"),
    "hies": ("hies", "Hies"),
    "l0": ("l0", "L0"),
    "chg": ("causal_head_gating", "CausalHeadGating"),
    "lahis": ("lahis", "Lahis"),
    "soft": ("soft", "Soft"),
    "exact": ("exact", "Exact"),
    "shapiq": ("peers", "Shapiq"),
    "captum": ("peers", "Captum"),
}
METHODS = tuple(_WHERE)

__all__ = [
    "METHODS",
    "Budget",
    "Estimand",
    "Method",
    "MethodRun",
    "Problem",
    "find_method",
    "method_class",
    "run_method",
    "score",
]


def method_class(name: str) -> Any:
    """The class of a method. Its attributes tell whether the method is signed, unbiased, and so on.

    Raises:
        HeadwiseError: The method is unknown.

    Example:
        >>> method_class("michel").signed, method_class("shapiq").needs_units
        (False, True)
    """
    if name not in _WHERE:
        raise HeadwiseError(f"there is no method {name!r}: choose one of {', '.join(METHODS)}")
    module, found = _WHERE[name]
    return getattr(import_module(f"{__name__}.{module}"), found)


def find_method(name: str, **options: Any) -> "Method":
    """The method with this name.

    Args:
        name: One of `METHODS`.
        options: Options of the method, by name.

    Raises:
        HeadwiseError: The method or an option is unknown, or an option has a value of the wrong type.

    Example:
        >>> find_method("stars", error_rate=0.05).name
        'stars'
    """
    found = method_class(name)
    known = {each.name for each in dataclasses.fields(found)}
    if unknown := sorted(set(options) - known):
        raise HeadwiseError(f"the method {name!r} has no option {unknown[0]!r}: it has {', '.join(sorted(known))}")
    wanted = typing.get_type_hints(found)
    for option, value in options.items():
        check_type(f"the option {option!r} of the method {name!r}", value, wanted[option])
    method: Method = found(**options)
    return method
