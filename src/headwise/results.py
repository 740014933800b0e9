"""What runs have left in their folders: scores, masks, and how two runs compare."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError
from headwise.heads import HeadMap
from headwise.masks import HeadMask
from headwise.rules import harmful_mask, likely_mask, lowest_mask, lowest_share_mask
from headwise.runs.config import CONFIG, read_config
from headwise.scores import Comparison, HeadScores

#: Where a run folder has its refined masks.
REFINED = "refined"
#: Where the folder of a study has the run that scored its heads.
SCORING = "scoring"
#: Rules without a number that choose heads from a run; the first is the default for every kind of run.
RULES = ("likely", "harmful", "refined")

_LISTED = "--likely, --harmful, --refined, --count and --share"


def load_scores(folder: str | os.PathLike[str]) -> dict[str, HeadScores]:
    """The scores of a run, by language; those of a study are what its scoring found.

    Raises:
        HeadwiseError: There is no run in the folder, or it has no scores yet.
    """
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


@dataclass(frozen=True)
class MaskChoice:
    """Which heads to remove: what `choose_mask` has read, to be applied to the head map of the model.

    Attributes:
        model: Name of the model.
        rule: How heads are chosen: one of `RULES`, `count`, `share`, or `mask file`.
        source: The file or folder that it was read from.
        found: The mask, or the scores that a rule is applied to.
        count: Number of heads to remove, for the rule `count`.
        share: Share of the heads to remove, for the rule `share`.
    """

    model: str
    rule: str
    source: Path
    found: HeadMask | HeadScores
    count: int | None = None
    share: float | None = None

    def mask(self, heads: HeadMap, other_weights: bool = False) -> HeadMask:
        """The mask for a model.

        Args:
            heads: Head map of the model.
            other_weights: Accept a mask or scores of other weights of the same shape.

        Raises:
            HeadwiseError: The rule cannot be applied to the scores, or no head would be removed.
            MaskMismatchError: The model has another shape or other weights.
        """
        found = self.found
        if isinstance(found, HeadScores):
            if other_weights:
                found = replace(found, provenance=replace(found.provenance, fingerprint=None))
            found = self._apply(found, heads)
        elif other_weights:
            found = found.moved_to(heads)
        found.check(heads)
        if not found.off:
            raise HeadwiseError(self._nothing(found))
        return found

    def _apply(self, scores: HeadScores, heads: HeadMap) -> HeadMask:
        if self.count is not None:
            return lowest_mask(scores, heads, self.count)
        if self.share is not None:
            return lowest_share_mask(scores, heads, self.share)
        if self.rule == "harmful":
            return harmful_mask(scores, heads)
        if all(math.isnan(error) for error in scores.stderr):
            raise HeadwiseError(
                f"the values of {scores.provenance.method} have no standard errors and do not tell which heads are "
                "likely harmful: give a number of heads with --count, or a share with --share"
            )
        return likely_mask(scores, heads)

    def _nothing(self, mask: HeadMask) -> str:
        """The message when no head would be removed: why, and what to do."""
        match self.rule:
            case "likely":
                why = "no head is likely harmful"
                fix = "score with a larger --budget, or choose heads with --refined, --count or --share"
            case "harmful":
                why = "no head is decided harmful"
                fix = "use --likely, --refined or --count, or score with a larger --budget"
            case "refined":
                why, fix = "the refined mask removes no head", "use --likely, --count or --share"
            case "count" | "share":
                amount = self.count if self.rule == "count" else self.share
                why, fix = f"--{self.rule} {amount} removes no head", "give a larger number"
            case _:
                why, fix = "the mask removes no head", "give a mask with heads off"
        language = f" for {mask.language}" if mask.language else ""
        return f"{self.source}: {why}{language}, so nothing was written: {fix}"


def choose_mask(
    model: str | os.PathLike[str],
    mask: str | os.PathLike[str] | None = None,
    *,
    language: str | None = None,
    rule: str | None = None,
    count: int | None = None,
    share: float | None = None,
) -> MaskChoice:
    """Choose heads by a mask file, or by the scores of a run.

    Without a rule, the heads that are likely harmful are chosen, whatever kind of run it is.

    Args:
        model: Name of the model if a mask file is given, otherwise a run folder of `headwise score` or of a study.
        mask: A mask file.
        language: Language whose scores in the run are used.
        rule: `likely`, `harmful` (decided harmful at the error rate of the run) or `refined` (the mask that
            `headwise refine` or a targeted study has made).
        count: Number of heads to remove, those with the lowest values.
        share: Share of the heads to remove, those with the lowest values.

    Raises:
        HeadwiseError: The arguments contradict each other, or the run has no scores or no refined mask of the language.
    """
    if rule not in (None, *RULES):
        raise HeadwiseError(f"rule: one of {', '.join(RULES)}, not {rule!r}")
    given = [name for name, value in ((rule, rule), ("count", count), ("share", share)) if value is not None]
    if len(given) > 1:
        raise HeadwiseError(f"{_LISTED} are different ways to choose heads: give one of them")
    if given and (mask is not None or language is None):
        raise HeadwiseError(f"{_LISTED} are about a run: give its folder and --language, no --mask")
    if (mask is None) == (language is None):
        raise HeadwiseError("give a model and --mask, or a run folder and --language")
    if mask is not None:
        return MaskChoice(str(model), "mask file", Path(mask), HeadMask.load(mask))
    folder, chosen = Path(model), str(given[0] if given else RULES[0])
    name = model_of(folder)
    if chosen == "refined":
        path = _refined_file(folder, str(language))
        return MaskChoice(name, chosen, path, HeadMask.load(path))
    scores = load_scores(folder)
    if language not in scores:
        raise HeadwiseError(f"{folder}: has no scores of --language {language}: it has {', '.join(scores)}")
    return MaskChoice(name, chosen, scored_folder(folder) / "scores", scores[str(language)], count, share)


def _refined_file(folder: Path, language: str) -> Path:
    """The file of a run's refined mask; the masks of a targeted study that refines are refined ones."""
    config = read_config(folder)
    places = [folder / REFINED, folder / SCORING / REFINED]
    if config.get("study") == "targeted" and config.get("refine"):
        places.insert(1, folder / "masks")
    found = {path.stem: path for place in reversed(places) for path in sorted(place.glob("*.json"))}
    if language not in found:
        have = f"it has {', '.join(found) or 'none'}: run headwise refine first"
        raise HeadwiseError(f"{folder}: has no refined mask for --language {language}: {have}")
    return found[language]


def model_of(folder: Path) -> str:
    """The model of a run.

    Raises:
        HeadwiseError: There is no run in the folder, or it is about no model.
    """
    name = read_config(folder).get("model")
    if name is None:
        raise HeadwiseError(f"{folder}: a run without a model: give the folder of headwise score or of a study")
    return str(name)
