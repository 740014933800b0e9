"""Merging scoring runs that differ in their seed: the rounds of all of them give scores together."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwise.errors import HeadwiseError
from headwise.heads import hash_weights
from headwise.methods import Budget, Problem, find_method, score
from headwise.runs import merge_runs, read_run
from headwise.runs.config import merged_config, read_config
from headwise.scores import HeadScores
from headwise.scoring.plan import plan_of
from headwise.scoring.problems import make_problems
from headwise.scoring.run import save_scores_table


def merge_scoring(
    folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], trust_remote_code: bool = False
) -> dict[str, HeadScores]:
    """Merge scoring runs of one plan with different seeds into a new run folder, with the scores of all rounds.

    Nothing is computed by the model: a method takes in the rounds of all runs as if they were its own. For the stated
    error rate, choose the number of runs before looking at their decisions.

    Args:
        folders: The runs of `headwise score`. They may differ in their seed only.
        out: The new run folder. Its config lists the seeds.
        trust_remote_code: Run code that comes with the model.

    Returns:
        The scores of each language.

    Raises:
        HeadwiseError: The runs differ in more than their seed, share a seed, or are not of `headwise score`; the model
            or the data changed since; or `out` is not empty.
    """
    merged_config([(Path(folder), read_config(Path(folder))) for folder in folders])  # before the model is loaded
    plan = plan_of(folders[0])
    problems, _ = make_problems(plan, trust_remote_code=trust_remote_code)
    _check_unchanged(Path(folders[0]), problems)
    merge_runs(folders, out)
    method, found = find_method(plan.method, **plan.options), {}
    with read_run(out) as run:
        for language, problem in problems.items():
            # With no budget the method only takes in the rounds of the journal.
            scores = score(method, problem, Budget(0), journal=run.journal, stream=language)
            provenance = dataclasses.replace(scores.provenance, seed=None)
            found[language] = dataclasses.replace(scores, provenance=provenance)
            found[language].save(run.folder / "scores" / f"{language}.json")
            scores.mask("harmful").save(run.folder / "masks" / f"{language}.json")
    save_scores_table(list(found.values()), Path(out) / "scores.parquet")
    return found


def _check_unchanged(folder: Path, problems: Mapping[str, Problem]) -> None:
    """Rounds say nothing about other weights or other examples."""
    config = read_config(folder)
    if config.get("weights") != hash_weights(next(iter(problems.values())).model):
        raise HeadwiseError(f"{folder}: the model {config.get('model')} has other weights now: score it again")
    if config.get("examples") != {language: problem.data for language, problem in problems.items()}:
        raise HeadwiseError(f"{folder}: the data {config.get('data')} hold other examples now: score them again")
