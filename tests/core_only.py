"""Makes a Python process in which only the core dependencies of headwise can be imported, as after a plain install."""

import importlib.machinery
import re
import sys
import tomllib
from collections.abc import Container, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def extra_modules() -> set[str]:
    """The top-level modules of installed packages that neither headwise nor its core dependencies need."""
    wanted = [Requirement(each) for each in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]]
    core = {"headwise"}
    while wanted:
        name = _plain(wanted.pop().name)
        if name not in core and (needed := _requirements(name)) is not None:
            core.add(name)
            wanted += needed
    owners = metadata.packages_distributions()
    return {module for module, names in owners.items() if not core & set(map(_plain, names))}


def _requirements(name: str) -> list[Requirement] | None:
    """What a package needs on this machine, without its extras; None if it is not installed."""
    try:
        found = map(Requirement, metadata.requires(name) or ())
    except metadata.PackageNotFoundError:
        return None
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": ""})]


class _CoreFinder:
    """Finds modules on `sys.path` as Python does, except for those that a plain install would not bring."""

    #: Versions of packages are still known.
    find_distributions = staticmethod(importlib.machinery.PathFinder.find_distributions)

    def __init__(self, hidden: Container[str]) -> None:
        self._hidden = hidden

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._hidden:
            return None
        return importlib.machinery.PathFinder.find_spec(name, path, target)


def hide_extras() -> None:
    """Let only the core dependencies be imported from now on."""
    machinery = importlib.machinery
    finders = [machinery.BuiltinImporter, machinery.FrozenImporter, _CoreFinder(extra_modules())]
    sys.meta_path[:] = finders  # type: ignore[assignment]
    sys.path.insert(0, str(PROJECT.parent / "src"))  # an editable install has a finder of its own, which is gone now


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
