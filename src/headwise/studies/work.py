"""Running a study: load the setting once, score heads, measure cells, write results."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from headwise.engine import EngineFactory, LocalEngine
from headwise.errors import FieldError
from headwise.files import write_json
from headwise.runs import Journal, open_run
from headwise.scoring import ScoringPlan, ScoringRun, Setting, load_setting, run_scoring
from headwise.scoring.run_folder import SCORING
from headwise.studies.grid import Array, Cell, Grid
from headwise.studies.parts import MeasuredPart, Part, merge_parts
from headwise.studies.study import Study
from headwise.studies.tables import save_tables
from headwise.support.progress import Advance
from headwise.tasks.metrics import Metric
from headwise.tuning.untuned import NewClassifier, load_untuned


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
        trained: Returns the languages that models are trained on, as comma-separated codes or `all`. If the model of
            the plan has no classifier for the task, it gets a new one. None for a kind that tunes no model.
        follow: Returns the cells to measure next, given what is measured so far; it is called until there is no new
            one. With a part of a grid, only the cells of that part are measured. None if `cells` returns all cells.
        about: What is done and why, in one or two sentences for the report.
        metric: The metric to measure, for texts; None for the metric of the task, which must have labels.
    """

    name: str
    plan: type[Plan]
    prepare: Callable[[Plan, "Work"], Prepared]
    cells: Callable[[Plan, "Work", Prepared], Sequence[Cell]]
    finish: Callable[[Plan, "Work", Prepared, dict[Cell, Array]], Result]
    load: Callable[[Path], Result]
    trained: Callable[[Plan], str] | None = None
    follow: Callable[[Plan, "Work", Prepared, dict[Cell, Array]], Sequence[Cell]] | None = None
    about: str = ""
    metric: Metric | None = None

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
        parts: Sequence[str | os.PathLike[str]] = (),
    ) -> Result:
        """Run a study, or resume an interrupted one.

        Args:
            plan: The plan.
            out: The run folder.
            progress: Called after every step.
            make_engine: Creates engines, for example `Cluster.make_engine`.
            parts: Folders of `run_part`, with cells that are measured already.

        Raises:
            HeadwiseError: The plan is invalid, or a folder contains a run of another plan.
        """
        with self._started(plan, Path(out), progress, make_engine, [Path(each) for each in parts]) as work:
            prepared = self.prepare(plan, work)
            measured, _ = self._measure(plan, work, prepared, Part())
            study = self.finish(plan, work, prepared, measured)
        write_json(work.folder / self.figures, study.to_dict())
        save_tables(study.tables(), work.folder)
        return study

    def run_part(
        self,
        plan: Plan,
        out: str | os.PathLike[str],
        part: Part,
        progress: Advance | None = None,
        make_engine: EngineFactory = LocalEngine,
    ) -> MeasuredPart:
        """Measure a part of the grid, to be finished by `run` with `parts`.

        Args:
            plan: The plan.
            out: The run folder of this part; every machine needs its own.
            part: The cells to measure.
            progress: Called after every step.
            make_engine: Creates engines, for example `Cluster.make_engine`.

        Raises:
            HeadwiseError: The plan is invalid, no cell belongs to the part, or the folder contains a run of another
                plan.
        """
        with self._started(plan, Path(out), progress, make_engine) as work:
            measured, known = self._measure(plan, work, self.prepare(plan, work), part)
        if not measured:
            raise FieldError("only", f"none of the {known} cells matches {part.only!r} in shard {part.shard}")
        return MeasuredPart(work.folder, len(measured), known)

    @contextmanager
    def _started(
        self,
        plan: Plan,
        folder: Path,
        progress: Advance | None,
        make_engine: EngineFactory,
        parts: Sequence[Path] = (),
    ) -> Iterator["Work"]:
        """Load the setting and open the run folder."""
        scoring, classifier = plan.scoring, None
        if self.trained is not None:
            pooling = getattr(plan, "mean_pooling", False)
            setting, classifier = load_untuned(scoring, self.trained(plan), pooling)
        else:
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
            merge_parts(parts, folder, config, run.journal)
            yield Work(folder, setting, run.journal, progress, classifier, self.metric)

    def _measure(self, plan: Plan, work: "Work", prepared: Prepared, part: Part) -> tuple[dict[Cell, Array], int]:
        """The measurements of a part, and the number of cells that are known."""
        measured: dict[Cell, Array] = {}
        cells = list(self.cells(plan, work, prepared))
        known = dict.fromkeys(cells)
        while chosen := part.choose(cells):
            measured |= work.grid.measure(chosen, work.counting_on(len(measured)))
            if self.follow is None:
                break
            cells = [cell for cell in self.follow(plan, work, prepared, measured) if cell not in measured]
            known |= dict.fromkeys(cells)
        return measured, len(known)


@dataclass(frozen=True)
class Work:
    """The state of a running study.

    Attributes:
        folder: The run folder.
        setting: The model and the data.
        journal: Stores measurements.
        progress: Called after every step.
        classifier: The new classifier of the model, if it had none for the task.
        metric: The metric to measure; None for the metric of the task.
    """

    folder: Path
    setting: Setting
    journal: Journal
    progress: Advance | None = None
    classifier: NewClassifier | None = None
    metric: Metric | None = None

    @functools.cached_property
    def grid(self) -> Grid:
        """Measures cells."""
        return Grid(self.setting, self.journal, self.folder, self.classifier, self.metric)

    def counting_on(self, before: int) -> Advance | None:
        """A progress function that adds to both counts the number of cells measured before."""
        progress = self.progress
        if progress is None:
            return None
        return lambda done, total, status: progress(before + done, before + total, status)

    def saying(self, prefix: str) -> Advance:
        """A progress function that adds a prefix to the status."""

        def show(done: int, total: int, status: str) -> None:
            if self.progress is not None:
                self.progress(done, total, f"{prefix}: {status}")

        return show

    def score(
        self,
        scoring: ScoringPlan,
        name: str = SCORING,
        status: str = "",
        place: int = 0,
        parts: int = 1,
        setting: Setting | None = None,
    ) -> ScoringRun:
        """Score heads in a subfolder of the study.

        Args:
            scoring: The plan of the scoring run.
            name: Name of the subfolder.
            status: Prefix of the progress status.
            place: Index of this scoring run among `parts` runs.
            parts: The number of scoring runs.
            setting: The model and the data, such as `grid.tuned_setting(…)`; by default those of the study.
        """

        def show(done: int, total: int, word: str) -> None:
            if self.progress is not None:
                self.progress(place * total + done, parts * total, f"{status}, {word}" if status else word)

        found = run_scoring(scoring, self.folder / name, progress=show, setting=setting or self.setting)
        self.grid.means.update(found.means)  # masks are judged under the baseline that they were chosen under
        return found


def plan_config(plan: Any) -> dict[str, object]:
    """The plan of a study as a flat dictionary for its config."""
    whole = dataclasses.asdict(plan)
    scoring = whole.pop("scoring")
    del scoring["device"]  # results do not depend on it
    return {**whole, **scoring}
