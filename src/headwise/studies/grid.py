"""The grid of a study: cells that define what to measure, each measured once and stored in the journal."""

import dataclasses
import functools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.examples import Example
from headwise.engine import LocalEngine
from headwise.engine.base import EngineSettings, calls_at_once
from headwise.engine.cluster import Cluster, cluster_of
from headwise.engine.evaluation import MaskJudge
from headwise.errors import HeadwiseError
from headwise.files import hash_json
from headwise.heads import find_heads, hash_weights
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.runs import Journal
from headwise.scoring import Setting
from headwise.soft_masks import AnyMask
from headwise.studies.cell_tasks import CellTest, TunedJob, run_jobs
from headwise.studies.cells import Cell, CellTuning
from headwise.studies.tuned import TunedModels, pack_result, unpack_result
from headwise.support.progress import Advance
from headwise.support.steps import Steps, run_together
from headwise.tasks import Task
from headwise.tasks.metrics import Metric
from headwise.tuning import TuningResult
from headwise.tuning.untuned import NewClassifier

__all__ = ["Array", "Cell", "CellTuning", "Grid"]

Array = NDArray[np.float64]
#: Maximum number of cells measured together. They share computation; a larger number loses more when interrupted.
_TOGETHER = 16


class Grid:
    """Measures cells: measurements in the journal are reused, others are computed and stored.

    Args:
        setting: The model and the data.
        journal: Stores measurements.
        folder: The run folder, for the state of tuning that is interrupted; None to keep no state.
        classifier: The new classifier of the model, if it has one.
        metric: The metric to measure; by default that of the task, which must have labels.

    Attributes:
        means: By language, the mean outputs that replace heads that are off; 0 replaces them in other languages.

    Raises:
        HeadwiseError: The task has no labels, and there is no metric.
    """

    def __init__(
        self,
        setting: Setting,
        journal: Journal,
        folder: Path | None = None,
        classifier: NewClassifier | None = None,
        metric: Metric | None = None,
    ) -> None:
        self.setting, self.journal, self.metric = setting, journal, metric
        if metric is None:
            _ = self.task  # fail early if it has no labels
        self.means: dict[str, MeanOutputs] = {}
        self._models = TunedModels(setting, folder, classifier)
        self._judges: dict[tuple[str, str, int | None], MaskJudge] = {}
        self._hashes: dict[tuple[object, ...], str] = {}

    @property
    def task(self) -> Task:
        """The task, for studies of tasks with labels.

        Raises:
            HeadwiseError: The task has no labels.
        """
        if not isinstance(self.setting.task, Task):
            raise HeadwiseError(
                f"this study needs a task with labels, not {self.setting.task.name}: for texts, use the study "
                "'language-heads'"
            )
        return self.setting.task

    def measure(self, cells: Iterable[Cell], progress: Advance | None = None) -> dict[Cell, Array]:
        """The statistics of every cell, (examples, statistics) each.

        Args:
            cells: The cells; equal ones are measured once.
            progress: Called with the number of finished cells, and the cell that is being measured.
        """
        keys = {cell: self._key(cell) for cell in dict.fromkeys(cells)}
        # Masks of different languages may turn the same heads off: they are one measurement.
        missing = list({key: cell for cell, key in keys.items() if not self.journal.count(key)}.values())
        work = _Measuring(keys, progress, len(keys) - len(missing))
        groups = list(self._grouped(missing))
        self._measure_masks([each for each in groups if each[0].tuning is None], work)
        self._measure_tuned([each for each in groups if each[0].tuning is not None], work)
        if progress is not None:
            progress(len(keys), len(keys), "tested")
        return {cell: self._recorded(cell, key) for cell, key in keys.items()}

    def _recorded(self, cell: Cell, key: str) -> Array:
        """The statistics of a cell in the journal, (examples, statistics)."""
        with next(self.journal.rounds(key)).replaying() as arrays:
            found = np.asarray(arrays["statistics"])
            examples = len(self.examples(cell))
            if found.ndim != 2 or len(found) != examples:
                raise ValueError(f"the statistics of {examples} examples have the shape {found.shape}")
            return found

    def tuning(self, cell: Cell) -> TuningResult:
        """What was measured while the model of a cell was tuned: dev value of each epoch, best epoch, seconds.

        Raises:
            HeadwiseError: The cell is not tuned, or not measured yet.
        """
        if cell.tuning is None:
            raise HeadwiseError(f"{cell.label}: the model of the cell is not tuned")
        for found in self.journal.rounds(_stream(self._model_key(cell))):
            with found.replaying() as arrays:
                return unpack_result(arrays, self.task.metric.name)
        raise HeadwiseError(f"{cell.label}: the cell is not measured yet")

    def tuned_setting(self, tuning: CellTuning, progress: Advance | None = None) -> Setting:
        """The setting with the whole model tuned, to score its heads.

        The tuned weights are kept in the run folder, and the cells of this model are measured with them.

        Args:
            tuning: The tuning.
            progress: Called after each step.
        """
        cell = Cell("", "", tuning=tuning)
        key = self._model_key(cell)
        model = self._models.load(None, tuning, key)
        if model is None:
            model, found = self._models.make(None, tuning, key, progress)
            self._record_tuning(key, found)
            self._models.save(model, key)
            self._models.forget(key)
        return dataclasses.replace(self.setting, model=model.eval(), heads=find_heads(model))

    def seconds(self, cells: Iterable[Cell]) -> float:
        """The time that measured cells without tuning took."""
        keys = {self._key(cell) for cell in cells}
        rounds = (next(self.journal.rounds(key)) for key in keys)
        return sum(float(found.arrays.get("seconds", 0.0)) for found in rounds)

    def examples(self, cell: Cell) -> Sequence[Example]:
        """The examples of a cell."""
        found = self._judge(cell).examples
        return found if cell.only is None else [found[place] for place in cell.only]

    def _measure_masks(self, groups: Sequence[Sequence[Cell]], work: "_Measuring") -> None:
        """Measure and store groups of cells under masks; on a cluster, several groups at the same time."""
        tasks = {place: self._mask_steps(group, work) for place, group in enumerate(groups)}
        for place, _ in run_together(tasks, calls_at_once(self.setting.make_engine)):
            work.done += len(groups[place])

    def _mask_steps(self, cells: Sequence[Cell], work: "_Measuring") -> Steps[None]:
        """Measure and store cells of one language under masks."""
        work.show(f"testing {cells[0].language}")
        judge, full = self._judge(cells[0]), HeadMask.full(self.setting.heads)
        every = range(len(judge.examples))
        masks = [cell.mask or full for cell in cells]
        found, seconds = yield functools.partial(_timed, judge, masks, [cell.only or every for cell in cells])
        for cell, statistics in zip(cells, found, strict=True):
            self._record(work.keys[cell], statistics, seconds / len(cells))

    def _measure_tuned(self, groups: Sequence[Sequence[Cell]], work: "_Measuring") -> None:
        """Measure and store the cells of tuned models, a group for each model; on a cluster, as its tasks."""
        if groups and self.means:
            raise HeadwiseError("a tuned model has no mean outputs of one language: use the baseline 'zero'")
        cluster = cluster_of(self.setting.make_engine)
        away = []
        for group in groups:
            if cluster is not None and not self._models.is_saved(self._model_key(group[0])):
                away.append(group)
            else:
                self._measure_model(group, work)
                work.done += len(group)
        if cluster is not None and away:
            self._measure_away(cluster, away, work)

    def _measure_away(self, cluster: Cluster, groups: Sequence[Sequence[Cell]], work: "_Measuring") -> None:
        """Measure the cells of tuned models as tasks of a cluster; finished models are stored as they arrive."""
        work.show(f"tuning {len(groups)} models on the cluster")
        jobs = [functools.partial(self._job, group) for group in groups]
        for place, found in run_jobs(cluster, self.setting.model, jobs):
            group = groups[place]
            key = self._model_key(group[0])
            self._record_tuning(key, found.tuning)
            for cell, statistics in zip(group, found.statistics, strict=True):
                if statistics is None:
                    raise _stopped_early(cell, len(found.tuning.history))
                self._record(work.keys[cell], statistics)
            self._models.forget(key)
            work.done += len(group)
            work.show(f"{group[0].model_label}: tuned and tested")

    def _job(self, cells: Sequence[Cell]) -> TunedJob:
        """The cells of one tuned model as a job of a cluster."""
        tuning = cells[0].tuning
        assert tuning is not None
        tests = tuple(self._test(cell) for cell in cells)
        return TunedJob(cells[0].mask, tuning, self._models.training_set(tuning), self._models.classifier, tests)

    def _test(self, cell: Cell) -> CellTest:
        """The measurement of a tuned cell, without its model, in the precision that it was tuned in."""
        precision = EngineSettings(bfloat16=cell.tuning is not None and cell.tuning.settings.bfloat16)
        judge = self._judge(cell).changed(model=None, tokenizer=None, make_engine=LocalEngine, settings=precision)
        return CellTest(judge, cell.only, cell.epoch)

    def _measure_model(self, cells: Sequence[Cell], work: "_Measuring") -> None:
        """Measure and store the cells of one tuned model."""
        first = cells[0]
        assert first.tuning is not None
        key, show = self._model_key(first), work.within(first)
        show(0, 0, "starting")

        def test(model: Any, epoch: int | None) -> None:
            for cell in cells:
                if cell.epoch == epoch and not self.journal.count(work.keys[cell]):
                    show(0, 0, f"testing {cell.language}")
                    self._record(work.keys[cell], self._statistics(model, cell))

        early = {cell.epoch for cell in cells} - {None}
        model = None if early else self._models.load(first.mask, first.tuning, key)
        if model is None:
            model, found = self._models.make(
                first.mask, first.tuning, key, show, lambda epoch, model: test(model, epoch)
            )
            self._record_tuning(key, found)
        test(model, None)
        self._models.forget(key)
        if left := [cell for cell in cells if not self.journal.count(work.keys[cell])]:
            self._measure_epochs(left, work)

    def _measure_epochs(self, left: Sequence[Cell], work: "_Measuring") -> None:
        """Tune again from the start, if epochs to be measured were finished before an interruption."""
        count = len(self.tuning(left[0]).history)
        for cell in left:
            if cell.epoch is not None and cell.epoch > count:
                raise _stopped_early(cell, count)
        self._measure_model(left, work)

    def _statistics(self, model: Any, cell: Cell) -> Array:
        """The statistics of a tuned model on the examples of a cell."""
        test = self._test(cell)
        return dataclasses.replace(test, judge=test.judge.changed(make_engine=self.setting.make_engine)).measure(model)

    def _record(self, key: str, statistics: Array, seconds: float = 0.0) -> None:
        arrays = {"statistics": statistics, "seconds": np.array(seconds)}
        self.journal.record(key, 0, arrays, first_draw=0, draws=0)

    def _record_tuning(self, key: str, found: TuningResult) -> None:
        self.journal.once(_stream(key), lambda: pack_result(found))

    def _judge(self, cell: Cell) -> MaskJudge:
        """The judge of masks on the examples of a cell, which are encoded once."""
        place = (cell.language, cell.split, cell.limit)
        if place not in self._judges:
            examples = self.setting.dataset.examples(cell.language, cell.split)[: cell.limit]
            setting = self.setting
            self._judges[place] = MaskJudge(
                setting.model,
                setting.heads,
                setting.task,
                examples,
                setting.tokenizer,
                cell.language,
                make_engine=setting.make_engine,
                token_metric=self.metric,
            )
        if self._judges[place].baseline is not self.means.get(cell.language):
            self._judges[place] = self._judges[place].changed(baseline=self.means[cell.language])
        return self._judges[place]

    def _key(self, cell: Cell) -> str:
        """The key of a measurement: a hash of the model and the examples."""
        about: list[object] = [self._model_key(cell), self._examples_hash(cell)]
        if cell.mask is not None and cell.language in self.means:
            about.append(self._means_hash(cell.language))
        if cell.epoch is not None:
            about.append(cell.epoch)
        return f"{cell.split} {cell.language} {hash_json(about)}"

    def _model_key(self, cell: Cell) -> str:
        """The key of the model of a cell: a hash of the weights, the mask and the tuning."""
        about: list[object] = [self._weights, cell.gates]
        if cell.tuning is not None:
            about += [cell.tuning.content, self._models.hash_data(cell.tuning)]
        return hash_json(about)

    def _examples_hash(self, cell: Cell) -> str:
        place = (cell.language, cell.split, cell.limit, cell.only)
        if place not in self._hashes:
            self._hashes[place] = hash_json([dataclasses.astuple(example) for example in self.examples(cell)])
        return self._hashes[place]

    def _means_hash(self, language: str) -> str:
        return hash_json({name: mean.tolist() for name, mean in self.means[language].values.items()})

    @functools.cached_property
    def _weights(self) -> str | None:
        return hash_weights(self.setting.model)

    def _grouped(self, cells: Sequence[Cell]) -> Iterator[list[Cell]]:
        """Group cells by tuned model, and cells without tuning by examples, at most `_TOGETHER` per group."""
        groups: dict[object, list[Cell]] = {}
        for cell in cells:
            place = (cell.language, cell.split, cell.limit) if cell.tuning is None else self._model_key(cell)
            groups.setdefault(place, []).append(cell)
        for group in groups.values():
            size = _TOGETHER if group[0].tuning is None else len(group)
            for start in range(0, len(group), size):
                yield group[start : start + size]


@dataclass
class _Measuring:
    """Cells that are being measured.

    Attributes:
        keys: The key of each cell.
        progress: Called with the number of finished cells, and what is being measured.
        done: The number of finished cells.
    """

    keys: Mapping[Cell, str]
    progress: Advance | None
    done: int

    def show(self, status: str) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(self.done, len(self.keys), status)

    def within(self, cell: Cell) -> Advance:
        """A progress function of the model of a cell."""
        return lambda _done, _total, status: self.show(f"{cell.model_label}: {status}")


def _stopped_early(cell: Cell, epochs: int) -> HeadwiseError:
    return HeadwiseError(f"{cell.label}: tuning stopped after epoch {epochs}: set patience to 0")


def _timed(
    judge: MaskJudge, masks: Sequence[AnyMask], examples: Sequence[Sequence[int]]
) -> tuple[Sequence[Array], float]:
    """The statistics of all masks, and the seconds that it took."""
    start = time.perf_counter()
    return judge.measure(masks, examples).statistics, time.perf_counter() - start


def _stream(key: str) -> str:
    """The stream of the journal with what was measured during tuning."""
    return f"tuning {key}"
