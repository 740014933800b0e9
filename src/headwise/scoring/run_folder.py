"""What runs have left in their folders: scores, masks, and how two runs compare."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError
from headwise.runs.config import CONFIG, read_config

if TYPE_CHECKING:  # scores import torch, which listing runs does not need
    from headwise.scores import Comparison, HeadScores

#: Where a run folder has its refined masks.
REFINED = "refined"
#: Where the folder of a study has the run that scored its heads.
SCORING = "scoring"


def load_scores(folder: str | os.PathLike[str]) -> "dict[str, HeadScores]":
    """The scores of a run, by language; those of a study are what its scoring found.

    Raises:
        HeadwiseError: There is no run in the folder, or it has no scores yet.
    """
    from headwise.scores import HeadScores

    read_config(Path(folder))
    paths = sorted((scored_folder(folder) / "scores").glob("*.json"))
    if not paths:
        raise HeadwiseError(f"{folder}: the run has no scores yet: let headwise score finish a language")
    found = {}
    for path in paths:
        scores = HeadScores.load(path)
        language = scores.provenance.language or ""
        if not isinstance(language, str):
            raise HeadwiseError(f"{path}: not a complete file of scores: its language is {language!r}, not a code")
        found[language] = scores
    return found


def scored_folder(folder: str | os.PathLike[str]) -> Path:
    """Where the scores of a run are: in its own folder, or in `scoring` in that of a study.

    Example:
        >>> str(scored_folder("runs/mine"))
        'runs/mine'
    """
    inner = Path(folder) / SCORING
    return inner if any(inner.glob("scores/*.json")) and not any(Path(folder).glob("scores/*.json")) else Path(folder)


def compare_runs(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> "dict[str, Comparison]":
    """How far two runs agree, for each language that both have scores of.

    Raises:
        HeadwiseError: They share no language, or their scores cannot be compared.
    """
    here, there = load_scores(one), load_scores(other)
    shared = [language for language in here if language in there]
    if not shared:
        raise HeadwiseError(f"{one} has scores of {', '.join(here)}, {other} of {', '.join(there)}: none in common")
    return {language: here[language].compare(there[language]) for language in shared}


def list_runs(folder: str | os.PathLike[str] = "runs") -> dict[str, dict[str, Any]]:
    """The configs of the runs in a folder of run folders, by their paths."""
    return {str(path.parent): read_config(path.parent) for path in sorted(Path(folder).glob(f"*/{CONFIG}"))}


def find_mask(model: str, mask: Path | None, language: str | None, refined: bool = False) -> tuple[str, Path]:
    """The model and the mask file that are meant by a model and a mask, or by a run folder and a language.

    Raises:
        HeadwiseError: Neither or both are given, or the run has no mask for the language.
    """
    if (mask is None) == (language is None):
        raise HeadwiseError("give a model and --mask, or a run folder and --language")
    if mask is not None:
        return model, mask
    folder = Path(model)
    name = model_of(folder)
    places = _mask_folders(folder, refined)
    found = {path.stem: path for place in reversed(places) for path in sorted(place.glob("*.json"))}
    if language not in found:
        kind, fix = ("refined mask", ": run headwise refine first") if refined else ("mask", "")
        have = f"it has {', '.join(found) or 'none'}{fix}"
        raise HeadwiseError(f"{folder}: has no {kind} for --language {language}: {have}")
    return name, found[language]


def _mask_folders(folder: Path, refined: bool) -> list[Path]:
    """Where a run has its masks, the place that counts most first; those of a targeted study are refined ones."""
    name = REFINED if refined else "masks"
    config = read_config(folder)
    study = refined and config.get("study") == "targeted" and config.get("refine")
    return [folder / name, *([folder / "masks"] if study else []), folder / SCORING / name]


def model_of(folder: Path) -> str:
    """The model of a run.

    Raises:
        HeadwiseError: There is no run in the folder, or it is about no model.
    """
    name = read_config(folder).get("model")
    if name is None:
        raise HeadwiseError(f"{folder}: a run without a model: give the folder of headwise score or of a study")
    return str(name)
