"""The kinds of studies: each a plan, what runs it, and what reads it again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwise.scoring import Advance
from headwise.studies.correlates import CorrelatesPlan, load_correlates, run_correlates
from headwise.studies.descents import load_iterative
from headwise.studies.iterative import IterativePlan, run_iterative
from headwise.studies.outcomes import load_targeted
from headwise.studies.stability import StabilityPlan, load_stability, run_stability
from headwise.studies.study import Study
from headwise.studies.targeted import TargetedPlan, run_targeted


@dataclass(frozen=True)
class Kind:
    """A kind of study.

    Attributes:
        plan: The plan's class: a dataclass with fields of its own, and `scoring` if it scores heads.
        run: Runs a plan in a folder, or goes on with it.
        load: The finished study of a folder.
    """

    plan: type[Any]
    run: Callable[[Any, Path, Advance | None], Study]
    load: Callable[[Path], Study]


#: By the name that a plan gives as `study`.
KINDS: Mapping[str, Kind] = {
    "targeted": Kind(TargetedPlan, run_targeted, load_targeted),
    "iterative": Kind(IterativePlan, run_iterative, load_iterative),
    "stability": Kind(StabilityPlan, run_stability, load_stability),
    "correlates": Kind(CorrelatesPlan, run_correlates, load_correlates),
}


def kind_of(plan: Any) -> str:
    """The name of a plan's kind."""
    [name] = [name for name, kind in KINDS.items() if type(plan) is kind.plan]
    return name
