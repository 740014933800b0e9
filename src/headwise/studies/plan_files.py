"""The plans that come with the package, by name; this module does not import torch."""

from pathlib import Path

#: The folder of the plans.
FOLDER = Path(__file__).with_name("plans")


def plan_names() -> tuple[str, ...]:
    """The names of the plans that come with the package.

    Example:
        >>> "phrasebook" in plan_names()
        True
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
