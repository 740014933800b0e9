"""Studies: experiments as in the papers, each defined by a YAML plan, with tables and sections of the report."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.studies.correlates import Correlate, CorrelatesPlan, CorrelatesStudy
    from headwise.studies.grid import Cell, Grid
    from headwise.studies.iterative import IterativePlan, IterativeStudy
    from headwise.studies.kinds import KINDS, Kind, run_study
    from headwise.studies.page import load_study, report_of
    from headwise.studies.plan_files import plan_names
    from headwise.studies.plans import find_plan
    from headwise.studies.prune_then_tune import PruneThenTunePlan
    from headwise.studies.prune_then_tune_study import PruneThenTuneStudy
    from headwise.studies.stability import LanguageStability, StabilityPlan, StabilityStudy
    from headwise.studies.study import Study
    from headwise.studies.tables import Figure, StudyTable
    from headwise.studies.targeted import TargetedPlan
    from headwise.studies.targeted_study import LanguageOutcome, Outcome, TargetedStudy
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "correlates": ("Correlate", "CorrelatesPlan", "CorrelatesStudy"),
            "grid": ("Cell", "Grid"),
            "iterative": ("IterativePlan", "IterativeStudy"),
            "kinds": ("KINDS", "Kind", "run_study"),
            "page": ("load_study", "report_of"),
            "plan_files": ("plan_names",),
            "plans": ("find_plan",),
            "prune_then_tune": ("PruneThenTunePlan",),
            "prune_then_tune_study": ("PruneThenTuneStudy",),
            "stability": ("LanguageStability", "StabilityPlan", "StabilityStudy"),
            "study": ("Study",),
            "tables": ("Figure", "StudyTable"),
            "targeted": ("TargetedPlan",),
            "targeted_study": ("LanguageOutcome", "Outcome", "TargetedStudy"),
        },
    )

__all__ = [
    "KINDS",
    "Cell",
    "Correlate",
    "CorrelatesPlan",
    "CorrelatesStudy",
    "Figure",
    "Grid",
    "IterativePlan",
    "IterativeStudy",
    "Kind",
    "LanguageOutcome",
    "LanguageStability",
    "Outcome",
    "PruneThenTunePlan",
    "PruneThenTuneStudy",
    "StabilityPlan",
    "StabilityStudy",
    "Study",
    "StudyTable",
    "TargetedPlan",
    "TargetedStudy",
    "find_plan",
    "load_study",
    "plan_names",
    "report_of",
    "run_study",
]
