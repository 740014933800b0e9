"""Refining a mask: players are scored again given what is already off, because harm is not additive.

At a mask, the gradient of the soft value says for two passes of each example what every player would change by going,
or by coming back. Those that promise most are flipped, and the next pass shows whether the promise held. If not, the
step is taken back, but not what it has shown: the gradients on the other side say what each of these flips is worth
from there, the mean of both sides is nearly right, and of a single flip the worth is known. Then half as many are
flipped, and twice as many again after a step that held. Two halves of the examples keep watch over one another: what
one half would choose is valued by the other, and where that is no gain, there is nothing left to choose but noise.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from headwise.draws import Draws
from headwise.errors import HeadwiseError, require_whole
from headwise.games import AccuracyGame, ProbabilityGame
from headwise.masks import HeadMask
from headwise.methods.base import Problem
from headwise.results import REFINED, load_scores
from headwise.rules import harmful_mask, mask_without
from headwise.runs import Journal, open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scoring import Advance, make_problems, plan_of

Array = NDArray[np.float64]
On = NDArray[np.bool_]
#: Called with the rounds done and the most that there can be.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class RefinementPlan:
    """How to refine.

    Attributes:
        rounds: Passes over the examples, at most.
        width: Players flipped at once, at first.
        examples: At most so many examples, drawn by the seed.
        seed: Seed of the draw, and of the halves.

    Raises:
        HeadwiseError: A number is not whole, or too small.
    """

    rounds: int = 12
    width: int = 8
    examples: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "width", "examples"):
            require_whole(name, getattr(self, name))


@dataclass(frozen=True)
class Step:
    """A mask that was tried.

    Attributes:
        removed: Players that are off.
        value: The soft value of the examples under it.
        kept: Whether it was better than what was there before.
    """

    removed: int
    value: float
    kept: bool


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


class Search(Protocol):
    """What a climb asks about masks."""

    @property
    def plan(self) -> RefinementPlan:
        """How to go about it."""

    def measure(self, on: On) -> tuple[float, Array]:
        """The value of a mask, and its gradients by two halves of the examples, (2, players)."""


def climb(search: Search, first: On, progress: Progress | None = None) -> tuple[On, tuple[Step, ...]]:
    """Flip what promises most until nothing does: the best mask, (players,), and all that were tried."""
    width, most = search.plan.width, search.plan.rounds
    on, best, best_value = first, first, -np.inf
    gains = alone = np.zeros((2, len(first)))  # what flips promise: among others, and each alone
    steps: list[Step] = []
    for number in range(most):
        value, slopes = search.measure(on)
        found = np.where(on, -slopes, slopes)  # what each flip promises from here, (2, players)
        kept = value > best_value
        steps.append(Step(int((~on).sum()), value, kept))
        if kept:
            best, best_value, width = on, value, min(2 * width, search.plan.width)
            gains = alone = found
        else:
            flipped, width = on != best, max(width // 2, 1)
            gains = learn(gains, found, flipped, value - best_value)
            alone = np.where(flipped, value - best_value, alone) if flipped.sum() == 1 else alone
        chosen = choose_flips(gains, width)
        if not len(chosen):  # what did not hold among others may alone
            chosen = choose_flips(alone, 1)
        if progress is not None:
            progress(number + 1, most)
        if not len(chosen):
            break
        on = best.copy()
        on[chosen] ^= True
    return best, tuple(steps)


def learn(gains: Array, beyond: Array, flipped: On, change: float) -> Array:
    """What flips promise after some of them were made together and did not hold.

    Args:
        gains: What they promised before, by each half of the examples, (2, players).
        beyond: What the flip of each player promises after them, (2, players): of one that was flipped, the way back.
        flipped: The players that were flipped, (players,).
        change: What the value changed by.

    Example:
        >>> gains, beyond = np.array([[4.0, 2.0], [4.0, 2.0]]), np.array([[6.0, -1.0], [8.0, -1.0]])
        >>> learn(gains, beyond, np.array([True, True]), change=-0.5)
        array([[-1. ,  1.5],
               [-2. ,  1.5]])
        >>> learn(gains, beyond, np.array([True, False]), change=-0.5)
        array([[-0.5,  2. ],
               [-0.5,  2. ]])
    """
    known = change if flipped.sum() == 1 else (gains - beyond) / 2
    return np.where(flipped, known, gains)


def choose_flips(gains: Array, width: int) -> NDArray[np.int64]:
    """Which players to flip: those that promise most, if what one half of the examples chooses is a gain for the other.

    Args:
        gains: What the flip of each player promises, by each half of the examples, (2, players).
        width: At most so many players. Halved until both halves agree that there is a gain.

    Returns:
        The players; none if the halves agree on no number of them.

    Example:
        >>> choose_flips(np.array([[3.0, 2.0, -1.0], [1.0, -2.0, 4.0]]), width=2)
        array([0, 2])
        >>> choose_flips(np.array([[3.0, 0.0], [-1.0, -1.0]]), width=2)
        array([], dtype=int64)
    """
    while width > 0:
        # Of few players the width may be more than promise anything: no half would choose the others.
        [one, other] = [np.argsort(-each, kind="stable")[: min(width, int((each > 0).sum()))] for each in gains]
        if gains[1][one].sum() + gains[0][other].sum() > 0:
            mean = gains.mean(0)
            best = np.argsort(-mean, kind="stable")[:width]
            chosen: NDArray[np.int64] = best[mean[best] > 0]
            return chosen
        width //= 2
    return np.empty(0, dtype=np.int64)


class _Search:
    """Measurements of masks over the same examples, each kept in a journal under all that it depends on."""

    def __init__(self, problem: Problem, plan: RefinementPlan, journal: Journal | None) -> None:
        self.problem, self.plan, self.journal = problem, plan, journal
        soft = problem.game if problem.game.differentiable else ProbabilityGame()
        self.soft, self.hard = problem.engine(soft), problem.engine(AccuracyGame())
        order = np.argsort(Draws(plan.seed, "refine").uniform(0, 1, len(problem.examples))[0])
        self.index = order[: plan.examples]
        self.units = 0.0

    def measure(self, on: On) -> tuple[float, Array]:
        """The soft value of a mask, and its mean gradients over each half of the examples, (2, players)."""

        def compute() -> dict[str, Array]:
            values, slopes = self.soft.gradients(np.tile(on, (len(self.index), 1)), self.index)
            each = slopes.numpy().astype(np.float64)  # (examples, players)
            halves = np.stack([each[::2].mean(0), each[1::2].mean(0)]) if len(each) > 1 else np.tile(each, (2, 1))
            return {"value": values.double().mean().numpy(), "halves": halves}

        kept = self._kept(self.soft.game.name, on, compute)
        self.units += 2 * len(self.index)
        return float(kept["value"]), kept["halves"]

    def hard_value(self, on: On) -> float:
        """The accuracy under a mask."""

        def compute() -> dict[str, Array]:
            values = self.hard.values(np.tile(on, (len(self.index), 1)), self.index)
            return {"value": values.double().mean().numpy()}

        kept = self._kept(self.hard.game.name, on, compute)
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
        return self.journal.once(f"refine {self.problem.language} {game} {name}", compute)
