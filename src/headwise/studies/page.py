"""The report of a run folder: a study or a scoring run."""

import dataclasses
import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from headwise.errors import HeadwiseError
from headwise.methods import find_method
from headwise.report import Report, ScoringCost
from headwise.runs.config import CONFIG, read_config, text_of
from headwise.scoring import ScoringPlan, plan_of
from headwise.scoring.run_folder import load_scores
from headwise.studies.kinds import KINDS
from headwise.studies.study import Study

#: Options of methods that `headwise score` accepts.
_FLAGS = {"error_rate", "confidence"}


def load_study(folder: str | os.PathLike[str]) -> Study:
    """The finished study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    path = Path(folder)
    name = text_of(read_config(path), "study", path)
    if name not in KINDS:
        raise HeadwiseError(f"{path / CONFIG}: 'study' is one of {', '.join(KINDS)}, not {name!r}: restore it")
    return KINDS[name].load(path)


def report_of(folder: str | os.PathLike[str]) -> Report:
    """The report of a run folder: a study or a scoring run.

    Raises:
        HeadwiseError: The folder contains neither.
    """
    path = Path(folder)
    config = read_config(path)
    model, task, data = (text_of(config, key, path) for key in ("model", "task", "data"))
    study = load_study(path) if "study" in config else None
    scores = study.scores if study is not None else load_scores(path)
    seconds = study.seconds if study is not None else {}
    versions = next((each.provenance.versions for each in scores.values()), {})
    return Report(
        title=f"Heads of {model}, {task}",
        model=model,
        task=task,
        data=data,
        note=" ".join(study.notes) if study is not None else "",
        sections=study.sections() if study is not None else (),
        scores=scores,
        cost=tuple(
            ScoringCost(language, each.provenance.units, seconds.get(language)) for language, each in scores.items()
        ),
        provenance=_provenance(config, versions),
        commands=(_study_command(config, path) if study is not None else scoring_command(plan_of(path), path),),
    )


def _provenance(config: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, str]:
    """The config of the run, and the versions of the libraries."""
    return {name: str(value) for name, value in {**config, **versions}.items() if value not in (None, {}, "")}


def _study_command(config: Mapping[str, Any], folder: Path) -> str:
    """The command that repeats a study.

    The config of a study that scores heads is a complete plan; for other studies the fields are given by `--set`.
    """
    name = str(config["study"])
    fields = [field.name for field in dataclasses.fields(KINDS[name].plan)]
    if "scoring" in fields:
        return shlex.join(["headwise", "study", str(folder / CONFIG), "--out", str(folder)])
    changes = (part for field in fields for part in ("--set", f"{field}={json.dumps(config[field])}"))
    return shlex.join(["headwise", "study", name, *changes, "--out", str(folder)])


def scoring_command(plan: ScoringPlan, folder: Path) -> str:
    """The command that repeats a scoring run, with the fields that differ from their defaults.

    It is a Python call if the command line has no option for a field.

    Example:
        >>> plan = ScoringPlan("org/tagger", "pos", "my data", "de,tr", options={"error_rate": 0.05})
        >>> scoring_command(plan, Path("runs/mine"))
        "headwise score org/tagger --task pos --data 'my data' --languages de,tr --error-rate 0.05 --out runs/mine"
    """
    options = _changed_options(plan, folder)
    if options.keys() - _FLAGS:  # the command line has no options for these
        return f"run_scoring({dataclasses.replace(plan, options=options)!r}, {str(folder)!r})  # in Python"
    words = ["headwise", "score", plan.model]
    for each in dataclasses.fields(plan):
        value = getattr(plan, each.name)
        if each.name not in ("model", "options") and value != each.default:
            words += [f"--{each.name}"] if value is True else [f"--{each.name}", _word(value)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", _word(value)]
    return shlex.join([*words, "--out", str(folder)])


def _changed_options(plan: ScoringPlan, folder: Path) -> dict[str, Any]:
    """The options of a run's method that differ from their defaults."""
    if not isinstance(plan.options, dict):
        raise HeadwiseError(f"{folder / CONFIG}: 'options' must be a map of names and values, not {plan.options!r}")
    usual = dataclasses.asdict(cast(Any, find_method(plan.method)))
    return {name: value for name, value in plan.options.items() if name not in usual or usual[name] != value}


def _word(value: object) -> str:
    """A value as text, with 60000 instead of 60000.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
