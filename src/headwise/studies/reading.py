"""Studies out of their folders, and the page that shows them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headwise.errors import HeadwiseError
from headwise.files import read_json
from headwise.report import Cost, Gain, Report
from headwise.results import load_scores
from headwise.runs.config import read_config
from headwise.stats import PairedTest
from headwise.studies.targeted import FIGURES, FORMAT, VERSION, LanguageOutcome, Outcome, TargetedStudy


def load_study(folder: str | os.PathLike[str]) -> TargetedStudy:
    """The study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    path = Path(folder)
    if not (path / FIGURES).is_file():
        raise HeadwiseError(f"{path}: no finished study there: run headwise study with --out {path} to the end")
    data = read_json(path / FIGURES, FORMAT, VERSION)
    try:
        languages = {language: _outcome(each) for language, each in data["languages"].items()}
        return TargetedStudy(
            path, data["metric"], languages, load_scores(path / "scoring"), data["seconds"], tuple(data["notes"])
        )
    except (KeyError, TypeError) as error:
        raise HeadwiseError(f"{path / FIGURES}: not complete: {error!r}") from None


def report_of(folder: str | os.PathLike[str]) -> Report:
    """The page of a run folder: of a study, or of scores alone.

    Raises:
        HeadwiseError: There is neither in the folder.
    """
    path = Path(folder)
    config = read_config(path)
    study = load_study(path) if (path / "scoring").is_dir() else None
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
        gains=tuple(_gain(language, each) for language, each in study.languages.items()) if study is not None else (),
        scores=scores,
        cost=tuple(Cost(language, each.provenance.units, seconds.get(language)) for language, each in scores.items()),
        provenance=_provenance(config, first.versions),
        commands=(_command(config, path),),
    )


def _outcome(data: Mapping[str, Any]) -> LanguageOutcome:
    masks = {
        name: Outcome(each["value"], each["removed"], PairedTest(**each["test"]))
        for name, each in data["masks"].items()
    }
    return LanguageOutcome(data["base"], data["examples"], masks, tuple(data["randoms"]))


def _gain(language: str, found: LanguageOutcome) -> Gain:
    targeted = found.masks["targeted"]

    def value(name: str) -> float | None:
        return found.masks[name].value if name in found.masks else None

    return Gain(
        language=language,
        heads_removed=targeted.removed,
        base=found.base,
        pruned=targeted.value,
        low=targeted.test.low,
        high=targeted.test.high,
        p_value=targeted.test.p_value,
        random_mean=float(np.mean(found.randoms)) if found.randoms else None,
        random_sd=float(np.std(found.randoms)) if found.randoms else None,
        michel=value("michel"),
        zero_shot=value("zero-shot"),
        pooled=value("pooled"),
    )


def _provenance(config: Mapping[str, Any], versions: Mapping[str, str]) -> dict[str, str]:
    """Everything that the run was asked, and the versions it ran with."""
    return {name: str(value) for name, value in {**config, **versions}.items() if value not in (None, {}, "")}


def _command(config: Mapping[str, Any], folder: Path) -> str:
    """What repeats a scoring run; a study's config is all there is to its plan."""
    if (folder / "scoring").is_dir():
        return f"headwise study PLAN.yaml --out {folder}"
    options = (f"--{name} {config[name]}" for name in ("task", "data", "split", "method", "budget", "game", "seed"))
    languages = ",".join(config["languages"])
    return f"headwise score {config['model']} --languages {languages} {' '.join(options)} --out {folder}"
