"""Tuning: from a plan or from objects in hand to a tuned model."""

from headwise.tuning.loop import EpochResult, TuningResult, train_encoded, train_model
from headwise.tuning.plan import TuningPlan, TuningSettings
from headwise.tuning.run import TunedModel, run_tuning, tune
from headwise.tuning.training_set import TrainingSet, encode_training_set

__all__ = [
    "EpochResult",
    "TrainingSet",
    "TunedModel",
    "TuningPlan",
    "TuningResult",
    "TuningSettings",
    "encode_training_set",
    "run_tuning",
    "train_encoded",
    "train_model",
    "tune",
]
