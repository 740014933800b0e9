"""Scoring the heads of a model, language by language, in a run folder that can be resumed."""

import dataclasses
import functools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from headwise.engine import EngineFactory
from headwise.engine.base import calls_at_once
from headwise.errors import FieldError, HeadwiseError, MissingPackageError
from headwise.heads import hash_all_weights, hash_config, hash_weights
from headwise.masks import HeadMask
from headwise.means import MeanOutputs, load_means
from headwise.methods import Budget, Method, Problem, find_method
from headwise.methods.base import method_steps
from headwise.methods.soft import Soft, soft_mask
from headwise.runs import Journal, Run, open_run
from headwise.scores import HeadScores
from headwise.scores.tables import save_table
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.problems import make_problems
from headwise.scoring.run_folder import MEANS, REFINED, SOFT
from headwise.scoring.setting import Setting
from headwise.support.progress import Advance
from headwise.support.steps import Steps, run_together


@dataclass(frozen=True)
class LanguageScores:
    """The results of a run for one language.

    Attributes:
        scores: The scores.
        seconds: Computing time of all rounds, including those of earlier runs.
        examples: The number of examples.
        cut: The number of examples that were truncated to the model's maximum length.
        finished: Whether all players are decided or the budget is spent; if not, the time limit was reached.
        status: A short description of the end of the method.
    """

    scores: HeadScores
    seconds: float
    examples: int
    cut: int
    finished: bool
    status: str


@dataclass(frozen=True)
class ScoringRun:
    """The results of a run.

    Attributes:
        folder: The run folder; None if nothing was kept on disk.
        languages: The results by language.
        notes: Notes to print with the results.
        means: The mean outputs of each language, if they are the baseline.
    """

    folder: Path | None
    languages: Mapping[str, LanguageScores]
    notes: tuple[str, ...]
    means: Mapping[str, MeanOutputs] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, HeadScores]:
        """The scores of each language."""
        return {language: found.scores for language, found in self.languages.items()}


def run_scoring(
    plan: ScoringPlan,
    out: str | os.PathLike[str] | None = None,
    seconds: float | None = None,
    trust_remote_code: bool = False,
    progress: Advance | None = None,
    setting: Setting | None = None,
    make_engine: EngineFactory | None = None,
) -> ScoringRun:
    """Score a model in a run folder: a new run, one that was stopped, one with a larger budget, or a finished one.

    Writes `scores/<language>.json` and `masks/<language>.json` (decided harmful players off) when a language is
    finished, for the method `soft` also `soft/<language>.json`, and `scores.parquet` (if pyarrow is installed) when all
    languages are finished. With the baseline `mean`, it first writes `means/<language>.safetensors`; a resumed run
    reads them.

    Args:
        plan: The plan.
        out: The run folder; `plan.folder` by default.
        seconds: Stop after this number of seconds, even if budget is left; the same call resumes the run.
        trust_remote_code: Run code that comes with the model.
        progress: Called after each round.
        setting: The model and data of the plan, if they are loaded already.
        make_engine: Creates engines, for example `Cluster.make_engine`; by default the one of the setting.

    Raises:
        HeadwiseError: The plan is invalid, the folder contains a run of another plan, or another process is writing to
            it.
    """
    method = plan_method(plan)
    folder = Path(plan.folder if out is None else out)
    known = load_means(folder / MEANS) if plan.baseline == "mean" else {}
    problems, notes = make_problems(plan, setting, trust_remote_code, known, make_engine)
    means = means_of(problems)
    with open_run(folder, _config(plan, method, problems)) as run:
        for language in means.keys() - known.keys():
            means[language].save(run.folder / MEANS / f"{language}.safetensors")
        done = {}
        for language, each in score_languages(plan, problems, run.journal, seconds, progress):
            _save(each.scores, run, f"{language}.json")
            done[language] = each
        found = {language: done[language] for language in problems}
        notes += save_scores_table([each.scores for each in found.values()], run.folder / "scores.parquet")
    return ScoringRun(run.folder, found, notes, means)


def means_of(problems: Mapping[str, Problem]) -> dict[str, MeanOutputs]:
    """The mean outputs of each language; empty if the baseline is zero."""
    return {language: each.baseline for language, each in problems.items() if each.baseline is not None}


def save_scores_table(scores: Sequence[HeadScores], path: Path) -> tuple[str, ...]:
    """Write the parquet table, a copy of `scores/`; without pyarrow, return a note that it was not written."""
    try:
        save_table(scores, path)
    except MissingPackageError as error:
        return (f"{path.name} is not written: {error}",)
    return ()


def score_languages(
    plan: ScoringPlan,
    problems: Mapping[str, Problem],
    journal: Journal | None = None,
    seconds: float | None = None,
    progress: Advance | None = None,
) -> Iterator[tuple[str, LanguageScores]]:
    """Score languages one after the other; on a cluster, rounds of several languages overlap.

    Args:
        plan: Method, budget and seed.
        problems: The problem of each language.
        journal: Stores the rounds; None to store nothing.
        seconds: Stop after this number of seconds.
        progress: Called after each round.

    Returns:
        The results of each language, as they finish.

    Raises:
        HeadwiseError: The budget does not cover the first round of the method.
    """
    method = plan_method(plan)
    at_once = max((calls_at_once(each.make_engine) for each in problems.values()), default=1)
    shown = _Shown(plan.budget, len(problems), progress)
    clock = _Clock(seconds, len(problems), at_once)
    tasks = {
        language: _language_steps(plan, method, problem, language, journal, clock, shown)
        for language, problem in problems.items()
    }
    return run_together(tasks, at_once)


def _language_steps(
    plan: ScoringPlan,
    method: Method,
    problem: Problem,
    language: str,
    journal: Journal | None,
    clock: "_Clock",
    shown: "_Shown",
) -> Steps[LanguageScores]:
    """Score one language."""
    budget = Budget(plan.budget, clock.share())
    show = functools.partial(shown.show, language)
    found = yield from method_steps(method, problem, budget, plan.seed, journal, language, show)
    rounds, scores = found.rounds, found.scores
    if not (rounds.done or scores.provenance.units):
        raise FieldError(
            "budget",
            f"{plan.budget:g} units do not cover the first round of {method.name}, which may take "
            f"{rounds.next_units:.0f}: raise it",
        )
    finished = rounds.done or scores.provenance.units + rounds.next_units > plan.budget
    units = scores.provenance.units
    if finished:  # the unspent rest of its budget does not count towards the progress
        shown.total -= plan.budget - units
    shown.show(language, units, 0, rounds.status)
    size, cut = len(problem.examples), problem.examples.cut
    return LanguageScores(scores, found.seconds, size, cut, finished, rounds.status)


def plan_method(plan: ScoringPlan) -> Method:
    """The method of a plan with its options; a method with `needs_units` also gets the budget."""
    options = {str(name): value for name, value in plan.options.items()}  # names in a plan's YAML may be numbers
    method = find_method(plan.method, **options)
    if method.needs_units and "units" not in options:
        return find_method(plan.method, units=plan.budget, **options)
    return method


def _config(plan: ScoringPlan, method: Method, problems: Mapping[str, Problem]) -> dict[str, Any]:
    """The plan with all defaults, and the hashes of the model and the examples."""
    first = next(iter(problems.values()))
    options, asked = dataclasses.asdict(cast(Any, method)), dataclasses.asdict(plan)
    del asked["device"]  # results do not depend on it
    return {
        **asked,
        "languages": list(problems),
        "options": options,
        "version": method.version,
        "estimand": first.estimand.name,
        "fingerprint": first.heads.fingerprint,
        "weights": hash_weights(first.model),
        "all_weights": hash_all_weights(first.model),
        "model_config": hash_config(first.model),
        "examples": {language: problem.data for language, problem in problems.items()},
    }


def _save(scores: HeadScores, run: Run, name: str) -> None:
    """Write scores and their masks; if the mask has changed, delete the refined mask that started from the old one."""
    mask, path = scores.mask("harmful"), run.folder / "masks" / name
    if path.exists() and not _is_same(path, mask):
        (run.folder / REFINED / name).unlink(missing_ok=True)
    scores.save(run.folder / "scores" / name)
    mask.save(path)
    if scores.provenance.method == Soft.name:
        soft_mask(scores).save(run.folder / SOFT / name)


def _is_same(path: Path, mask: HeadMask) -> bool:
    """Whether a file contains a mask; a damaged file does not, and is written again."""
    try:
        return HeadMask.load(path) == mask
    except HeadwiseError:
        return False


class _Clock:
    """Divides the time of a run among its languages.

    Args:
        seconds: Time limit of the run; None for no limit.
        languages: Number of languages.
        at_once: Number of languages that are scored at the same time.
    """

    def __init__(self, seconds: float | None, languages: int, at_once: int) -> None:
        self.seconds, self.left, self.at_once = seconds, languages, at_once
        self.start = time.monotonic()

    def share(self) -> float | None:
        """The time of the next language: the remaining time divided by the number of remaining turns.

        It is at least one second, to start a round.
        """
        turns = -(-self.left // self.at_once)
        self.left -= 1
        return None if self.seconds is None else max(1.0, (self.seconds - (time.monotonic() - self.start)) / turns)


class _Shown:
    """The progress of all languages together.

    Args:
        budget: The budget of each language.
        languages: Number of languages.
        progress: Called with the units of all languages so far, the budget of all, and a status.
    """

    def __init__(self, budget: float, languages: int, progress: Advance | None) -> None:
        self.total, self.progress = budget * languages, progress
        self.units: dict[str, float] = {}

    def show(self, language: str, units: float, _: float, status: str) -> None:
        """Report the units of a language so far."""
        self.units[language] = units
        if self.progress is not None:
            self.progress(int(sum(self.units.values())), int(self.total), f"{language}: {status}")
