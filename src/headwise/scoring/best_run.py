"""The best mask of a language in a run folder, or of scores that are kept nowhere."""

import os
from collections.abc import Mapping
from dataclasses import replace

from headwise.engine import EngineFactory
from headwise.engine.evaluation import MaskJudge
from headwise.errors import FieldError
from headwise.means import MeanOutputs, load_means
from headwise.methods import Problem
from headwise.runs import open_run
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scoring.best import BestMaskPlan, Scored, compare_masks, memory_journal
from headwise.scoring.best_result import BestMask
from headwise.scoring.plan import ScoringPlan, plan_of
from headwise.scoring.problems import make_problems
from headwise.scoring.run_folder import BEST, MEANS, load_scores, scored_folder
from headwise.scoring.setting import Setting, load_setting
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
    scored = scored_folder(folder)
    scores = load_scores(scored)
    _require(language, scores, str(folder))
    run_plan = plan_of(scored)
    setting = setting or _load(run_plan, trust_remote_code)
    problems, _ = make_problems(run_plan, setting, means=load_means(scored / MEANS), make_engine=make_engine)
    scores[language].mask("harmful").check(setting.heads)
    judge = _judge(run_plan, setting, language, problems[language])
    with open_run(scored, read_config(scored)) as run:
        found = compare_masks(Scored(run_plan, scores, problems, run.journal), judge, plan, progress)
        found.mask.save(run.folder / BEST / f"{language}.json")
    return found


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
    with memory_journal(run_plan.seed) as journal:
        return compare_masks(Scored(run_plan, scores, problems, journal), judge, plan, progress)


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
