"""Studies: the papers' protocols, each a plan in YAML and a table."""

from headwise.studies.plans import find_plan, plan_names
from headwise.studies.targeted import LanguageOutcome, Outcome, TargetedPlan, TargetedStudy, run_targeted

__all__ = [
    "LanguageOutcome",
    "Outcome",
    "TargetedPlan",
    "TargetedStudy",
    "find_plan",
    "plan_names",
    "run_targeted",
]
