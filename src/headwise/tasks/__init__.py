"""Tasks: encode examples, read answers, measure them, tune."""

from headwise.tasks.evaluation import Evaluation
from headwise.tasks.protocol import AnyTask, gold_log_probabilities
from headwise.tasks.task import Task, find_task, labels_of

__all__ = ["AnyTask", "Evaluation", "Task", "find_task", "gold_log_probabilities", "labels_of"]
