"""Refining the masks of a model: climbing over its examples, with every measurement kept."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from headwise.draws import Draws
from headwise.errors import HeadwiseError
from headwise.games import AccuracyGame, ProbabilityGame
from headwise.masks import HeadMask
from headwise.methods.base import Problem
from headwise.refinement.climbing import (
    Array,
    Estimates,
    Measured,
    On,
    Progress,
    RefinementPlan,
    Step,
    climb,
    standard_error,
)
from headwise.results import REFINED, load_scores
from headwise.rules import harmful_mask, mask_without
from headwise.runs import Journal, open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scoring import Advance, make_problems, plan_of


@dataclass(frozen=True)
class Refined:
    """What refining came to.

    Attributes:
        mask: The mask.
        steps: All that was tried, the mask at the start first.
        units: What it cost.
        verdict: `refined`, or `as it was` if nothing was better, on the hard value too.
    """

    mask: HeadMask
    steps: tuple[Step, ...]
    units: float
    verdict: Literal["refined", "as it was"]

    @property
    def step(self) -> Step:
        """The step whose mask it is: the last that was kept, or the first if nothing came of them."""
        return [step for step in self.steps if step.kept][-1] if self.verdict == "refined" else self.steps[0]


def refine_mask(
    problem: Problem,
    start: HeadMask,
    plan: RefinementPlan | None = None,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> Refined:
    """Improve a mask by turning off what hurts given the mask, and on again what does not.

    Everything is chosen on the problem's examples: judge the mask on others.

    Args:
        problem: The model, the examples to choose on and the players.
        start: The mask to begin with.
        plan: How to go about it.
        journal: Where measurements are kept, so that a run that was stopped goes on from them.
        progress: Called with the rounds done and the most that there can be.
    """
    names, gone = problem.players.names, set(start.off)
    first = np.array([not gone.issuperset(mask_without(problem.heads, [name], start.kind).off) for name in names])
    search = _Search(problem, plan or RefinementPlan(), journal)
    best, steps = climb(search, first, progress)
    changed = bool((best != first).any()) and search.hard_value(best) >= search.hard_value(first)
    off = [name for name, on in zip(names, best, strict=True) if not on]
    mask = mask_without(problem.heads, off, start.kind, problem.language) if changed else start
    return Refined(mask, steps, search.units, "refined" if changed else "as it was")


def refine_run(
    folder: str | os.PathLike[str],
    languages: Sequence[str] = (),
    plan: RefinementPlan | None = None,
    progress: Advance | None = None,
    trust_remote_code: bool = False,
) -> dict[str, Refined]:
    """Refine the masks of a scoring run on the examples it was scored on, and write them to `refined/` in its folder.

    What is measured is kept in the run's journal, so that one that was stopped goes on from there.

    Args:
        folder: The run folder of `run_scoring`.
        languages: Those of its languages to refine; all unless told.
        plan: How to go about it.
        progress: Called as work goes on.
        trust_remote_code: Run code that comes with the model.

    Raises:
        HeadwiseError: There is no run in the folder, it has no scores of a language, its data or its model have
            changed, or it is being written.
    """
    scores = load_scores(folder)
    if unknown := [language for language in languages if language not in scores]:
        raise HeadwiseError(f"{folder}: has no scores of the language {unknown[0]}: it has {', '.join(scores)}")
    chosen = [language for language in scores if language in languages or not languages]
    problems, _ = make_problems(plan_of(folder), trust_remote_code)
    starts = {language: _start(folder, scores[language], problems[language]) for language in chosen}
    how, found = plan or RefinementPlan(), {}
    with open_run(folder, read_config(Path(folder))) as run:
        for done, (language, start) in enumerate(starts.items()):

            def show(step: int, most: int, done: int = done, language: str = language) -> None:
                if progress is not None:
                    progress(done * most + step, len(chosen) * most, language)

            found[language] = refine_mask(problems[language], start, how, run.journal, show)
            found[language].mask.save(run.folder / REFINED / f"{language}.json")
    if progress is not None:
        progress(len(chosen), len(chosen), "done")
    return found


def _start(folder: str | os.PathLike[str], scores: HeadScores, problem: Problem) -> HeadMask:
    """The mask to begin with, if the examples are still those that the scores are about."""
    if scores.provenance.data != problem.data:
        raise HeadwiseError(
            f"{folder}: the examples of {problem.language} are not those that were scored: restore the data, or score "
            "them in another folder"
        )
    return harmful_mask(scores, problem.heads)


class _Search:
    """Measurements of masks over the same examples, each kept in a journal under all that it depends on."""

    def __init__(self, problem: Problem, plan: RefinementPlan, journal: Journal | None) -> None:
        self.problem, self.plan, self.journal = problem, plan, journal
        self.soft_game = problem.game if problem.game.differentiable else ProbabilityGame()
        self.hard_game = AccuracyGame()
        self.soft, self.hard = problem.engine(self.soft_game), problem.engine(self.hard_game)
        order = np.argsort(Draws(plan.seed, "refine").uniform(0, 1, len(problem.examples))[0])
        self.index = order[: plan.examples]
        self.units = 0.0

    def measure(self, on: On) -> Measured:
        """What a mask is worth by the soft value, and what each player is under it."""

        def compute() -> dict[str, Array]:
            found = self.soft.gradients(np.tile(on, (len(self.index), 1)), self.index)
            each = found.gradients.numpy().astype(np.float64)  # (examples, players)
            return {"values": found.values.double().numpy(), "slopes": each.mean(0), "errors": standard_error(each)}

        kept = self._kept(self.soft_game.name, on, compute)
        self.units += 2 * len(self.index)
        return Measured(kept["values"], Estimates(kept["slopes"], kept["errors"]))

    def hard_value(self, on: On) -> float:
        """The accuracy under a mask."""

        def compute() -> dict[str, Array]:
            found = self.hard.values(np.tile(on, (len(self.index), 1)), self.index)
            return {"value": found.values.double().mean().numpy()}

        kept = self._kept(self.hard_game.name, on, compute)
        self.units += len(self.index)
        return float(kept["value"])

    def _kept(self, game: str, on: On, compute: Callable[[], dict[str, Array]]) -> Mapping[str, Array]:
        """A measurement out of the journal, or a new one.

        Its name holds the mask and the examples: scores that a larger budget changed, or another plan, ask for others.
        """
        if self.journal is None:
            return compute()
        about = (self.problem.players.names, on.tolist(), self.problem.data, self.index.tolist())
        name = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
        return self.journal.once(f"climb {self.problem.language} {game} {name}", compute)
