"""Running a study: its setting is loaded once, heads are scored, cells are measured, results are written."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from headwise.files import write_json
from headwise.runs import Journal, open_run
from headwise.scoring import ScoringPlan, ScoringRun, Setting, load_setting, run_scoring
from headwise.scoring.run_folder import SCORING
from headwise.studies.grid import Array, Cell, Grid
from headwise.studies.study import Study
from headwise.studies.tables import save_tables
from headwise.support.progress import Advance


class ScoredPlan(Protocol):
    """A plan of a study that scores heads."""

    @property
    def scoring(self) -> ScoringPlan:
        """How heads are scored."""


Plan = TypeVar("Plan", bound=ScoredPlan)
Prepared = TypeVar("Prepared")
Result = TypeVar("Result", bound=Study)


@dataclass(frozen=True)
class GridKind(Generic[Plan, Prepared, Result]):
    """A kind of study that scores heads and measures cells.

    Attributes:
        name: Its name, which plans give as `study`.
        plan: The plan's class: a dataclass with the field `scoring` and fields of its own.
        prepare: Scores heads and chooses masks on dev data.
        cells: What is measured on test data, given what was prepared.
        finish: The study, given what was prepared and measured.
        load: The finished study of a folder.
    """

    name: str
    plan: type[Plan]
    prepare: Callable[[Plan, "Work"], Prepared]
    cells: Callable[[Plan, "Work", Prepared], Sequence[Cell]]
    finish: Callable[[Plan, "Work", Prepared, dict[Cell, Array]], Result]
    load: Callable[[Path], Result]

    @property
    def figures(self) -> str:
        """The file that holds the figures of a finished study."""
        return f"{self.name}.json"

    def run(self, plan: Plan, out: str | os.PathLike[str], progress: Advance | None = None) -> Result:
        """Run a study, or continue one that was stopped.

        Args:
            plan: What to do.
            out: The run folder.
            progress: Called after every step.

        Raises:
            HeadwiseError: Something in the plan does not fit, or the folder holds another run.
        """
        folder, scoring = Path(out), plan.scoring
        setting = load_setting(
            scoring.model, scoring.task, scoring.data, scoring.piece, device=scoring.device, dtype=scoring.dtype
        )
        languages = setting.codes(scoring.languages)
        if (split := getattr(plan, "test_split", None)) is not None:
            for language in languages:
                setting.dataset.examples(language, split)  # a missing split is an error before scoring
        config = {"study": self.name, **plan_config(plan), "languages": languages}
        with open_run(folder, config, settled=(folder / self.figures).exists()) as run:
            work = Work(folder, setting, run.journal, progress)
            prepared = self.prepare(plan, work)
            cells = self.cells(plan, work, prepared)
            measured = work.grid.measure(cells, progress) if cells else {}
            study = self.finish(plan, work, prepared, measured)
        write_json(folder / self.figures, study.to_dict())
        save_tables(study.tables(), folder)
        return study


@dataclass(frozen=True)
class Work:
    """A study at work.

    Attributes:
        folder: The run folder.
        setting: The model and the data.
        journal: Where measurements are kept.
        progress: Called after every step.
    """

    folder: Path
    setting: Setting
    journal: Journal
    progress: Advance | None = None

    @functools.cached_property
    def grid(self) -> Grid:
        """What measures cells."""
        return Grid(self.setting, self.journal)

    def score(
        self, scoring: ScoringPlan, name: str = SCORING, status: str = "", place: int = 0, parts: int = 1
    ) -> ScoringRun:
        """Score heads in a run folder inside the study's.

        Args:
            scoring: How heads are scored.
            name: Name of the folder.
            status: Words that come before the status of the scoring.
            place: Which of several scoring runs this is, counted from 0.
            parts: The number of scoring runs.
        """

        def show(done: int, total: int, word: str) -> None:
            if self.progress is not None:
                self.progress(place * total + done, parts * total, f"{status}, {word}" if status else word)

        return run_scoring(scoring, self.folder / name, progress=show, setting=self.setting)


def plan_config(plan: Any) -> dict[str, object]:
    """What a study's measurements depend on, flat, as its config has it."""
    whole = dataclasses.asdict(plan)
    scoring = whole.pop("scoring")
    del scoring["device"]  # it changes nothing that is measured
    return {**whole, **scoring}
