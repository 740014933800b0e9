"""Refining a mask: players are scored again given what is already off, because harm is not additive."""

from headwise.refinement.climbing import RefinementPlan, Step
from headwise.refinement.refining import Refined, refine_mask, refine_run

__all__ = ["Refined", "RefinementPlan", "Step", "refine_mask", "refine_run"]
