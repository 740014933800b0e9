"""The grid of a study: cells that say what to measure, each measured once and kept in the journal."""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.data.examples import Example
from headwise.engine.evaluation import MaskJudge
from headwise.errors import HeadwiseError
from headwise.files import hash_json
from headwise.heads import hash_weights
from headwise.masks import HeadMask
from headwise.progress import Advance
from headwise.runs import Journal
from headwise.scoring import Setting
from headwise.tasks import Task

Array = NDArray[np.float64]
#: Cells that are measured together: rows of one example share layers, and more cells mean more to lose when stopped.
_TOGETHER = 16


@dataclass(frozen=True)
class Cell:
    """One measurement: a model under a mask on the examples of one language.

    Attributes:
        language: The language.
        split: The split: never one that masks were chosen on.
        mask: The mask; None for the whole model.
        limit: The maximum number of examples, the first ones; None for all.
        only: Places of the examples to measure among these; None for all of them.
    """

    language: str
    split: str
    mask: HeadMask | None = None
    limit: int | None = None
    only: tuple[int, ...] | None = None


class Grid:
    """Measures cells: what is in the journal is read from there, the rest is computed and kept.

    Args:
        setting: The model and the data.
        journal: Where measurements are kept.

    Raises:
        HeadwiseError: The task has no labels.
    """

    def __init__(self, setting: Setting, journal: Journal) -> None:
        if not isinstance(setting.task, Task):
            raise HeadwiseError(f"studies need a task with labels, not {setting.task.name}")
        self.setting, self.journal, self.task = setting, journal, setting.task
        self._judges: dict[tuple[str, str, int | None], MaskJudge] = {}

    def measure(self, cells: Iterable[Cell], progress: Advance | None = None) -> dict[Cell, Array]:
        """The statistics of every cell, (examples, statistics) each.

        Args:
            cells: The cells; equal ones are measured once.
            progress: Called with the number of cells that are done.
        """
        keys = {cell: self._key(cell) for cell in dict.fromkeys(cells)}
        missing = [cell for cell, key in keys.items() if not self.journal.count(key)]
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
        """Measure cells of one language together, and keep them."""
        judge, full = self._judge(cells[0]), HeadMask.full(self.setting.heads)
        every = range(len(judge.examples))
        found = judge.measure([cell.mask or full for cell in cells], [cell.only or every for cell in cells])
        for cell, statistics in zip(cells, found.statistics, strict=True):
            self.journal.record(keys[cell], 0, {"statistics": statistics}, first_draw=0, draws=0)

    def _judge(self, cell: Cell) -> MaskJudge:
        """What measures masks on the examples of a cell; these are encoded once."""
        place = (cell.language, cell.split, cell.limit)
        if place not in self._judges:
            examples = self.setting.dataset.examples(cell.language, cell.split)[: cell.limit]
            setting = self.setting
            self._judges[place] = MaskJudge(
                setting.model, setting.heads, self.task, examples, setting.tokenizer, cell.language
            )
        return self._judges[place]

    def _key(self, cell: Cell) -> str:
        """The name of a measurement: a hash of the weights, the mask and the examples themselves."""
        mask = (cell.mask.kind, sorted(cell.mask.off)) if cell.mask is not None else ("heads", [])
        examples = [dataclasses.astuple(example) for example in self.examples(cell)]
        return f"{cell.split} {cell.language} {hash_json((self._weights, mask, examples))}"

    @functools.cached_property
    def _weights(self) -> str | None:
        return hash_weights(self.setting.model)


def _grouped(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Cells of the same examples together, at most `_TOGETHER` of them."""
    groups: dict[tuple[str, str, int | None], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.language, cell.split, cell.limit), []).append(cell)
    for group in groups.values():
        for start in range(0, len(group), _TOGETHER):
            yield group[start : start + _TOGETHER]
