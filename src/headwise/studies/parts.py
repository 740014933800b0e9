"""Parts of a grid: several machines measure the cells of one study, each in a run folder of its own.

Each machine has its own folder because the journal of a run has one writer: its write-ahead log needs memory that the
writer and the readers share, and its file lock, like SQLite's, is not reliable on network disks. Every measurement is
stored under a hash of all it depends on, so the journals of all parts can be merged in any order, and what is missing
is measured when the study is finished.
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headwise.errors import FieldError, HeadwiseError
from headwise.files import new_folder
from headwise.runs import Journal, read_run
from headwise.runs.config import check_same, plain
from headwise.scoring.run_folder import SCORING
from headwise.studies.cells import Cell
from headwise.studies.tuned import MODELS


@dataclass(frozen=True)
class Part:
    """Some of the cells of a grid.

    Attributes:
        only: A pattern with `*` and `?` that a part of the cell's label must match, such as `lowest*zh`; empty for all.
        shard: The number of the shard, from 1 to `shards`.
        shards: Number of shards. Series of cells, and tuned models that are in no series, are dealt out in turn.

    Example:
        >>> cells = [Cell(language, "test") for language in ("en", "sw", "zh")]
        >>> print(*(cell.language for cell in Part(shard=1, shards=2).choose(cells)))
        en zh
        >>> print(*(cell.language for cell in Part("test s?").choose(cells)))
        sw
    """

    only: str = ""
    shard: int = 1
    shards: int = 1
    _places: dict[object, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 1 <= self.shard <= self.shards:
            raise FieldError("shard", f"must be from 1/{self.shards} to {self.shards}/{self.shards}")

    @classmethod
    def read(cls, only: str | None, shard: str | None) -> "Part | None":
        """The part that a command line asks for; None for the whole grid.

        Example:
            >>> Part.read(None, "2/4")
            Part(only='', shard=2, shards=4)
        """
        if not only and shard is None:
            return None
        found = re.fullmatch(r"(\d+)/(\d+)", shard or "1/1")
        if found is None:
            raise FieldError("shard", f"must be NUMBER/SHARDS such as 1/4, not {shard!r}")
        return cls(only or "", int(found[1]), int(found[2]))

    @property
    def whole(self) -> bool:
        """Whether it is the whole grid."""
        return not self.only and self.shards == 1

    def choose(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those of the cells that belong to the part.

        Series keep the places that they had at the first call, so that cells that are added later go to the same shard.
        """
        chosen = []
        for cell in cells:
            place = self._places.setdefault(_unit(cell), len(self._places))
            if place % self.shards == self.shard - 1 and fnmatchcase(cell.label, f"*{self.only}*"):
                chosen.append(cell)
        return chosen


def _unit(cell: Cell) -> object:
    """What must be measured on one machine: a series, a tuned model, or the examples of a language."""
    if cell.series:
        return cell.series
    return (cell.language, cell.split, cell.limit) if cell.tuning is None else (cell.gates, cell.tuning)


@dataclass(frozen=True)
class MeasuredPart:
    """The end of a run that measured a part of a grid.

    Attributes:
        folder: The run folder.
        measured: Number of cells measured in the folder.
        cells: Number of all cells of the grid that are known so far.
    """

    folder: Path
    measured: int
    cells: int


def merge_parts(parts: Sequence[Path], folder: Path, config: Mapping[str, Any], journal: Journal) -> None:
    """Copy the measurements of parts that the journal does not have, and the scores and models of the first part.

    Args:
        parts: The run folders of the parts.
        folder: The run folder of the study.
        config: Its config.
        journal: Its journal.

    Raises:
        HeadwiseError: A part is a run of another plan, or cannot be read.
    """
    for part in parts:
        if part.resolve() == folder.resolve():
            raise HeadwiseError(f"{part}: the parts and the study need different folders: choose another --out")
        with read_run(part) as run:
            check_same(part, run.config, plain(config), ())
            for stream in run.journal.streams():
                if journal.count(stream):
                    continue
                for each in run.journal.rounds(stream):
                    journal.record(stream, each.number, each.arrays, each.first_draw, each.draws)
        for source in sorted([*part.glob(f"{SCORING}*"), *(part / MODELS).glob("*")]):
            _copy(source, folder / source.relative_to(part))


def _copy(source: Path, target: Path) -> None:
    if not source.is_dir() or target.exists():
        return
    with new_folder(target) as draft:
        shutil.copytree(source, draft, dirs_exist_ok=True, ignore=shutil.ignore_patterns("writer.*"))
