"""Scoring: from a question about a model to a run folder with scores and masks."""

from headwise.scoring.climbing import RefinementPlan, Step
from headwise.scoring.plan import PLAYERS, ScoringPlan, plan_of
from headwise.scoring.problems import find_estimand, find_players, make_problems
from headwise.scoring.refine import Refined, refine_mask, refine_run
from headwise.scoring.run import LanguageScores, ScoringRun, run_scoring, score_languages
from headwise.scoring.setting import Setting, fingerprint_examples, load_setting, make_setting

__all__ = [
    "PLAYERS",
    "LanguageScores",
    "Refined",
    "RefinementPlan",
    "ScoringPlan",
    "ScoringRun",
    "Setting",
    "Step",
    "find_estimand",
    "find_players",
    "fingerprint_examples",
    "load_setting",
    "make_problems",
    "make_setting",
    "plan_of",
    "refine_mask",
    "refine_run",
    "run_scoring",
    "score_languages",
]
