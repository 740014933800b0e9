"""Reading run folders: scores, the model, and comparisons of two runs."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise.errors import HeadwiseError
from headwise.runs.config import CONFIG, read_config

if TYPE_CHECKING:  # imports torch, which `list_runs` does not need
    from headwise.scores import Comparison, HeadScores

#: Subfolder of a run with its refined masks.
REFINED = "refined"
#: Subfolder of a run with the mean outputs of each language, if its baseline is `mean`.
MEANS = "means"
#: Subfolder of a run with its soft masks.
SOFT = "soft"
#: Subfolder of a run with the best masks.
BEST = "best"
#: File of a run with the mask for all languages.
SAFE = "safe.json"
#: Subfolder of a study with its scoring run.
SCORING = "scoring"


def load_scores(folder: str | os.PathLike[str]) -> "dict[str, HeadScores]":
    """The scores of a run by language; for a study, those of its scoring run.

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
    """The folder that contains `scores`: the run folder itself, or `scoring` in the folder of a study.

    Example:
        >>> str(scored_folder("runs/mine"))
        'runs/mine'
    """
    inner = Path(folder) / SCORING
    return inner if any(inner.glob("scores/*.json")) and not any(Path(folder).glob("scores/*.json")) else Path(folder)


def means_file(folder: str | os.PathLike[str], language: str) -> Path | None:
    """The file with the mean outputs that a run put in the place of removed heads; None if its baseline is zero.

    Raises:
        HeadwiseError: The baseline is `mean`, but the file is missing.
    """
    scored = scored_folder(folder)
    if read_config(Path(folder)).get("baseline", "zero") == "zero":
        return None
    path = scored / MEANS / f"{language}.safetensors"
    if not path.is_file():
        raise HeadwiseError(
            f"{path}: missing, but the baseline of the run is 'mean': repeat headwise score to write it"
        )
    return path


def compare_runs(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> "dict[str, Comparison]":
    """Compare the scores of two runs, for each language that both have.

    Raises:
        HeadwiseError: The runs have no language in common, or their scores cannot be compared.
    """
    here, there = load_scores(one), load_scores(other)
    shared = [language for language in here if language in there]
    if not shared:
        raise HeadwiseError(f"{one} has scores of {', '.join(here)}, {other} of {', '.join(there)}: none in common")
    return {language: here[language].compare(there[language]) for language in shared}


def list_runs(folder: str | os.PathLike[str] = "runs") -> dict[str, dict[str, Any]]:
    """The configs of all runs in a folder, by their paths; a config that cannot be read has only the key `error`."""
    return {str(path.parent): _config_or_error(path.parent) for path in sorted(Path(folder).glob(f"*/{CONFIG}"))}


def _config_or_error(folder: Path) -> dict[str, Any]:
    try:
        return read_config(folder)
    except HeadwiseError as error:
        return {"error": str(error)}


def model_of(folder: Path) -> str:
    """The name of a run's model.

    Raises:
        HeadwiseError: There is no run in the folder, or its config has no model.
    """
    name = read_config(folder).get("model")
    if name is None:
        raise HeadwiseError(f"{folder}: the run has no model: give the folder of headwise score or of a study")
    return str(name)
