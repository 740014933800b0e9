"""Merging scoring runs that differ only in their seed: scores are computed from the rounds of all runs."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwise.errors import HeadwiseError
from headwise.heads import hash_all_weights, hash_weights
from headwise.means import load_means
from headwise.methods import Budget, Problem, find_method, method_class, score
from headwise.runs import merge_runs, read_run
from headwise.runs.config import merged_config, read_config
from headwise.scores import HeadScores
from headwise.scoring.plan import plan_of
from headwise.scoring.problems import make_problems
from headwise.scoring.run import save_scores_table
from headwise.scoring.run_folder import MEANS


def merge_scoring(
    folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], trust_remote_code: bool = False
) -> dict[str, HeadScores]:
    """Merge scoring runs of one plan with different seeds into a new run folder, with the scores of all rounds.

    The model is not run: the method reads the rounds of all runs from their journals. The stated error rate holds only
    if the number of runs is chosen before looking at their decisions.

    Args:
        folders: The runs of `headwise score`. They may differ only in their seed.
        out: The new run folder. Its config lists the seeds.
        trust_remote_code: Run code that comes with the model.

    Returns:
        The scores of each language.

    Raises:
        HeadwiseError: The runs differ in more than their seed, have the same seed, or are not runs of `headwise score`;
            the model or the data have changed; or `out` is not empty.
    """
    merged_config([(Path(folder), read_config(Path(folder))) for folder in folders])  # fail before loading the model
    plan = plan_of(folders[0])
    if method_class(plan.method).trains:
        raise HeadwiseError(f"runs of {plan.method} train gates one step after the other and cannot be merged")
    problems, _ = make_problems(plan, None, trust_remote_code, load_means(Path(folders[0]) / MEANS))
    _check_unchanged(Path(folders[0]), problems)
    merge_runs(folders, out)
    method, found = find_method(plan.method, **plan.options), {}
    with read_run(out) as run:
        for language, problem in problems.items():
            # With a budget of 0, the method only reads the rounds of the journal.
            scores = score(method, problem, Budget(0), journal=run.journal, stream=language)
            provenance = dataclasses.replace(scores.provenance, seed=None)
            found[language] = dataclasses.replace(scores, provenance=provenance)
            found[language].save(run.folder / "scores" / f"{language}.json")
            scores.mask("harmful").save(run.folder / "masks" / f"{language}.json")
            if problem.baseline is not None:
                problem.baseline.save(run.folder / MEANS / f"{language}.safetensors")
    save_scores_table(list(found.values()), Path(out) / "scores.parquet")
    return found


def _check_unchanged(folder: Path, problems: Mapping[str, Problem]) -> None:
    """Raise an error if the weights or the examples have changed since the run."""
    config = read_config(folder)
    model = next(iter(problems.values())).model
    exact = config.get("all_weights")  # runs of earlier versions have no such hash
    if config.get("weights") != hash_weights(model) or exact not in (None, hash_all_weights(model)):
        raise HeadwiseError(
            f"{folder}: the model {config.get('model')} has changed since it was scored: score it again"
        )
    if config.get("examples") != {language: problem.data for language, problem in problems.items()}:
        raise HeadwiseError(
            f"{folder}: the data {config.get('data')} have changed since they were scored: score them again"
        )
