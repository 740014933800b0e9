"""Packages that only some functions need: imported where they are used, and named with their extra when missing."""

from importlib import import_module
from typing import Any

from headwise.errors import MissingPackageError


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: The module, such as `sacrebleu.metrics`.
        extra: The extra of headwise that installs the package.
        purpose: What needs the package, as the subject of a sentence with a singular verb.

    Raises:
        MissingPackageError: The package is not installed.

    Example:
        >>> require("nosuch.metrics", "tasks", "BLEU")
        Traceback (most recent call last):
        headwise.errors.MissingPackageError: BLEU needs the package nosuch: pip install 'headwise[tasks]'
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise  # the package is installed, but one of its own dependencies is not
        raise MissingPackageError(f"{purpose} needs the package {package}: pip install 'headwise[{extra}]'") from None
