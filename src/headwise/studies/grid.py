"""The grid of a study: cells that define what to measure, each measured once and stored in the journal."""

import copy
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from headwise.pruning import shrink
from headwise.runs import Journal
from headwise.scoring import Setting
from headwise.soft_masks import AnyMask, SoftMask
from headwise.support.progress import Advance
from headwise.tasks import Task
from headwise.tuning import TuningSettings, tune

Array = NDArray[np.float64]
#: Maximum number of cells measured together. They share computation; a larger number loses more when interrupted.
_TOGETHER = 16


@dataclass(frozen=True)
class CellTuning:
    """How the model of a cell is tuned after pruning and before it is measured.

    Attributes:
        languages: Languages to train on; the data set must have their splits `train` and `dev`.
        settings: Settings of the training loop.
        share: Share of the training examples of each language to use.
    """

    languages: tuple[str, ...]
    settings: TuningSettings
    share: float = 1.0


@dataclass(frozen=True)
class Cell:
    """One measurement: a model, pruned and tuned as stated, on the examples of one language.

    Attributes:
        language: The language.
        split: The split, which must not be one that masks were chosen on.
        mask: The mask; None for the whole model.
        tuning: Remove the masked heads from a copy of the model and tune it; None for no tuning.
        limit: The maximum number of examples, the first ones; None for all.
        only: Indices of the examples to measure; None for all of them.
    """

    language: str
    split: str
    mask: AnyMask | None = None
    limit: int | None = None
    only: tuple[int, ...] | None = None
    tuning: CellTuning | None = None


class Grid:
    """Measures cells: measurements in the journal are reused, others are computed and stored.

    Args:
        setting: The model and the data.
        journal: Stores measurements.

    Attributes:
        means: By language, the mean outputs that replace heads that are off; 0 replaces them in other languages.

    Raises:
        HeadwiseError: The task has no labels.
    """

    def __init__(self, setting: Setting, journal: Journal) -> None:
        if not isinstance(setting.task, Task):
            raise HeadwiseError(f"studies need a task with labels, not {setting.task.name}")
        self.setting, self.journal, self.task = setting, journal, setting.task
        self.means: dict[str, MeanOutputs] = {}
        self._judges: dict[tuple[str, str, int | None], MaskJudge] = {}

    def measure(self, cells: Iterable[Cell], progress: Advance | None = None) -> dict[Cell, Array]:
        """The statistics of every cell, (examples, statistics) each.

        Args:
            cells: The cells; equal ones are measured once.
            progress: Called with the number of finished cells.
        """
        keys = {cell: self._key(cell) for cell in dict.fromkeys(cells)}
        # Masks of different languages may turn the same heads off: they are one measurement.
        missing = list({key: cell for cell, key in keys.items() if not self.journal.count(key)}.values())
        done = len(keys) - len(missing)
        for group in _grouped(missing):
            if progress is not None:
                progress(done, len(keys), f"testing {group[0].language}")
            self._compute(group, keys)
            done += len(group)
        if progress is not None:
            progress(len(keys), len(keys), "tested")
        return {cell: np.asarray(next(self.journal.rounds(key)).arrays["statistics"]) for cell, key in keys.items()}

    def examples(self, cell: Cell) -> Sequence[Example]:
        """The examples of a cell."""
        found = self._judge(cell).examples
        return found if cell.only is None else [found[place] for place in cell.only]

    def _compute(self, cells: Sequence[Cell], keys: dict[Cell, str]) -> None:
        """Measure and store a group of cells: either of one tuned model, or of one language under masks."""
        if cells[0].tuning is not None:
            model = self._tuned(cells[0].mask, cells[0].tuning)
            found = [self._measure_tuned(model, cell) for cell in cells]
        else:
            judge, full = self._judge(cells[0]), HeadMask.full(self.setting.heads)
            every = range(len(judge.examples))
            masks = [cell.mask or full for cell in cells]
            found = list(judge.measure(masks, [cell.only or every for cell in cells]).statistics)
        for cell, statistics in zip(cells, found, strict=True):
            self.journal.record(keys[cell], 0, {"statistics": statistics}, first_draw=0, draws=0)

    def _tuned(self, mask: AnyMask | None, tuning: CellTuning) -> Any:
        """A copy of the model without the masked heads, tuned."""
        if self.means:
            raise HeadwiseError("a tuned model has no mean outputs of one language: use the baseline 'zero'")
        model = copy.deepcopy(self.setting.model)
        if mask is not None:
            model = shrink(model, mask, inplace=True)
        data, languages = self.setting.dataset, tuning.languages
        return tune(
            model, self.setting.tokenizer, data, self.task, languages, settings=tuning.settings, share=tuning.share
        ).model

    def _measure_tuned(self, model: Any, cell: Cell) -> Array:
        """The statistics of a tuned model on the examples of a cell."""
        known, heads = self._judge(cell), find_heads(model)
        judge = dataclasses.replace(known, model=model, heads=heads)
        every = range(len(judge.examples))
        [found] = judge.measure([HeadMask.full(heads)], [cell.only or every]).statistics
        return found

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
            self._judges[place] = dataclasses.replace(self._judges[place], baseline=self.means[cell.language])
        return self._judges[place]

    def _key(self, cell: Cell) -> str:
        """The key of a measurement: a hash of the weights, the mask and the examples."""
        mask: tuple[str, list[Any]] = ("heads", [])
        if cell.mask is not None:
            values = list(cell.mask.gates) if isinstance(cell.mask, SoftMask) else sorted(cell.mask.off)
            mask = (cell.mask.kind, values)
        examples = [dataclasses.astuple(example) for example in self.examples(cell)]
        about: list[object] = [self._weights, mask, examples]
        if cell.mask is not None and cell.language in self.means:
            about.append(self._means_hash(cell.language))
        if cell.tuning is not None:
            about += [dataclasses.asdict(cell.tuning), self._training_data(cell.tuning)]
        return f"{cell.split} {cell.language} {hash_json(about)}"

    def _means_hash(self, language: str) -> str:
        return hash_json({name: mean.tolist() for name, mean in self.means[language].values.items()})

    def _training_data(self, tuning: CellTuning) -> str:
        """A hash of the training examples."""
        splits = [self.setting.dataset.examples(code, name) for code in tuning.languages for name in ("train", "dev")]
        return hash_json([dataclasses.astuple(example) for split in splits for example in split])

    @functools.cached_property
    def _weights(self) -> str | None:
        return hash_weights(self.setting.model)


def _grouped(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Group cells by tuned model, and cells without tuning by examples, at most `_TOGETHER` per group."""
    groups: dict[object, list[Cell]] = {}
    for cell in cells:
        place = (cell.language, cell.split, cell.limit) if cell.tuning is None else (cell.mask, cell.tuning)
        groups.setdefault(place, []).append(cell)
    for group in groups.values():
        if group[0].tuning is not None:
            yield group
            continue
        for start in range(0, len(group), _TOGETHER):
            yield group[start : start + _TOGETHER]
