"""Package names that are imported when they are first used, so that importing a package does not import torch."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Make the `__getattr__` of a package whose names live in its modules.

    Args:
        package: The package's `__name__`.
        modules: The names of each module, by the module's name inside the package.

    Returns:
        A function that imports the module of a name, and keeps the object in the package for the next use.

    Example:
        >>> find = lazy_names("headwise", {"errors": ["HeadwiseError"]})
        >>> find("HeadwiseError").__name__
        'HeadwiseError'
        >>> find("nothing")
        Traceback (most recent call last):
        AttributeError: module 'headwise' has no attribute 'nothing'
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
