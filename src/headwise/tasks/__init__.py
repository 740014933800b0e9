"""Tasks: encode examples, read the model's answers and measure them."""

from typing import TYPE_CHECKING

from headwise.support.lazy import lazy_names

if TYPE_CHECKING:
    from headwise.tasks.evaluation import Evaluation
    from headwise.tasks.protocol import AnyTask, gold_log_probabilities
    from headwise.tasks.task import Task, find_task, labels_of
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "evaluation": ("Evaluation",),
            "protocol": ("AnyTask", "gold_log_probabilities"),
            "task": ("Task", "find_task", "labels_of"),
        },
    )

__all__ = ["AnyTask", "Evaluation", "Task", "find_task", "gold_log_probabilities", "labels_of"]
