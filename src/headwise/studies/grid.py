"""The grid of a study: cells that say what to measure, each measured once and kept in the journal."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.data.examples import Example
from headwise.errors import HeadwiseError
from headwise.gates import gated
from headwise.heads import hash_weights
from headwise.masks import HeadMask
from headwise.progress import Advance
from headwise.runs import Journal
from headwise.scoring import Setting
from headwise.tasks import Task, evaluate

Array = NDArray[np.float64]


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

    def measure(self, cells: Iterable[Cell], progress: Advance | None = None) -> dict[Cell, Array]:
        """The statistics of every cell, (examples, statistics) each.

        Args:
            cells: The cells; equal ones are measured once.
            progress: Called after every cell.
        """
        wanted = list(dict.fromkeys(cells))
        found = {}
        for done, cell in enumerate(wanted):
            if progress is not None:
                progress(done, len(wanted), f"testing {cell.language}")
            found[cell] = self._measure(cell)
        if progress is not None:
            progress(len(wanted), len(wanted), "tested")
        return found

    def _measure(self, cell: Cell) -> Array:
        examples = self.examples(cell)

        def compute() -> dict[str, Array]:
            mask = cell.mask or HeadMask.full(self.setting.heads)
            with gated(self.setting.model, mask, heads=self.setting.heads):
                measured = evaluate(self.setting.model, self.task, examples, self.setting.tokenizer)
                return {"statistics": measured.statistics}

        return np.asarray(self.journal.once(self._key(cell, examples), compute)["statistics"])

    def examples(self, cell: Cell) -> tuple[Example, ...]:
        """The examples of a cell."""
        found = self.setting.dataset.examples(cell.language, cell.split)[: cell.limit]
        return found if cell.only is None else tuple(found[place] for place in cell.only)

    def _key(self, cell: Cell, examples: Sequence[Example]) -> str:
        """The name of a measurement: a hash of the weights, the mask and the examples themselves."""
        mask = (cell.mask.kind, sorted(cell.mask.off)) if cell.mask is not None else ("heads", [])
        about = (self._weights, mask, [dataclasses.astuple(example) for example in examples])
        return f"{cell.split} {cell.language} {hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]}"

    @functools.cached_property
    def _weights(self) -> str | None:
        return hash_weights(self.setting.model)
