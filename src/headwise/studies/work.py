"""Running a study: load the setting once, score heads, measure cells, write results."""

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from headwise.engine import EngineFactory, LocalEngine
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
        """The plan of the scoring run."""


Plan = TypeVar("Plan", bound=ScoredPlan)
Prepared = TypeVar("Prepared")
Result = TypeVar("Result", bound=Study)


@dataclass(frozen=True)
class GridKind(Generic[Plan, Prepared, Result]):
    """A kind of study that scores heads and measures cells.

    Attributes:
        name: Its name, as in the field `study` of a plan.
        plan: The class of its plans: a dataclass with the field `scoring`.
        prepare: Scores heads and chooses masks on dev data.
        cells: Returns the cells to measure on test data.
        finish: Makes the study from the measurements.
        load: Loads the finished study of a folder.
    """

    name: str
    plan: type[Plan]
    prepare: Callable[[Plan, "Work"], Prepared]
    cells: Callable[[Plan, "Work", Prepared], Sequence[Cell]]
    finish: Callable[[Plan, "Work", Prepared, dict[Cell, Array]], Result]
    load: Callable[[Path], Result]

    @property
    def figures(self) -> str:
        """The file with the results of a finished study."""
        return f"{self.name}.json"

    def run(
        self,
        plan: Plan,
        out: str | os.PathLike[str],
        progress: Advance | None = None,
        make_engine: EngineFactory = LocalEngine,
    ) -> Result:
        """Run a study, or resume an interrupted one.

        Args:
            plan: The plan.
            out: The run folder.
            progress: Called after every step.
            make_engine: Creates engines, for example `Cluster.make_engine`.

        Raises:
            HeadwiseError: The plan is invalid, or the folder contains a run of another plan.
        """
        folder, scoring = Path(out), plan.scoring
        setting = load_setting(
            scoring.model, scoring.task, scoring.data, scoring.piece, device=scoring.device, dtype=scoring.dtype
        )
        setting = dataclasses.replace(setting, make_engine=make_engine)
        languages = setting.codes(scoring.languages)
        if (split := getattr(plan, "test_split", None)) is not None:
            for language in languages:
                setting.dataset.examples(language, split)  # fail before scoring if the split is missing
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
    """The state of a running study.

    Attributes:
        folder: The run folder.
        setting: The model and the data.
        journal: Stores measurements.
        progress: Called after every step.
    """

    folder: Path
    setting: Setting
    journal: Journal
    progress: Advance | None = None

    @functools.cached_property
    def grid(self) -> Grid:
        """Measures cells."""
        return Grid(self.setting, self.journal)

    def score(
        self, scoring: ScoringPlan, name: str = SCORING, status: str = "", place: int = 0, parts: int = 1
    ) -> ScoringRun:
        """Score heads in a subfolder of the study.

        Args:
            scoring: The plan of the scoring run.
            name: Name of the subfolder.
            status: Prefix of the progress status.
            place: Index of this scoring run among `parts` runs.
            parts: The number of scoring runs.
        """

        def show(done: int, total: int, word: str) -> None:
            if self.progress is not None:
                self.progress(place * total + done, parts * total, f"{status}, {word}" if status else word)

        found = run_scoring(scoring, self.folder / name, progress=show, setting=self.setting)
        self.grid.means.update(found.means)  # masks are judged under the baseline that they were chosen under
        return found


def plan_config(plan: Any) -> dict[str, object]:
    """The plan of a study as a flat dictionary for its config."""
    whole = dataclasses.asdict(plan)
    scoring = whole.pop("scoring")
    del scoring["device"]  # results do not depend on it
    return {**whole, **scoring}
