"""Tasks: encode examples, predict, measure, tune."""

from headwise.tasks.evaluation import Evaluation, evaluate
from headwise.tasks.task import Task, find_task, labels_of

__all__ = ["Evaluation", "Task", "evaluate", "find_task", "labels_of"]
