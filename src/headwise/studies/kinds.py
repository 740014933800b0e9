"""The kinds of studies: one row each."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from headwise.studies.correlates import CORRELATES
from headwise.studies.iterative import ITERATIVE
from headwise.studies.stability import STABILITY
from headwise.studies.study import Study
from headwise.studies.targeted import TARGETED
from headwise.support.progress import Advance


class Kind(Protocol):
    """A kind of study."""

    @property
    def name(self) -> str:
        """Its name, which plans give as `study`."""

    @property
    def plan(self) -> type[Any]:
        """The plan's class: a dataclass with fields of its own, and `scoring` if it scores heads."""

    def run(self, plan: Any, out: str | os.PathLike[str], progress: Advance | None = None) -> Study:
        """Run a plan in a folder, or continue it."""

    def load(self, folder: Path) -> Study:
        """The finished study of a folder."""


#: By the name that a plan gives as `study`.
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (TARGETED, ITERATIVE, STABILITY, CORRELATES)}


def run_study(plan: Any, out: str | os.PathLike[str], progress: Advance | None = None) -> Study:
    """Run a plan of any kind, or continue a study that was stopped.

    Args:
        plan: The plan, such as `find_plan` gives.
        out: The run folder.
        progress: Called after every step.

    Raises:
        HeadwiseError: Something in the plan does not fit, or the folder holds another run.
    """
    [kind] = [kind for kind in KINDS.values() if type(plan) is kind.plan]
    return kind.run(plan, out, progress)
