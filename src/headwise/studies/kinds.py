"""The kinds of studies."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from headwise.studies.correlates import CORRELATES
from headwise.studies.emptied_layers import LAYERS
from headwise.studies.iterative import ITERATIVE
from headwise.studies.random_share import RANDOM_SHARE
from headwise.studies.stability import STABILITY
from headwise.studies.study import Study
from headwise.studies.targeted import TARGETED
from headwise.support.progress import Advance


class Kind(Protocol):
    """A kind of study."""

    @property
    def name(self) -> str:
        """Its name, as in the field `study` of a plan."""

    @property
    def plan(self) -> type[Any]:
        """The class of its plans: a dataclass, with the field `scoring` if it scores heads."""

    def run(self, plan: Any, out: str | os.PathLike[str], progress: Advance | None = None) -> Study:
        """Run a plan in a folder, or resume it."""

    def load(self, folder: Path) -> Study:
        """The finished study of a folder."""


#: All kinds by name.
KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (TARGETED, ITERATIVE, STABILITY, CORRELATES, RANDOM_SHARE, LAYERS)
}


def run_study(plan: Any, out: str | os.PathLike[str], progress: Advance | None = None) -> Study:
    """Run a plan of any kind, or resume an interrupted study.

    Args:
        plan: The plan, for example from `find_plan`.
        out: The run folder.
        progress: Called after every step.

    Raises:
        HeadwiseError: The plan is invalid, or the folder contains a run of another plan.
    """
    [kind] = [kind for kind in KINDS.values() if type(plan) is kind.plan]
    return kind.run(plan, out, progress)
