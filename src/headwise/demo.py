"""The main job, offline and in minutes: which heads hurt a language, and what is gained by removing them?"""

import os

from headwise.scoring import Advance, ScoringPlan
from headwise.studies import TargetedPlan, TargetedStudy, run_targeted

#: Languages of different families and scripts, with the one that the model was tuned on.
LANGUAGES = "en,tr,ar,hi,zh,th"
FAST_LANGUAGES = "en,zh,th"


def demo_plan(fast: bool = False) -> TargetedPlan:
    """What the demo does: parts of speech in the phrasebook, by a tagger tuned on English.

    Args:
        fast: Fewer languages and less to spend on each: a look at how it goes rather than at what comes out.

    Example:
        >>> demo_plan().scoring.model
        'e5-small-pos'
    """
    scoring = ScoringPlan(
        model="e5-small-pos",
        task="pos",
        data="phrasebook",
        languages=FAST_LANGUAGES if fast else LANGUAGES,
        estimand="truncated",
        budget=2500 if fast else 7500,
    )
    return TargetedPlan(scoring, refine=4 if fast else 12, randoms=3 if fast else 5)


def run_demo(out: str | os.PathLike[str], fast: bool = False, progress: Advance | None = None) -> TargetedStudy:
    """Score all heads, remove the harmful ones, and judge the gain on sentences that were not scored on.

    Args:
        out: The run folder; a second run goes on from what is there.
        fast: Fewer languages, less to spend.
        progress: Called as work goes on.
    """
    return run_targeted(demo_plan(fast), out, progress)
