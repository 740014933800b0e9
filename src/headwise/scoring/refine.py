"""Refining masks: improving a mask step by step on the examples of a problem, with every measurement kept."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from headwise.draws import Draws
from headwise.engine import EngineFactory
from headwise.engine.base import calls_at_once
from headwise.errors import FieldError, HeadwiseError
from headwise.files import hash_json
from headwise.games import ProbabilityGame
from headwise.games.means import hard_game
from headwise.masks import HeadMask
from headwise.means import load_means
from headwise.methods.base import Problem
from headwise.runs import Journal, open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scoring.climbing import (
    Array,
    Estimates,
    Measured,
    On,
    RefinementPlan,
    Step,
    StepProgress,
    climb,
    standard_error,
)
from headwise.scoring.plan import plan_of
from headwise.scoring.problems import make_problems
from headwise.scoring.run_folder import MEANS, REFINED, load_scores
from headwise.scoring.setting import Setting
from headwise.support.progress import Advance
from headwise.support.steps import Steps, run_steps, run_together


@dataclass(frozen=True)
class Refined:
    """The result of refining a mask.

    Attributes:
        mask: The mask.
        steps: All masks that were tried, beginning with the first one.
        units: Cost in units.
        verdict: `refined`, or `as it was` if no other mask was better on both the soft and the hard value.
    """

    mask: HeadMask
    steps: tuple[Step, ...]
    units: float
    verdict: Literal["refined", "as it was"]

    @property
    def step(self) -> Step:
        """The step of the final mask: the last that was kept, or the first."""
        return [step for step in self.steps if step.kept][-1] if self.verdict == "refined" else self.steps[0]


def refine_mask(
    problem: Problem,
    start: HeadMask,
    plan: RefinementPlan | None = None,
    journal: Journal | None = None,
    progress: StepProgress | None = None,
) -> Refined:
    """Improve a mask: turn off players that are harmful under it, and turn on removed players that would help.

    The mask is chosen on the problem's examples, so evaluate it on other examples.

    Args:
        problem: The model, the examples and the players.
        start: The first mask.
        plan: Settings of the search; by default `RefinementPlan()`.
        journal: Stores measurements, so that an interrupted run can be resumed.
        progress: Called with the number of rounds done and the maximum number of rounds.
    """
    return run_steps(_refine_steps(problem, start, plan or RefinementPlan(), journal, progress))


def _refine_steps(
    problem: Problem,
    start: HeadMask,
    plan: RefinementPlan,
    journal: Journal | None = None,
    progress: StepProgress | None = None,
) -> Steps[Refined]:
    """`refine_mask` as a task of `run_together`."""
    members, gone = problem.players.members(problem.heads), set(start.off)
    first = np.array([not gone.issuperset(each) for each in members])
    search = _Search(problem, plan, journal)
    best, steps = yield from climb(search, first, progress)
    if (best == first).all():
        return Refined(start, steps, search.units, "as it was")
    if search.hard_game != search.soft_game:
        after = yield from search.hard_value(best)
        if after < (yield from search.hard_value(first)):
            return Refined(start, steps, search.units, "as it was")
    off = [member for each, on in zip(members, best, strict=True) if not on for member in each]
    mask = HeadMask.without(problem.heads, off, start.kind, problem.language)
    return Refined(mask, steps, search.units, "refined")


def refine_run(
    folder: str | os.PathLike[str],
    languages: Sequence[str] = (),
    plan: RefinementPlan | None = None,
    progress: Advance | None = None,
    trust_remote_code: bool = False,
    setting: Setting | None = None,
    make_engine: EngineFactory | None = None,
) -> dict[str, Refined]:
    """Refine the masks of a scoring run on its own examples, and write them to `refined/` in its folder.

    Measurements are stored in the run's journal, so that an interrupted call can be resumed.

    Args:
        folder: The run folder of `run_scoring`.
        languages: The languages to refine; by default all of the run.
        plan: Settings of the search; by default `RefinementPlan()`.
        progress: Called after every round.
        trust_remote_code: Run code that comes with the model.
        setting: The model and data of the run, if they are loaded already.
        make_engine: Creates engines, for example `Cluster.make_engine`; by default the one of the setting.

    Raises:
        HeadwiseError: There is no run in the folder, it has no scores of a language, its data or its model have
            changed, or another process is writing to it.
    """
    scores = load_scores(folder)
    if unknown := [language for language in languages if language not in scores]:
        raise FieldError("languages", f"{folder} has no scores of {unknown[0]}: it has {', '.join(scores)}")
    chosen = [language for language in scores if language in languages or not languages]
    means = load_means(Path(folder) / MEANS)
    problems, _ = make_problems(plan_of(folder), setting, trust_remote_code, means, make_engine)
    starts = {language: _start(folder, scores[language], problems[language]) for language in chosen}
    how = plan or RefinementPlan()
    with open_run(folder, read_config(Path(folder))) as run:
        found = refine_languages(problems, starts, how, run.journal, progress)
        for language, each in found.items():
            each.mask.save(run.folder / REFINED / f"{language}.json")
    return found


def refine_languages(
    problems: Mapping[str, Problem],
    starts: Mapping[str, HeadMask],
    plan: RefinementPlan,
    journal: Journal | None = None,
    progress: Advance | None = None,
) -> dict[str, Refined]:
    """Refine the mask of one language after the other; on a cluster, several languages at the same time."""
    rounds = dict.fromkeys(starts, 0)

    def show(language: str, step: int, most: int) -> None:
        rounds[language] = step
        if progress is not None:
            progress(sum(rounds.values()), len(starts) * most, f"refining {language}")

    tasks = {
        language: _refine_steps(problems[language], start, plan, journal, functools.partial(show, language))
        for language, start in starts.items()
    }
    at_once = max((calls_at_once(problems[language].make_engine) for language in starts), default=1)
    found = {}
    for language, each in run_together(tasks, at_once):
        found[language], rounds[language] = each, plan.rounds
    if progress is not None:
        progress(len(starts), len(starts), "refined")
    return {language: found[language] for language in starts}


def _start(folder: str | os.PathLike[str], scores: HeadScores, problem: Problem) -> HeadMask:
    """The first mask; raises an error if the examples have changed since they were scored."""
    if scores.provenance.data != problem.data:
        raise HeadwiseError(
            f"{folder}: the examples of {problem.language} have changed since they were scored: restore the data, "
            "or score them in another folder"
        )
    mask = scores.mask("harmful")
    mask.check(problem.heads)
    return mask


class _Search:
    """Measures masks on a fixed set of examples and stores the measurements in a journal."""

    def __init__(self, problem: Problem, plan: RefinementPlan, journal: Journal | None) -> None:
        self.problem, self.plan, self.journal = problem, plan, journal
        self.soft_game = problem.game if problem.game.differentiable else ProbabilityGame()
        self.hard_game = hard_game(self.soft_game)
        self.soft, self.hard = problem.engine(self.soft_game), problem.engine(self.hard_game)
        order = np.argsort(Draws(plan.seed, "refine").uniform(0, 1, len(problem.examples))[0])
        self.index = order[: plan.examples]
        # The examples that promises come from, and those that values and accuracy come from.
        self.choosing, self.holding = (self.index[::2], self.index[1::2]) if plan.cross_fit else (self.index,) * 2
        self.units = 0.0

    def measure(self, on: On) -> Steps[Measured]:
        """The soft value of a mask and its gradients."""

        def compute() -> dict[str, Array]:
            found = self.soft.gradients(np.tile(on, (len(self.choosing), 1)), self.choosing)
            each = found.gradients.numpy().astype(np.float64)  # (examples, players)
            values = found.values
            if self.plan.cross_fit:
                values = self.soft.values(np.tile(on, (len(self.holding), 1)), self.holding).values
            return {"values": values.double().numpy(), "slopes": each.mean(0), "errors": standard_error(each)}

        kept = yield from self._kept(self.soft_game.name, on, compute)
        self.units += 2 * len(self.choosing) + (len(self.holding) if self.plan.cross_fit else 0)
        return Measured(kept["values"], Estimates(kept["slopes"], kept["errors"]))

    def hard_value(self, on: On) -> Steps[float]:
        """The hard value of a mask, such as its accuracy."""

        def compute() -> dict[str, Array]:
            found = self.hard.values(np.tile(on, (len(self.holding), 1)), self.holding)
            return {"value": found.values.double().mean().numpy()}

        kept = yield from self._kept(self.hard_game.name, on, compute)
        self.units += len(self.holding)
        return float(kept["value"])

    def _kept(self, game: str, on: On, compute: Callable[[], dict[str, Array]]) -> Steps[Mapping[str, Array]]:
        """A measurement from the journal, or a new one.

        Its name contains the mask and the examples, so other masks or examples never reuse it.
        """
        if self.journal is None:
            return (yield compute)  # type: ignore[no-any-return]
        about: tuple[object, ...] = (self.problem.players.names, on.tolist(), self.problem.data, self.index.tolist())
        about += ("cross-fit",) if self.plan.cross_fit else ()
        stream = f"climb {self.problem.language} {game} {hash_json(about)}"
        for kept in self.journal.rounds(stream):
            return kept.arrays
        found: Mapping[str, Array] = yield compute
        self.journal.record(stream, 0, found, first_draw=0, draws=0)
        return found
