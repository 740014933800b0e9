"""What runs have left in their folders: scores, masks, and how two runs compare."""

import os
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.runs.config import CONFIG, read_config
from headwise.scores import Comparison, HeadScores

#: Where a run folder has its refined masks.
REFINED = "refined"


def load_scores(folder: str | os.PathLike[str]) -> dict[str, HeadScores]:
    """The scores of a run, by language.

    Raises:
        HeadwiseError: There is no run in the folder, or it has no scores yet.
    """
    read_config(Path(folder))
    found = [HeadScores.load(path) for path in sorted((Path(folder) / "scores").glob("*.json"))]
    if not found:
        raise HeadwiseError(f"{folder}: the run has no scores yet: let headwise score finish a language")
    return {each.provenance.language or "": each for each in found}


def compare_runs(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> dict[str, Comparison]:
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
    found = {path.stem: path for path in sorted((folder / (REFINED if refined else "masks")).glob("*.json"))}
    if language not in found:
        kind, fix = ("refined mask", ": run headwise refine first") if refined else ("mask", "")
        have = f"it has {', '.join(found) or 'none'}{fix}"
        raise HeadwiseError(f"{folder}: has no {kind} for --language {language}: {have}")
    return name, found[language]


def model_of(folder: Path) -> str:
    """The model of a run.

    Raises:
        HeadwiseError: There is no run in the folder, or it is about no model.
    """
    name = read_config(folder).get("model")
    if name is None:
        raise HeadwiseError(f"{folder}: a run without a model: give the folder of headwise score or of a study")
    return str(name)
