"""Studies: experiments as in the papers, each defined by a YAML plan, with tables and sections of the report."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.studies.compare_models import ComparePlan
    from headwise.studies.correlates import Correlate, CorrelatesPlan, CorrelatesStudy
    from headwise.studies.emptied_layers import LayersPlan
    from headwise.studies.grid import Cell, Grid
    from headwise.studies.iterative import IterativePlan, IterativeStudy
    from headwise.studies.kinds import KINDS, Kind, run_part, run_study
    from headwise.studies.l0_path import L0PathPlan
    from headwise.studies.low_resource import LowResourcePlan
    from headwise.studies.multi_source import MultiSourcePlan
    from headwise.studies.page import load_study, report_of
    from headwise.studies.parts import MeasuredPart, Part
    from headwise.studies.plan_files import plan_names
    from headwise.studies.plans import find_plan
    from headwise.studies.plots import save_plots
    from headwise.studies.prune_then_tune import PruneThenTunePlan
    from headwise.studies.prune_then_tune_study import PruneThenTuneStudy
    from headwise.studies.random_share import RandomSharePlan
    from headwise.studies.rank_then_tune import RankThenTunePlan
    from headwise.studies.recovery import RecoveryPlan
    from headwise.studies.stability import LanguageStability, StabilityPlan, StabilityStudy
    from headwise.studies.study import Study
    from headwise.studies.tables import Figure, StudyTable
    from headwise.studies.targeted import TargetedPlan
    from headwise.studies.targeted_study import LanguageOutcome, Outcome, TargetedStudy
    from headwise.studies.tuned_study import TunedStudy
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "compare_models": ("ComparePlan",),
            "correlates": ("Correlate", "CorrelatesPlan", "CorrelatesStudy"),
            "emptied_layers": ("LayersPlan",),
            "grid": ("Cell", "Grid"),
            "iterative": ("IterativePlan", "IterativeStudy"),
            "kinds": ("KINDS", "Kind", "run_part", "run_study"),
            "l0_path": ("L0PathPlan",),
            "low_resource": ("LowResourcePlan",),
            "multi_source": ("MultiSourcePlan",),
            "page": ("load_study", "report_of"),
            "parts": ("MeasuredPart", "Part"),
            "plan_files": ("plan_names",),
            "plans": ("find_plan",),
            "plots": ("save_plots",),
            "prune_then_tune": ("PruneThenTunePlan",),
            "prune_then_tune_study": ("PruneThenTuneStudy",),
            "random_share": ("RandomSharePlan",),
            "rank_then_tune": ("RankThenTunePlan",),
            "recovery": ("RecoveryPlan",),
            "stability": ("LanguageStability", "StabilityPlan", "StabilityStudy"),
            "study": ("Study",),
            "tables": ("Figure", "StudyTable"),
            "targeted": ("TargetedPlan",),
            "targeted_study": ("LanguageOutcome", "Outcome", "TargetedStudy"),
            "tuned_study": ("TunedStudy",),
        },
    )

__all__ = [
    "KINDS",
    "Cell",
    "ComparePlan",
    "Correlate",
    "CorrelatesPlan",
    "CorrelatesStudy",
    "Figure",
    "Grid",
    "IterativePlan",
    "IterativeStudy",
    "Kind",
    "L0PathPlan",
    "LanguageOutcome",
    "LanguageStability",
    "LayersPlan",
    "LowResourcePlan",
    "MeasuredPart",
    "MultiSourcePlan",
    "Outcome",
    "Part",
    "PruneThenTunePlan",
    "PruneThenTuneStudy",
    "RandomSharePlan",
    "RankThenTunePlan",
    "RecoveryPlan",
    "StabilityPlan",
    "StabilityStudy",
    "Study",
    "StudyTable",
    "TargetedPlan",
    "TargetedStudy",
    "TunedStudy",
    "find_plan",
    "load_study",
    "plan_names",
    "report_of",
    "run_part",
    "run_study",
    "save_plots",
]
