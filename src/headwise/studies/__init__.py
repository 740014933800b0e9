"""Studies: the papers' protocols, each a plan in YAML and a table."""

from headwise.studies.correlates import Correlate, CorrelatesPlan, CorrelatesStudy, load_correlates, run_correlates
from headwise.studies.descents import IterativeStudy, load_iterative
from headwise.studies.iterative import IterativePlan, run_iterative
from headwise.studies.kinds import KINDS, Kind, kind_of
from headwise.studies.outcomes import LanguageOutcome, Outcome, TargetedStudy
from headwise.studies.plans import find_plan, plan_names
from headwise.studies.stability import (
    LanguageStability,
    StabilityPlan,
    StabilityStudy,
    load_stability,
    run_stability,
)
from headwise.studies.study import Figure, Study, StudyTable
from headwise.studies.targeted import TargetedPlan, run_targeted

__all__ = [
    "KINDS",
    "Correlate",
    "CorrelatesPlan",
    "CorrelatesStudy",
    "Figure",
    "IterativePlan",
    "IterativeStudy",
    "Kind",
    "LanguageOutcome",
    "LanguageStability",
    "Outcome",
    "StabilityPlan",
    "StabilityStudy",
    "Study",
    "StudyTable",
    "TargetedPlan",
    "TargetedStudy",
    "find_plan",
    "kind_of",
    "load_correlates",
    "load_iterative",
    "load_stability",
    "plan_names",
    "run_correlates",
    "run_iterative",
    "run_stability",
    "run_targeted",
]
