"""The kinds of studies."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from headwise.engine import EngineFactory, LocalEngine
from headwise.errors import HeadwiseError
from headwise.studies.compare_models import COMPARE_MODELS
from headwise.studies.correlates import CORRELATES
from headwise.studies.emptied_layers import LAYERS
from headwise.studies.iterative import ITERATIVE
from headwise.studies.l0_path import L0_PATH
from headwise.studies.low_resource import LOW_RESOURCE
from headwise.studies.multi_source import MULTI_SOURCE
from headwise.studies.parts import MeasuredPart, Part
from headwise.studies.prune_then_tune import PRUNE_THEN_TUNE
from headwise.studies.random_share import RANDOM_SHARE
from headwise.studies.rank_then_tune import RANK_THEN_TUNE
from headwise.studies.recovery import RECOVERY
from headwise.studies.stability import STABILITY
from headwise.studies.study import Study
from headwise.studies.targeted import TARGETED
from headwise.studies.work import GridKind
from headwise.support.progress import Advance


class Kind(Protocol):
    """A kind of study."""

    @property
    def name(self) -> str:
        """Its name, as in the field `study` of a plan."""

    @property
    def plan(self) -> type[Any]:
        """The class of its plans: a dataclass, with the field `scoring` if it scores heads."""

    def run(
        self,
        plan: Any,
        out: str | os.PathLike[str],
        progress: Advance | None = None,
        make_engine: EngineFactory = LocalEngine,
    ) -> Study:
        """Run a plan in a folder, or resume it."""

    def load(self, folder: Path) -> Study:
        """The finished study of a folder."""


_ALL = (
    TARGETED, ITERATIVE, STABILITY, CORRELATES, PRUNE_THEN_TUNE, MULTI_SOURCE, LOW_RESOURCE, RANK_THEN_TUNE,
    RANDOM_SHARE, LAYERS, RECOVERY, COMPARE_MODELS, L0_PATH
)  # fmt: skip
#: All kinds by name.
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}


def run_study(
    plan: Any,
    out: str | os.PathLike[str],
    progress: Advance | None = None,
    make_engine: EngineFactory = LocalEngine,
    parts: Sequence[str | os.PathLike[str]] = (),
) -> Study:
    """Run a plan of any kind, or resume an interrupted study.

    Args:
        plan: The plan, for example from `find_plan`.
        out: The run folder.
        progress: Called after every step.
        make_engine: Creates engines, for example `Cluster.make_engine`.
        parts: Folders of `run_part` with cells that other machines have measured.

    Raises:
        HeadwiseError: The plan is invalid, or a folder contains a run of another plan.
    """
    kind = _kind_of(plan)
    if parts:
        return _grid_kind(kind, "parts").run(plan, out, progress, make_engine, parts)
    return kind.run(plan, out, progress, make_engine)


def run_part(
    plan: Any,
    out: str | os.PathLike[str],
    part: Part,
    progress: Advance | None = None,
    make_engine: EngineFactory = LocalEngine,
) -> MeasuredPart:
    """Measure some of the cells of a study, to be merged by `run_study` with `parts`.

    Args:
        plan: The plan, for example from `find_plan`.
        out: The run folder of this part; every machine needs its own.
        part: The cells to measure.
        progress: Called after every step.
        make_engine: Creates engines, for example `Cluster.make_engine`.

    Raises:
        HeadwiseError: The plan is invalid, no cell belongs to the part, or the folder contains a run of another plan.
    """
    return _grid_kind(_kind_of(plan), "only and shard").run_part(plan, out, part, progress, make_engine)


def _kind_of(plan: Any) -> Kind:
    [kind] = [kind for kind in KINDS.values() if type(plan) is kind.plan]
    return kind


def _grid_kind(kind: Kind, options: str) -> GridKind[Any, Any, Study]:
    if not isinstance(kind, GridKind):
        raise HeadwiseError(f"a study of the kind {kind.name!r} measures no cells: leave out {options}")
    return kind
