"""Studies: the papers' protocols, each a plan in YAML and a table."""

from headwise.studies.kinds import KINDS, Kind, kind_of
from headwise.studies.outcomes import LanguageOutcome, Outcome, TargetedStudy
from headwise.studies.plans import find_plan, plan_names
from headwise.studies.study import Figure, Study, StudyTable
from headwise.studies.targeted import TargetedPlan, run_targeted

__all__ = [
    "KINDS",
    "Figure",
    "Kind",
    "LanguageOutcome",
    "Outcome",
    "Study",
    "StudyTable",
    "TargetedPlan",
    "TargetedStudy",
    "find_plan",
    "kind_of",
    "plan_names",
    "run_targeted",
]
