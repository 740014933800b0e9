"""The page of a run folder: of a study, or of scores alone."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwise.report import Cost, Report
from headwise.results import load_scores
from headwise.runs.config import read_config
from headwise.studies.kinds import KINDS
from headwise.studies.study import Study


def load_study(folder: str | os.PathLike[str]) -> Study:
    """The finished study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    path = Path(folder)
    return KINDS[str(read_config(path)["study"])].load(path)


def report_of(folder: str | os.PathLike[str]) -> Report:
    """The page of a run folder: of a study, or of scores alone.

    Raises:
        HeadwiseError: There is neither in the folder.
    """
    path = Path(folder)
    config = read_config(path)
    study = load_study(path) if "study" in config else None
    scores = study.scores if study is not None else load_scores(path)
    seconds = study.seconds if study is not None else {}
    first = next(iter(scores.values())).provenance
    return Report(
        title=f"Heads of {config['model']}, {config['task']}",
        model=str(config["model"]),
        task=str(config["task"]),
        data=str(config["data"]),
        metric=study.metric if study is not None else first.game,
        note=" ".join(study.notes) if study is not None else "",
        gains=study.gains() if study is not None else (),
        likely=study.gains("likely") if study is not None else (),
        refined=study.gains("refined") if study is not None else (),
        scores=scores,
        curves=study.curves() if study is not None else (),
        cost=tuple(Cost(language, each.provenance.units, seconds.get(language)) for language, each in scores.items()),
        provenance=_provenance(config, first.versions),
        commands=(_command(config, path),),
    )


def _provenance(config: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, str]:
    """Everything that the run was asked, and the versions it ran with."""
    return {name: str(value) for name, value in {**config, **versions}.items() if value not in (None, {}, "")}


def _command(config: Mapping[str, Any], folder: Path) -> str:
    """What repeats a scoring run; a study's config is all there is to its plan."""
    if "study" in config:
        return f"headwise study PLAN.yaml --out {folder}"
    options = (f"--{name} {config[name]}" for name in ("task", "data", "split", "method", "budget", "game", "seed"))
    languages = ",".join(config["languages"])
    return f"headwise score {config['model']} --languages {languages} {' '.join(options)} --out {folder}"
