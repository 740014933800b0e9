"""Choosing the heads to remove: by a mask file, or by the scores of a run."""

import math
import os
from dataclasses import dataclass
from pathlib import Path

from headwise.errors import HeadwiseError
from headwise.masks import HeadMask
from headwise.runs.config import read_config
from headwise.scores import HeadScores
from headwise.scores.rules import tells_likely
from headwise.scoring.best_result import BestMask
from headwise.scoring.run_folder import (
    BEST,
    REFINED,
    SAFE,
    SCORING,
    SOFT,
    load_scores,
    means_file,
    model_of,
    scored_folder,
)
from headwise.scoring.safe import SafeMask
from headwise.soft_masks import AnyMask, SoftMask, load_mask

#: Rules without a number that choose heads from a run; the first is the default for every kind of run.
RULES = ("likely", "harmful", "refined", "soft")

_LISTED = "--likely, --harmful, --refined, --soft, --count and --share"
#: For every rule: the reason why no head is removed, and what the user can do.
_NOTHING = {
    "likely": (
        "no head is likely harmful",
        "score with a larger --budget, or choose heads with --refined, --count or --share",
    ),
    "harmful": ("no head is decided harmful", "use --likely, --refined or --count, or score with a larger --budget"),
    "refined": ("the refined mask removes no head", "use --likely, --count or --share"),
    "count": ("--count 0 removes no head", "give a larger number"),
    "share": ("the given --share removes no head", "give a larger share"),
    "soft": ("all gates of the soft mask are 1", "learn gates on more examples, or with another --l1"),
    "best": (
        "no mask is likely enough to be better than none on the examples of the run",
        "to remove heads all the same, use --likely, --refined, --count or --share",
    ),
    "safe": (
        "no mask is certain enough to cost no language more than the margin",
        "allow a larger --margin, score more examples, or prune for one --language",
    ),
    "mask file": ("the mask removes no head", "give a mask with heads off"),
}


@dataclass(frozen=True)
class MaskChoice:
    """Which heads to remove.

    Attributes:
        model: Name of the model.
        rule: How heads are chosen: one of `RULES`, `count`, `share`, `best`, `safe` or `mask file`.
        source: The file or folder that the choice comes from.
        mask: The mask, hard or soft; at least one head is off or has another gate than 1.
        means: The file with the mean outputs that replace the removed heads; None if nothing replaces them.
    """

    model: str
    rule: str
    source: Path
    mask: AnyMask
    means: Path | None = None


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
        mask: A mask file, hard or soft.
        language: Language whose scores in the run are used.
        rule: `likely`, `harmful` (decided harmful at the error rate of the run), `refined` (the mask that
            `headwise refine` or a targeted study has made) or `soft` (the soft mask of `headwise gates`).
        count: Number of heads to remove, those with the lowest values.
        share: Share of the heads to remove, those with the lowest values.

    Raises:
        HeadwiseError: The arguments contradict each other, the run has no scores or no refined mask of the language,
            the rule does not apply to its scores, or no head would be removed.
    """
    if rule not in (None, *RULES):
        raise HeadwiseError(f"rule: one of {', '.join(RULES)}, not {rule!r}")
    given = [name for name, value in ((rule, rule), ("count", count), ("share", share)) if value is not None]
    if len(given) > 1:
        raise HeadwiseError(f"{_LISTED} are different ways to choose heads: give one of them")
    if given and (mask is not None or language is None):
        raise HeadwiseError(f"{_LISTED} are about a run: give its folder and --language, no --mask")
    if mask is not None and language is None:
        return _checked(MaskChoice(str(model), "mask file", Path(mask), load_mask(mask)))
    if mask is not None or language is None:
        raise HeadwiseError("give a model and --mask, or a run folder and --language")
    folder, chosen = Path(model), str(given[0] if given else RULES[0])
    name = model_of(folder)
    if chosen == "refined":
        path = _refined_file(folder, language)
        return _checked(MaskChoice(name, chosen, path, HeadMask.load(path), means_file(folder, language)))
    if chosen == "soft":
        path = _soft_file(folder, language)
        return _checked(MaskChoice(name, chosen, path, SoftMask.load(path), means_file(folder, language)))
    scores = load_scores(folder)
    if language not in scores:
        raise HeadwiseError(f"{folder}: has no scores of --language {language}: it has {', '.join(scores)}")
    made = _apply(scores[language], chosen, count, share)
    means = means_file(folder, language)
    return _checked(MaskChoice(name, chosen, scored_folder(folder) / "scores", made, means))


def best_choice(folder: str | os.PathLike[str], best: BestMask) -> MaskChoice:
    """The choice of the best mask of a run.

    Raises:
        HeadwiseError: No mask is the best choice, so no head would be removed.
    """
    source = scored_folder(folder) / BEST / f"{best.language}.json"
    return _checked(MaskChoice(model_of(Path(folder)), "best", source, best.mask, means_file(folder, best.language)))


def safe_choice(folder: str | os.PathLike[str], safe: SafeMask) -> MaskChoice:
    """The choice of the mask for all languages of a run.

    Raises:
        HeadwiseError: No mask is safe, so no head would be removed.
    """
    return _checked(MaskChoice(model_of(Path(folder)), "safe", scored_folder(folder) / SAFE, safe.mask))


def _apply(scores: HeadScores, rule: str, count: int | None, share: float | None) -> HeadMask:
    """The mask of a rule."""
    if count is not None or share is not None:
        return scores.mask(count=count, share=share)
    if rule == "harmful":
        return scores.mask("harmful")
    reason = None
    if not tells_likely(scores):
        reason = "are biased" if scores.provenance.signed else "are without a sign"
    elif all(math.isnan(error) for error in scores.stderr):
        reason = "have no standard errors"
    if reason is not None:
        raise HeadwiseError(
            f"the values of {scores.provenance.method} {reason} and do not tell which heads are likely harmful: "
            "give a number of heads with --count, or a share with --share"
        )
    return scores.mask("likely")


def _checked(choice: MaskChoice) -> MaskChoice:
    """The choice; raises an error if it changes no head."""
    soft = isinstance(choice.mask, SoftMask) and any(gate != 1 for gate in choice.mask.gates)
    if soft or choice.mask.off:
        return choice
    why, fix = _NOTHING[choice.rule]
    language = f" for {choice.mask.language}" if choice.mask.language else ""
    raise HeadwiseError(f"{choice.source}: {why}{language}, so nothing was written: {fix}")


def _soft_file(folder: Path, language: str) -> Path:
    """The file of a run's soft mask."""
    found = {path.stem: path for path in sorted((folder / SOFT).glob("*.json"))}
    if language not in found:
        have = f"it has {', '.join(found) or 'none'}: run headwise gates first"
        raise HeadwiseError(f"{folder}: has no soft mask for --language {language}: {have}")
    return found[language]


def _refined_file(folder: Path, language: str) -> Path:
    """The file of a run's refined mask; a targeted study with `refine` has its refined masks in `masks`."""
    config = read_config(folder)
    places = [folder / REFINED, folder / SCORING / REFINED]
    if config.get("study") == "targeted" and config.get("refine"):
        places.insert(1, folder / "masks")
    found = {path.stem: path for place in reversed(places) for path in sorted(place.glob("*.json"))}
    if language not in found:
        have = f"it has {', '.join(found) or 'none'}: run headwise refine first"
        raise HeadwiseError(f"{folder}: has no refined mask for --language {language}: {have}")
    return found[language]
