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
from headwise.errors import FieldError, HeadwiseError, MissingPackageError
from headwise.heads import hash_config, hash_weights
from headwise.masks import HeadMask
from headwise.means import MeanOutputs, load_means
from headwise.methods import Budget, Method, Problem, find_method, run_method
from headwise.methods.soft import Soft, soft_mask
from headwise.runs import Journal, Run, open_run
from headwise.scores import HeadScores
from headwise.scores.tables import save_table
from headwise.scoring.plan import ScoringPlan
from headwise.scoring.problems import make_problems
from headwise.scoring.run_folder import MEANS, REFINED, SOFT
from headwise.scoring.setting import Setting
from headwise.support.progress import Advance


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
        found = {}
        for language, each in score_languages(plan, problems, run.journal, seconds, progress):
            _save(each.scores, run, f"{language}.json")
            found[language] = each
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
    """Score one language after the other.

    Args:
        plan: Method, budget and seed.
        problems: The problem of each language.
        journal: Stores the rounds; None to store nothing.
        seconds: Stop after this number of seconds.
        progress: Called after each round.

    Raises:
        HeadwiseError: The budget does not cover the first round of the method.
    """
    method = plan_method(plan)
    start, spent, total = time.monotonic(), 0.0, plan.budget * len(problems)
    for done, (language, problem) in enumerate(problems.items()):
        budget = Budget(plan.budget, _time_left(seconds, start, len(problems) - done))
        show = functools.partial(_show, progress, language, spent, total)
        found = run_method(method, problem, budget, plan.seed, journal, language, show)
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
            total -= plan.budget - units
        _show(progress, language, spent, total, units, 0, rounds.status)
        spent += units
        size, cut = len(problem.examples), problem.examples.cut
        yield language, LanguageScores(scores, found.seconds, size, cut, finished, rounds.status)


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


def _time_left(seconds: float | None, start: float, languages: int) -> float | None:
    """The remaining time divided by the number of remaining languages; at least one second, to start a round."""
    return None if seconds is None else max(1.0, (seconds - (time.monotonic() - start)) / languages)


def _show(
    progress: Advance | None, language: str, spent: float, total: float, units: float, _: float, status: str
) -> None:
    """Report the units of earlier languages and of this one."""
    if progress is not None:
        progress(int(spent + units), int(total), f"{language}: {status}")
