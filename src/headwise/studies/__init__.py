"""Studies: the papers' protocols, each a plan in YAML, a grid of cells, tables and sections of the report."""

from headwise.studies.correlates import Correlate, CorrelatesPlan, CorrelatesStudy
from headwise.studies.grid import Cell, Grid
from headwise.studies.iterative import IterativePlan, IterativeStudy
from headwise.studies.kinds import KINDS, Kind, run_study
from headwise.studies.page import load_study, report_of
from headwise.studies.plans import find_plan, plan_names
from headwise.studies.stability import LanguageStability, StabilityPlan, StabilityStudy
from headwise.studies.study import Study
from headwise.studies.tables import Figure, StudyTable
from headwise.studies.targeted import TargetedPlan
from headwise.studies.targeted_study import LanguageOutcome, Outcome, TargetedStudy

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
