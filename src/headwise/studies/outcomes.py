"""What a targeted study found: the metric of every language under every mask."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headwise.report import Curve, Gain
from headwise.results import load_scores
from headwise.scores import HeadScores
from headwise.stats import PairedTest
from headwise.studies.study import SIGNIFICANT, Figure, StudyTable, read_figures

#: Where a finished study's figures are.
FIGURES = "targeted.json"
FORMAT, VERSION = "headwise-targeted-study", 1
#: The masks that a study may try, in the order of its table.
MASKS = ("targeted", "refined", "michel", "zero-shot", "pooled")


@dataclass(frozen=True)
class Outcome:
    """What one mask does to one language.

    Attributes:
        value: The metric on test data, in percent.
        removed: Players that are off.
        test: How it differs from no mask.
    """

    value: float
    removed: int
    test: PairedTest

    @property
    def figure(self) -> Figure:
        """The value with its mark."""
        return Figure(self.value, self.test.difference, self.test.p_value)


@dataclass(frozen=True)
class LanguageOutcome:
    """What masks do to one language.

    Attributes:
        base: The metric without a mask.
        examples: Test examples.
        masks: The outcome of each mask, those of `MASKS` that there are.
        randoms: The metric under each random mask.
    """

    base: float
    examples: int
    masks: Mapping[str, Outcome]
    randoms: tuple[float, ...]

    @property
    def random(self) -> Figure | None:
        """The mean over random masks, if there are any."""
        if not self.randoms:
            return None
        return Figure(float(np.mean(self.randoms)), spread=float(np.std(self.randoms)))


@dataclass(frozen=True)
class TargetedStudy:
    """What a targeted study found.

    Attributes:
        folder: The run folder.
        metric: The metric's name.
        languages: What it found for each language.
        scores: The scores of each language.
        seconds: What scoring took, by language.
        notes: What must be said with it.
    """

    folder: Path
    metric: str
    languages: Mapping[str, LanguageOutcome]
    scores: Mapping[str, HeadScores]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    def tables(self) -> tuple[StudyTable, ...]:
        """The metric of every language under every mask."""
        kinds = [kind for kind in MASKS if any(kind in found.masks for found in self.languages.values())]
        columns = ["language", "none"]
        for kind in kinds:
            columns += [f"{kind} off", kind] if kind in ("targeted", "refined") else [kind]
        rows = [self._row(language, found, kinds) for language, found in self.languages.items()]
        note = (
            "off: how many go, by michel and random as many as targeted; + and - mark what differs from no mask "
            f"(P < {SIGNIFICANT}, paired bootstrap)."
        )
        title = f"{self.metric} on test data"
        return (StudyTable("targeted", title, (*columns, "random"), (*rows, *self._summary(kinds)), note),)

    def _row(self, language: str, found: LanguageOutcome, kinds: list[str]) -> tuple[Any, ...]:
        cells: list[Any] = [language, found.base]
        for kind in kinds:
            outcome = found.masks.get(kind)
            if kind in ("targeted", "refined"):
                cells.append(outcome.removed if outcome else None)
            cells.append(outcome.figure if outcome else None)
        return (*cells, found.random)

    def _summary(self, kinds: list[str]) -> list[tuple[Any, ...]]:
        """Two rows: the mean gain over languages, and the worst one."""
        rows = []
        for name, reduce in (("mean gain", np.mean), ("worst gain", np.min)):
            cells: list[Any] = [name, None]
            for kind in kinds:
                gains = [each.masks[kind].value - each.base for each in self.languages.values() if kind in each.masks]
                if kind in ("targeted", "refined"):
                    cells.append(None)
                cells.append(Figure(float(reduce(gains)), signed=True))
            randoms = [each.random.value - each.base for each in self.languages.values() if each.random]
            rows.append((*cells, Figure(float(reduce(randoms)), signed=True) if randoms else None))
        return rows

    def gains(self) -> tuple[Gain, ...]:
        """What the page shows of each language."""
        return tuple(_gain(language, found) for language, found in self.languages.items())

    def curves(self) -> tuple[Curve, ...]:
        """None: nothing is removed one after the other."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """The study's figures as plain data."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "metric": self.metric,
            "languages": {language: dataclasses.asdict(each) for language, each in self.languages.items()},
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }


def load_targeted(folder: Path) -> TargetedStudy:
    """The targeted study in a run folder.

    Raises:
        HeadwiseError: There is none, or it is not finished.
    """
    with read_figures(folder, FIGURES, FORMAT, VERSION) as data:
        languages = {language: _outcome(each) for language, each in data["languages"].items()}
        scores = load_scores(folder / "scoring")
        return TargetedStudy(folder, data["metric"], languages, scores, data["seconds"], tuple(data["notes"]))


def _outcome(data: Mapping[str, Any]) -> LanguageOutcome:
    masks = {
        name: Outcome(each["value"], each["removed"], PairedTest(**each["test"]))
        for name, each in data["masks"].items()
    }
    return LanguageOutcome(data["base"], data["examples"], masks, tuple(data["randoms"]))


def _gain(language: str, found: LanguageOutcome) -> Gain:
    targeted, random = found.masks["targeted"], found.random

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
        random_mean=random.value if random else None,
        random_sd=random.spread if random else None,
        michel=value("michel"),
        refined=value("refined"),
        zero_shot=value("zero-shot"),
        pooled=value("pooled"),
    )
