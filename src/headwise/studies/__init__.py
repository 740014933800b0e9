"""Studies: the papers' protocols, each a plan in YAML and a table."""

from typing import TYPE_CHECKING

from headwise.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.studies.correlates import Correlate, CorrelatesPlan, CorrelatesStudy, load_correlates, run_correlates
    from headwise.studies.descents import IterativeStudy, load_iterative
    from headwise.studies.iterative import IterativePlan, run_iterative
    from headwise.studies.kinds import KINDS, Kind, kind_of
    from headwise.studies.outcomes import LanguageOutcome, Outcome, TargetedStudy
    from headwise.studies.plan_files import plan_names
    from headwise.studies.plans import find_plan
    from headwise.studies.stability import (
        LanguageStability,
        StabilityPlan,
        StabilityStudy,
        load_stability,
        run_stability,
    )
    from headwise.studies.study import Figure, Study, StudyTable
    from headwise.studies.targeted import TargetedPlan, run_targeted
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "correlates": ("Correlate", "CorrelatesPlan", "CorrelatesStudy", "load_correlates", "run_correlates"),
            "descents": ("IterativeStudy", "load_iterative"),
            "iterative": ("IterativePlan", "run_iterative"),
            "kinds": ("KINDS", "Kind", "kind_of"),
            "outcomes": ("LanguageOutcome", "Outcome", "TargetedStudy"),
            "plan_files": ("plan_names",),
            "plans": ("find_plan",),
            "stability": ("LanguageStability", "StabilityPlan", "StabilityStudy", "load_stability", "run_stability"),
            "study": ("Figure", "Study", "StudyTable"),
            "targeted": ("TargetedPlan", "run_targeted"),
        },
    )

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
