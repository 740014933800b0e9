"""A finished targeted study with given gains and scores."""

from collections.abc import Mapping
from pathlib import Path

from headwise.files import write_json
from headwise.runs import open_run
from headwise.scores import HeadScores
from headwise.stats import PairedTest
from headwise.studies import LanguageOutcome, Outcome, TargetedStudy


def save_targeted(folder: Path, gains: Mapping[str, float], scores: Mapping[str, HeadScores]) -> Path:
    """Write the folder of a finished targeted study, without running one."""
    outcomes = {
        language: LanguageOutcome(
            base=70.0,
            examples=9,
            masks={"targeted": Outcome(70.0 + gain, 2, PairedTest(gain, gain - 1, gain + 1, 0.5, 100))},
            randoms={},
        )
        for language, gain in gains.items()
    }
    config = {"model": "org/tagger", "task": "pos", "data": "phrasebook", "seed": 0}
    with open_run(folder / "scoring", config), open_run(folder, {"study": "targeted", **config}):
        for language, each in scores.items():
            each.save(folder / "scoring" / "scores" / f"{language}.json")
        seconds = dict.fromkeys(gains, 1.0)
        study = TargetedStudy(folder, "accuracy", outcomes, scores, seconds, ("The languages are aligned.",))
        write_json(folder / "targeted.json", study.to_dict())
    return folder
