"""Tuned cells as tasks of a cluster: each task tunes one model and measures all of its cells.

A task gets everything that it needs: the model, the encoded examples, and the mask. It reads and writes no files, so it
can run on any machine. It keeps no state of an unfinished tuning: if its process dies, the task starts again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwise.engine.cluster import Cluster
from headwise.engine.evaluation import MaskJudge
from headwise.engine.shipping import Shipped, unship_model
from headwise.heads import find_heads
from headwise.masks import HeadMask
from headwise.soft_masks import AnyMask
from headwise.studies.cells import CellTuning
from headwise.studies.tuned import pruned_copy
from headwise.tasks.metrics import Array
from headwise.tuning import TrainingSet, TuningResult, train_encoded
from headwise.tuning.untuned import NewClassifier


@dataclass(frozen=True)
class CellTest:
    """The measurement of one cell of a tuned model.

    Attributes:
        judge: A judge of the cell's examples, without a model.
        only: Numbers of the examples to measure; None for all.
        epoch: Measure the model after this epoch; None for its best epoch.
    """

    judge: MaskJudge
    only: tuple[int, ...] | None
    epoch: int | None

    def measure(self, model: Any) -> Array:
        """The statistics of a tuned model on the examples."""
        heads = find_heads(model)
        judge = self.judge.changed(model=model.eval(), heads=heads)
        [found] = judge.measure([HeadMask.full(heads)], [self.only or range(len(judge.examples))]).statistics
        return found


@dataclass(frozen=True)
class TunedJob:
    """A model to tune, and the cells to measure with it.

    Attributes:
        mask: The heads to cut out before tuning; None for none.
        tuning: The tuning.
        data: The encoded training and dev examples.
        classifier: The new classifier of the model, if it has one.
        tests: The cells.
    """

    mask: AnyMask | None
    tuning: CellTuning
    data: TrainingSet
    classifier: NewClassifier | None
    tests: tuple[CellTest, ...]


@dataclass(frozen=True)
class TunedAnswer:
    """The results of a `TunedJob`.

    Attributes:
        tuning: What was measured during tuning.
        statistics: The statistics of each cell; None if tuning stopped before its epoch.
    """

    tuning: TuningResult
    statistics: tuple[Array | None, ...]


def run_job(device: str, threads: int, shipped: Shipped, job: TunedJob) -> TunedAnswer:
    """Tune a model and measure its cells; the same results as in the process of the study.

    Args:
        device: The device to tune on.
        threads: Number of threads, which the caller has set.
        shipped: The model that tuning starts from; it is not changed.
        job: The job.
    """
    del threads
    found: list[Array | None] = [None] * len(job.tests)
    model = pruned_copy(unship_model(shipped), job.mask, job.tuning, job.classifier).to(device)

    def test(epoch: int | None) -> None:
        for place, each in enumerate(job.tests):
            if each.epoch == epoch:
                found[place] = each.measure(model)

    result = train_encoded(model, job.data, job.tuning.settings, after_epoch=test)
    test(None)
    return TunedAnswer(result, tuple(found))


def run_jobs(cluster: Cluster, model: Any, jobs: Sequence[Callable[[], TunedJob]]) -> Iterator[tuple[int, TunedAnswer]]:
    """Run jobs as tasks of a cluster.

    Args:
        cluster: The cluster.
        model: The model that all tuning starts from.
        jobs: Make the jobs, as there is room for them.

    Returns:
        The position of each job and its results, as they finish.
    """
    shipped = cluster.put_model(model)
    return cluster.call_tasks(run_job, ((shipped, make()) for make in jobs))
