"""Tuning: from a plan or from objects in hand to a tuned model."""

from headwise.tuning.loop import EpochResult, TuningResult, train_model
from headwise.tuning.plan import TuningPlan, TuningSettings
from headwise.tuning.run import TunedModel, run_tuning, tune

__all__ = [
    "EpochResult",
    "TunedModel",
    "TuningPlan",
    "TuningResult",
    "TuningSettings",
    "run_tuning",
    "train_model",
    "tune",
]
