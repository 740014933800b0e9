"""The grid of a study: cells that define what to measure, each measured once and stored in the journal."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise.data.examples import Example
from headwise.engine.evaluation import MaskJudge
from headwise.errors import HeadwiseError
from headwise.files import hash_json
from headwise.heads import find_heads, hash_weights
from headwise.masks import HeadMask
from headwise.means import MeanOutputs
from headwise.runs import Journal
from headwise.scoring import Setting
from headwise.studies.cells import Cell, CellTuning
from headwise.studies.tuned import TunedModels, pack_result, unpack_result
from headwise.support.progress import Advance
from headwise.tasks import Task
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

    Attributes:
        means: By language, the mean outputs that replace heads that are off; 0 replaces them in other languages.

    Raises:
        HeadwiseError: The task has no labels.
    """

    def __init__(
        self,
        setting: Setting,
        journal: Journal,
        folder: Path | None = None,
        classifier: NewClassifier | None = None,
    ) -> None:
        if not isinstance(setting.task, Task):
            raise HeadwiseError(f"studies need a task with labels, not {setting.task.name}")
        self.setting, self.journal, self.task = setting, journal, setting.task
        self.means: dict[str, MeanOutputs] = {}
        self._models = TunedModels(setting, folder, classifier)
        self._judges: dict[tuple[str, str, int | None], MaskJudge] = {}
        self._hashes: dict[tuple[object, ...], str] = {}

    def measure(self, cells: Iterable[Cell], progress: Advance | None = None) -> dict[Cell, Array]:
        """The statistics of every cell, (examples, statistics) each.

        Args:
            cells: The cells; equal ones are measured once.
            progress: Called with the number of finished cells, and the cell that is being measured.
        """
        keys = {cell: self._key(cell) for cell in dict.fromkeys(cells)}
        # Masks of different languages may turn the same heads off: they are one measurement.
        missing = list({key: cell for cell, key in keys.items() if not self.journal.count(key)}.values())
        done = len(keys) - len(missing)
        for group in self._grouped(missing):

            def show(_done: int, _total: int, status: str, first: Cell = group[0], before: int = done) -> None:
                if progress is not None:
                    progress(before, len(keys), f"{first.model_label}: {status}" if first.tuning else status)

            show(0, 0, "starting" if group[0].tuning else f"testing {group[0].language}")
            if group[0].tuning is None:
                self._measure_masks(group, keys)
            else:
                self._measure_tuned(group, keys, show)
            done += len(group)
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

    def examples(self, cell: Cell) -> Sequence[Example]:
        """The examples of a cell."""
        found = self._judge(cell).examples
        return found if cell.only is None else [found[place] for place in cell.only]

    def _measure_masks(self, cells: Sequence[Cell], keys: Mapping[Cell, str]) -> None:
        """Measure and store cells of one language under masks."""
        judge, full = self._judge(cells[0]), HeadMask.full(self.setting.heads)
        every = range(len(judge.examples))
        masks = [cell.mask or full for cell in cells]
        found = judge.measure(masks, [cell.only or every for cell in cells]).statistics
        for cell, statistics in zip(cells, found, strict=True):
            self._record(keys[cell], statistics)

    def _measure_tuned(self, cells: Sequence[Cell], keys: Mapping[Cell, str], show: Advance) -> None:
        """Measure and store the cells of one tuned model."""
        first = cells[0]
        assert first.tuning is not None
        if self.means:
            raise HeadwiseError("a tuned model has no mean outputs of one language: use the baseline 'zero'")
        key = self._model_key(first)

        def test(model: Any, epoch: int | None) -> None:
            for cell in cells:
                if cell.epoch == epoch and not self.journal.count(keys[cell]):
                    show(0, 0, f"testing {cell.language}")
                    self._record(keys[cell], self._statistics(model, cell))

        early = {cell.epoch for cell in cells} - {None}
        model = None if early else self._models.load(first.mask, first.tuning, key)
        if model is None:
            model, found = self._models.make(
                first.mask, first.tuning, key, show, lambda epoch, model: test(model, epoch)
            )
            self._record_tuning(key, found)
        test(model, None)
        self._models.forget(key)
        if any(not self.journal.count(keys[cell]) for cell in cells):
            self._measure_epochs(cells, keys, show)

    def _measure_epochs(self, cells: Sequence[Cell], keys: Mapping[Cell, str], show: Advance) -> None:
        """Tune again from the start, if epochs to be measured were finished before an interruption."""
        left = [cell for cell in cells if not self.journal.count(keys[cell])]
        count = len(self.tuning(left[0]).history)
        for cell in left:
            if cell.epoch is not None and cell.epoch > count:
                raise HeadwiseError(f"{cell.label}: tuning stopped after epoch {count}: set patience to 0")
        self._measure_tuned(left, keys, show)

    def _statistics(self, model: Any, cell: Cell) -> Array:
        """The statistics of a tuned model on the examples of a cell."""
        heads = find_heads(model)
        judge = self._judge(cell).changed(model=model.eval(), heads=heads)
        [found] = judge.measure([HeadMask.full(heads)], [cell.only or range(len(judge.examples))]).statistics
        return found

    def _record(self, key: str, statistics: Array) -> None:
        self.journal.record(key, 0, {"statistics": statistics}, first_draw=0, draws=0)

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
                self.task,
                examples,
                setting.tokenizer,
                cell.language,
                make_engine=setting.make_engine,
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


def _stream(key: str) -> str:
    """The stream of the journal with what was measured during tuning."""
    return f"tuning {key}"
