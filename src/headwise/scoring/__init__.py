"""Scoring: from a question about a model to a run folder with scores and masks."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.scoring.best import BestMaskPlan
    from headwise.scoring.best_result import BestMask
    from headwise.scoring.best_run import best_of_run, safe_mask_of_run
    from headwise.scoring.climbing import RefinementPlan, Step
    from headwise.scoring.plan import ScoringPlan, plan_of
    from headwise.scoring.problems import find_estimand, find_players, make_problems
    from headwise.scoring.refine import Refined, refine_mask, refine_run
    from headwise.scoring.repair import Repaired, repair_model
    from headwise.scoring.run import LanguageScores, ScoringRun, run_scoring, score_languages
    from headwise.scoring.safe import SafeMask
    from headwise.scoring.setting import Setting, fingerprint_examples, load_setting, make_setting
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "best": ("BestMaskPlan",),
            "best_result": ("BestMask",),
            "best_run": ("best_of_run", "safe_mask_of_run"),
            "climbing": ("RefinementPlan", "Step"),
            "plan": ("ScoringPlan", "plan_of"),
            "problems": ("find_estimand", "find_players", "make_problems"),
            "refine": ("Refined", "refine_mask", "refine_run"),
            "repair": ("Repaired", "repair_model"),
            "run": ("LanguageScores", "ScoringRun", "run_scoring", "score_languages"),
            "safe": ("SafeMask",),
            "setting": ("Setting", "fingerprint_examples", "load_setting", "make_setting"),
        },
    )

__all__ = [
    "BestMask",
    "BestMaskPlan",
    "LanguageScores",
    "Refined",
    "RefinementPlan",
    "Repaired",
    "SafeMask",
    "ScoringPlan",
    "ScoringRun",
    "Setting",
    "Step",
    "best_of_run",
    "find_estimand",
    "find_players",
    "fingerprint_examples",
    "load_setting",
    "make_problems",
    "make_setting",
    "plan_of",
    "refine_mask",
    "refine_run",
    "repair_model",
    "run_scoring",
    "safe_mask_of_run",
    "score_languages",
]
