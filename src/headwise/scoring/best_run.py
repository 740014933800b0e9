"""The best mask of a language, or a mask for all languages: of a run folder, or of scores that are kept nowhere."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from headwise.engine import EngineFactory
from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError
from headwise.means import MeanOutputs, load_means
from headwise.methods import Problem
from headwise.runs import Journal, open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scoring.best import BestMaskPlan, compare_masks, make_masks
from headwise.scoring.best_result import BestMask, Kind
from headwise.scoring.folds import Scored
from headwise.scoring.plan import ScoringPlan, plan_of
from headwise.scoring.problems import make_problems
from headwise.scoring.run_folder import BEST, MEANS, SAFE, load_scores, scored_folder
from headwise.scoring.safe import SafeMask, find_safe_mask
from headwise.scoring.setting import Setting, load_setting
from headwise.soft_masks import AnyMask
from headwise.support.progress import Advance


def best_of_run(
    folder: str | os.PathLike[str],
    language: str,
    plan: BestMaskPlan | None = None,
    progress: Advance | None = None,
    trust_remote_code: bool = False,
    setting: Setting | None = None,
    make_engine: EngineFactory | None = None,
) -> BestMask:
    """The best mask of a language, compared on the examples of its scoring run; it is written to `best/` in the folder.

    Measurements are stored in the run's journal: an interrupted call can be resumed, and a repeated one measures
    nothing.

    Args:
        folder: The run folder of `run_scoring`, or of a study.
        language: The language.
        plan: Settings of the comparison; by default `BestMaskPlan()`.
        progress: Called after each step.
        trust_remote_code: Run code that comes with the model.
        setting: The model and data of the run, if they are loaded already.
        make_engine: Creates engines, for example `Cluster.make_engine`; by default the one of the setting.

    Raises:
        HeadwiseError: There is no run of `stars` in the folder, it has no scores of the language, its data or its model
            cannot be opened or have changed, there are too few examples, or another process is writing to it.
    """
    _require(language, load_scores(folder), str(folder))
    with _opened(folder, trust_remote_code, setting, make_engine) as (scored, loaded):
        judge = _judge(scored.plan, loaded, language, scored.problems[language])
        found = compare_masks(scored, judge, plan, progress)
        found.mask.save(scored_folder(folder) / BEST / f"{language}.json")
    return found


def masks_of_run(
    folder: str | os.PathLike[str],
    language: str,
    plan: BestMaskPlan | None = None,
    setting: Setting | None = None,
) -> dict[Kind, AnyMask]:
    """The masks of all kinds of a language, each made from all examples of its scoring run.

    Args:
        folder: The run folder of `run_scoring`, or of a study.
        language: The language.
        plan: Settings of the comparison; by default `BestMaskPlan()`.
        setting: The model and data of the run, if they are loaded already.

    Raises:
        HeadwiseError: See `best_of_run`.
    """
    _require(language, load_scores(folder), str(folder))
    with _opened(folder, False, setting, None) as (scored, loaded):
        return make_masks(scored, _judge(scored.plan, loaded, language, scored.problems[language]), plan)


def safe_mask_of_run(
    folder: str | os.PathLike[str],
    margin: float = 0.5,
    confidence: float = 0.95,
    progress: Advance | None = None,
    trust_remote_code: bool = False,
    setting: Setting | None = None,
    make_engine: EngineFactory | None = None,
) -> SafeMask:
    """One mask for all languages of a run that costs none of them more than a margin; it is written to `safe.json`.

    Measurements are stored in the run's journal: an interrupted call can be resumed, and a repeated one measures
    nothing.

    Args:
        folder: The run folder of `run_scoring`, or of a study.
        margin: The largest loss that is allowed, in points of the metric.
        confidence: Probability that no language loses more.
        progress: Called after each step.
        trust_remote_code: Run code that comes with the model.
        setting: The model and data of the run, if they are loaded already.
        make_engine: Creates engines, for example `Cluster.make_engine`; by default the one of the setting.

    Raises:
        HeadwiseError: There is no run of `stars` with at least two languages in the folder, its baseline is `mean`, its
            data or its model cannot be opened or have changed, there are too few examples, or another process is
            writing to it.
    """
    with _opened(folder, trust_remote_code, setting, make_engine) as (scored, loaded):
        judges = {name: _judge(scored.plan, loaded, name, scored.problems[name]) for name in scored.scores}
        found = find_safe_mask(scored, judges, margin, confidence, progress)
        found.mask.save(scored_folder(folder) / SAFE)
    return found


@contextmanager
def _opened(
    folder: str | os.PathLike[str],
    trust_remote_code: bool,
    setting: Setting | None,
    make_engine: EngineFactory | None,
) -> Iterator[tuple[Scored, Setting]]:
    """The scoring run of a folder, open for writing, with its model and data."""
    place = scored_folder(folder)
    scores, plan = load_scores(place), plan_of(place)
    loaded = setting or _load(plan, trust_remote_code)
    problems, _ = make_problems(plan, loaded, means=load_means(place / MEANS), make_engine=make_engine)
    next(iter(scores.values())).mask("harmful").check(loaded.heads)
    with open_run(place, read_config(place)) as run:
        yield Scored(plan, scores, problems, run.journal), loaded


def best_of_scores(
    scores: Mapping[str, HeadScores],
    language: str,
    run_plan: ScoringPlan,
    setting: Setting,
    means: Mapping[str, MeanOutputs] | None = None,
    plan: BestMaskPlan | None = None,
    progress: Advance | None = None,
) -> BestMask:
    """The best mask of a language; nothing is kept on disk.

    Args:
        scores: The scores of each language.
        language: The language.
        run_plan: The plan of the scores.
        setting: The model and the data.
        means: The mean outputs of each language, if they are the baseline.
        plan: Settings of the comparison; by default `BestMaskPlan()`.
        progress: Called after each step.

    Raises:
        HeadwiseError: There are no scores of the language, the method is not `stars`, or there are too few examples.
    """
    _require(language, scores, "")
    problems, _ = make_problems(run_plan, setting, means=means)
    judge = _judge(run_plan, setting, language, problems[language])
    with _memory_journal(run_plan.seed) as journal:
        return compare_masks(Scored(run_plan, scores, problems, journal), judge, plan, progress)


@contextmanager
def _memory_journal(seed: int) -> Iterator[Journal]:
    """A journal that is deleted at the end."""
    with tempfile.TemporaryDirectory() as folder, open_run(Path(folder) / "run", {"seed": seed}) as run:
        yield run.journal


def safe_mask_of_scores(
    scores: Mapping[str, HeadScores],
    run_plan: ScoringPlan,
    setting: Setting,
    margin: float = 0.5,
    confidence: float = 0.95,
    progress: Advance | None = None,
) -> SafeMask:
    """One mask for all languages that costs none of them more than a margin; nothing is kept on disk.

    Args:
        scores: The scores of each language.
        run_plan: The plan of the scores.
        setting: The model and the data.
        margin: The largest loss that is allowed, in points of the metric.
        confidence: Probability that no language loses more.
        progress: Called after each step.

    Raises:
        HeadwiseError: There are fewer than two languages, the baseline is `mean`, the method is not `stars`, or there
            are too few examples.
    """
    problems, _ = make_problems(run_plan, setting)
    judges = {name: _judge(run_plan, setting, name, problems[name]) for name in scores}
    with _memory_journal(run_plan.seed) as journal:
        scored = Scored(run_plan, scores, problems, journal)
        return find_safe_mask(scored, judges, margin, confidence, progress)


def _require(language: str, scores: Mapping[str, HeadScores], source: str) -> None:
    if language not in scores:
        where = f"{source} has no" if source else "there are no"
        raise FieldError("language", f"{where} scores of {language}: there are {', '.join(scores)}")


def _load(plan: ScoringPlan, trust_remote_code: bool) -> Setting:
    return load_setting(plan.model, plan.task, plan.data, plan.piece, trust_remote_code, plan.device, plan.dtype)


def _judge(plan: ScoringPlan, setting: Setting, language: str, problem: Problem) -> MaskJudge:
    """Measures masks on the examples that the language was scored on."""
    examples = setting.examples(plan.languages, plan.split, plan.limit).examples[language]
    judge = MaskJudge(setting.model, setting.heads, setting.task, examples, setting.tokenizer, language)
    return replace(judge, settings=problem.settings, baseline=problem.baseline, make_engine=problem.make_engine)
