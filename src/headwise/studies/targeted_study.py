"""The results of a targeted study: the metric of every language under every mask."""

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwise.report import SIGNIFICANT, Gain, MaskGains, Section, gains_section, noun_of
from headwise.scores import HeadScores
from headwise.scoring.run_folder import SCORING, load_scores
from headwise.stats import PairedTest
from headwise.studies.study import check_numbers, read_figures
from headwise.studies.tables import Figure, StudyTable, TableCell

#: File with the results of a finished study.
FIGURES = "targeted.json"
FORMAT, VERSION = "headwise-targeted-study", 1
#: The main masks.
MASKS = ("targeted", "likely", "refined")
#: The main masks that are compared with random masks of the same size.
SIZED = ("targeted", "refined")
#: Other masks for comparison.
CONTROLS = ("michel", "zero-shot", "pooled")
_RANDOM, _OFF = "random as ", " off"
#: How the heads of each kind of mask are chosen, and the option of `headwise prune` that chooses them in the same way.
#: The report shows the kinds in this order, those of `MASKS` from the start.
_KINDS = {
    "refined": ("improved step by step on dev data, from the targeted mask", "--refined"),
    "targeted": ("the heads that are decided to be harmful", "--harmful"),
    "likely": ("all heads that are likely harmful, of which about 10% are expected to be harmless", "--likely"),
    "michel": ("as many heads as targeted, those with the lowest gradient importance", ""),
    "zero-shot": ("the targeted mask of the source language", ""),
    "pooled": ("one mask for all languages", ""),
}
_ABOUT = "The metric of each language on test data, compared with the whole model. All masks are chosen on dev data."


@dataclass(frozen=True)
class Outcome:
    """The result of one mask in one language.

    Attributes:
        value: The metric on test data, in percent.
        removed: Number of heads that are off.
        test: The comparison with no mask.
        off: Their names; empty in studies that did not record them.
        parameters: Number of parameters of the model before and after pruning, for main masks of heads.
    """

    value: float
    removed: int
    test: PairedTest
    off: tuple[str, ...] = ()
    parameters: tuple[int, int] | None = None

    @property
    def figure(self) -> Figure:
        """The value, marked if it differs significantly from no mask."""
        return Figure(self.value, self.test.difference, self.test.p_value)


@dataclass(frozen=True)
class LanguageOutcome:
    """The results of all masks in one language.

    Attributes:
        base: The metric without a mask.
        examples: Number of test examples.
        masks: The outcome of each mask of `MASKS` and `CONTROLS` that the study has.
        randoms: The metric under each random mask, by the name of the mask of the same size (`SIZED`).
        units: The cost of each step after scoring: `controls` (their scores), `refining` and `testing`.
    """

    base: float
    examples: int
    masks: Mapping[str, Outcome]
    randoms: Mapping[str, tuple[float, ...]]
    units: Mapping[str, float] = field(default_factory=dict)

    def random(self, kind: str) -> Figure | None:
        """The mean over random masks of the size of the given mask; None if there are none."""
        values = self.randoms.get(kind)
        return Figure(float(np.mean(values)), spread=float(np.std(values))) if values else None

    def gain(self, kind: str) -> float | None:
        """The gain of a mask, or None if there is none; `random as targeted` is a mean over random masks."""
        if kind in self.masks:
            return self.masks[kind].value - self.base
        random = self.random(kind.removeprefix(_RANDOM))
        return random.value - self.base if random else None


@dataclass(frozen=True)
class TargetedStudy:
    """The results of a targeted study.

    Attributes:
        folder: The run folder.
        metric: The metric's name.
        languages: The results for each language.
        scores: The scores of each language.
        seconds: The time of scoring, by language.
        notes: Notes to print with the results.
    """

    folder: Path
    metric: str
    languages: Mapping[str, LanguageOutcome]
    scores: Mapping[str, HeadScores]
    seconds: Mapping[str, float]
    notes: tuple[str, ...]

    def tables(self) -> tuple[StudyTable, ...]:
        """The metric of every language under the main masks, and under other masks."""
        columns = [column for kind in self._known(MASKS) for column in (f"{kind}{_OFF}", kind)]
        others = [*(f"{_RANDOM}{kind}" for kind in self._known(SIZED)), *self._known(CONTROLS)]
        note = (
            "off: number removed; michel removes as many as targeted; + and - mark a difference from no mask "
            f"(P < {SIGNIFICANT}, paired bootstrap)."
        )
        title = f"{self.metric} on test data"
        return (
            StudyTable("targeted", title, ("language", "none", *columns), self._rows(columns), note),
            StudyTable("controls", f"{title}, other masks", ("language", "none", *others), self._rows(others)),
        )

    def _known(self, kinds: Sequence[str]) -> list[str]:
        """The kinds of masks that the study has."""
        return [kind for kind in kinds if any(kind in found.masks for found in self.languages.values())]

    def _rows(self, columns: list[str]) -> tuple[tuple[TableCell, ...], ...]:
        """One row per language, and the mean and the worst gain."""
        rows = [self._row(language, found, columns) for language, found in self.languages.items()]
        return (*rows, self._summary("mean gain", np.mean, columns), self._summary("worst gain", np.min, columns))

    def _row(self, language: str, found: LanguageOutcome, columns: list[str]) -> tuple[TableCell, ...]:
        cells: list[TableCell] = [language, found.base]
        for column in columns:
            kind = column.removeprefix(_RANDOM).removesuffix(_OFF)
            if column.startswith(_RANDOM):
                cells.append(found.random(kind))
            elif kind in found.masks:
                cells.append(found.masks[kind].removed if column.endswith(_OFF) else found.masks[kind].figure)
            else:
                cells.append(None)
        return tuple(cells)

    def _summary(self, name: str, reduce: Callable[[list[float]], Any], columns: list[str]) -> tuple[TableCell, ...]:
        """The gains of all languages in one row."""
        cells: list[TableCell] = [name, None]
        for column in columns:
            gains = [found.gain(column) for found in self.languages.values()]
            known = [gain for gain in gains if gain is not None]
            cells.append(Figure(float(reduce(known)), signed=True) if known else None)
        return tuple(cells)

    def sections(self) -> tuple[Section, ...]:
        """The gains of all kinds of masks."""
        kinds = self.mask_gains()
        if not any(kind.gains for kind in kinds):
            return ()
        players = {len(each.players) for each in self.scores.values() if not each.members}
        count = players.pop() if len(players) == 1 else None
        return (gains_section(kinds, self.metric, noun_of(self.scores), count, _ABOUT),)

    def mask_gains(self) -> tuple[MaskGains, ...]:
        """The gains of each kind of mask."""
        return tuple(
            MaskGains(kind, about, self.gains(kind), kind in MASKS, self._command(option) if option else "")
            for kind, (about, option) in _KINDS.items()
        )

    def _command(self, option: str) -> str:
        """The command that prunes by one kind of mask."""
        folder = shlex.quote(str(self.folder))
        return f"headwise prune {folder} --language {{language}} {option} --out pruned-{{language}}"

    def gains(self, mask: str = "targeted") -> tuple[Gain, ...]:
        """The gain of each language by one kind of mask."""
        return tuple(_gain(language, found, mask) for language, found in self.languages.items() if mask in found.masks)

    def units(self) -> Mapping[str, Mapping[str, float]]:
        """The cost of each step after scoring, by language."""
        return {language: found.units for language, found in self.languages.items()}

    def to_dict(self) -> dict[str, Any]:
        """The results as plain data."""
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
        scores = load_scores(folder / SCORING)
        return TargetedStudy(folder, data["metric"], languages, scores, data["seconds"], tuple(data["notes"]))


def _outcome(data: Mapping[str, Any]) -> LanguageOutcome:
    masks = {name: _mask_outcome(each) for name, each in data["masks"].items()}
    randoms = {kind: tuple(values) for kind, values in data["randoms"].items()}
    units = dict(data.get("units", {}))
    figures = [number for each in masks.values() for number in (each.value, each.removed, *astuple(each.test))]
    figures += [*(number for each in randoms.values() for number in each), *units.values()]
    check_numbers(data["base"], data["examples"], *figures)
    return LanguageOutcome(data["base"], data["examples"], masks, randoms, units)


def _mask_outcome(data: Mapping[str, Any]) -> Outcome:
    sizes = data.get("parameters")
    if sizes is not None:
        check_numbers(*sizes)
        sizes = (sizes[0], sizes[1])
    off = tuple(map(str, data.get("off", ())))
    return Outcome(data["value"], data["removed"], PairedTest(**data["test"]), off, sizes)


def _gain(language: str, found: LanguageOutcome, kind: str) -> Gain:
    """The gain of a language by one mask."""
    mask, random = found.masks[kind], found.random(kind)
    return Gain(
        language=language,
        heads_removed=mask.removed,
        base=found.base,
        pruned=mask.value,
        low=mask.test.low,
        high=mask.test.high,
        p_value=mask.test.p_value,
        random_mean=random.value if random else None,
        random_sd=random.spread if random else None,
        off=mask.off,
        parameters=mask.parameters,
    )
