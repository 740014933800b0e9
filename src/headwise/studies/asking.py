"""What a study asks of its scoring: known before anything is spent, and told in the words of its plan."""

import dataclasses
import re
from pathlib import Path
from typing import Any

from headwise.data.choosing import language_codes
from headwise.data.opening import open_dataset
from headwise.errors import HeadwiseError
from headwise.scoring import Advance, ScoringPlan, ScoringRun, run_scoring

_OPTION = re.compile(rf"--({'|'.join(each.name for each in dataclasses.fields(ScoringPlan))})\b")


def plan_config(plan: Any) -> dict[str, object]:
    """Everything that a study's measurements depend on, as one flat dict; the device is not part of it."""
    whole = dataclasses.asdict(plan)
    scoring = whole.pop("scoring")
    del scoring["device"]
    return {**whole, **scoring}


def study_languages(scoring: ScoringPlan) -> list[str]:
    """The languages that a study is about, by their codes.

    Raises:
        HeadwiseError: There are no such data, or no language is named.
    """
    return language_codes(scoring.languages, open_dataset(scoring.data, scoring.task), "'languages'")


def score_heads(scoring: ScoringPlan, folder: Path, progress: Advance | None = None) -> ScoringRun:
    """Score heads for a study; what does not fit is a field of its plan, not an option of the command line.

    Raises:
        HeadwiseError: Something in the plan does not fit, or the folder holds another run.
    """
    try:
        return run_scoring(scoring, folder, progress=progress)
    except HeadwiseError as error:
        raise type(error)(_OPTION.sub(r"'\1'", str(error))) from None
